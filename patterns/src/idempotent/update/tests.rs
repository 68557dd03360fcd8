//! Check of updates, for each row of its table.

use bson::{Bson, Timestamp, doc};

use super::*;

fn of(update: Document) -> Idempotence {
    of_update(&update.into(), &[])
}

fn upserting() -> UpdateOptions {
    UpdateOptions::builder().upsert(true).build()
}

#[test]
fn operators_that_set_a_value_are_idempotent() {
    for update in [
        doc! { "$set": { "a": 1, "b.c": [1] }, "$unset": { "d": "" } },
        doc! { "$setOnInsert": { "a": 1 }, "$min": { "b": 1 }, "$max": { "c": 1 } },
        doc! { "$addToSet": { "a": { "$each": [1, 2] } }, "$pull": { "b": { "$gt": 3 } } },
        doc! { "$pullAll": { "a": [1] }, "$rename": { "b": "c" } },
        doc! { "$bit": { "a": { "and": 5, "or": 2 } } },
        doc! { "$set": { "at": Bson::Timestamp(Timestamp { time: 0, increment: 0 }) } },
        doc! { "$inc": {} },
    ] {
        assert_eq!(of(update.clone()), Idempotence::Idempotent, "{update}");
    }
}

#[test]
fn operators_that_accumulate_are_not_idempotent() {
    for (update, operator) in [
        (doc! { "$inc": { "n": 1 } }, "$inc"),
        (doc! { "$set": { "a": 1 }, "$mul": { "n": 2 } }, "$mul"),
        (doc! { "$push": { "n": 1 } }, "$push"),
        (doc! { "$pop": { "n": 1 } }, "$pop"),
        (doc! { "$currentDate": { "n": true } }, "$currentDate"),
        (doc! { "$bit": { "n": { "xor": 1 } } }, "$bit with xor"),
    ] {
        let Idempotence::NotIdempotent(reason) = of(update.clone()) else { panic!("{update}") };
        assert!(reason.starts_with(operator) && reason.contains("\"n\""), "{reason}");
    }
}

#[test]
fn unsupported_operators_and_arguments_are_unknown() {
    for update in [
        doc! { "$set": { "a": 1 }, "$someday": { "b": 1 } },
        doc! { "$set": 1 },
        doc! { "$bit": { "a": { "nand": 1 } } },
    ] {
        assert!(matches!(of(update.clone()), Idempotence::Unknown(_)), "{update}");
    }
    let pipeline = vec![doc! { "$set": { "a": 1 } }].into();
    assert!(matches!(of_update(&pipeline, &[]), Idempotence::Unknown(_)));
}

#[test]
fn replacement_is_idempotent_unless_it_has_an_empty_timestamp() {
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    assert!(of(doc! { "a": 1, "b": { "at": empty.clone() } }).is_idempotent());
    assert!(of(doc! { "_id": empty.clone(), "a": 1 }).is_idempotent());
    assert!(of(doc! {}).is_idempotent());
    assert!(matches!(of(doc! { "a": empty }), Idempotence::NotIdempotent(_)));
}

#[test]
fn positional_operator_is_not_idempotent() {
    let Idempotence::NotIdempotent(reason) = of(doc! { "$set": { "a.$.b": 1 } }) else { panic!() };
    assert!(reason.contains("\"a.$.b\""), "{reason}");
    // A name that merely begins with a dollar sign.
    assert!(of(doc! { "$set": { "a.$b": 1 } }).is_idempotent());
}

#[test]
fn array_elements_need_a_single_selector() {
    for update in [
        doc! { "$set": { "a.$[].x": 1, "b.$[e].y": 1 } },
        doc! { "$set": { "a.$[e].x": 1, "a.$[e].y": 1 } },
        doc! { "$set": { "a.$[e].b.$[i].x": 1 }, "$unset": { "a.$[e].c": 1 } },
        doc! { "$pull": { "a.$[]": 1 } },
    ] {
        assert!(of(update.clone()).is_idempotent(), "{update}");
    }
    for update in [
        doc! { "$set": { "a.$[].x": 1, "a.$[e].y": 2 } },
        doc! { "$set": { "a.$[i].x": 1, "a.$[j].y": 2 } },
        doc! { "$set": { "a.$[].b.$[].x": 1 }, "$max": { "a.$[].b.$[e].y": 2 } },
    ] {
        assert!(matches!(of(update.clone()), Idempotence::Unknown(_)), "{update}");
    }
}

#[test]
fn random_operators_in_filters_are_unknown() {
    let set: UpdateModifications = doc! { "$set": { "a.$[e]": 1 } }.into();
    let random = doc! { "$expr": { "$lt": [{ "$rand": {} }, 0.5] } };
    assert!(matches!(of_update(&set, std::slice::from_ref(&random)), Idempotence::Unknown(_)));
    assert!(matches!(of_update_many(&random, &set, None), Idempotence::Unknown(_)));
    let options = UpdateOptions::builder().let_vars(doc! { "r": { "$rand": {} } }).build();
    assert!(matches!(of_update_many(&doc! {}, &set, Some(&options)), Idempotence::Unknown(_)));
    let pull = doc! { "$pull": { "a": { "$where": "Math.random() < 0.5" } } };
    assert!(matches!(of(pull), Idempotence::Unknown(_)));
}

#[test]
fn update_one_selects_the_same_document_only_by_its_id() {
    let take = doc! { "$set": { "state": "taken" } }.into();
    assert!(of_update_one(&doc! { "_id": 1, "state": "new" }, &take, None).is_idempotent());
    let Idempotence::NotIdempotent(reason) = of_update_one(&doc! { "state": "new" }, &take, None)
    else {
        panic!()
    };
    assert!(reason.contains("_id"), "{reason}");
    assert!(of_update_many(&doc! { "state": "new" }, &take, None).is_idempotent());
}

#[test]
fn string_id_with_a_collation_does_not_identify_a_document() {
    let collation = steadfast::options::Collation::builder()
        .locale("en")
        .strength(steadfast::options::CollationStrength::Secondary);
    let options = UpdateOptions::builder().collation(collation.build()).build();
    let set = doc! { "$set": { "a": 1 } }.into();
    assert!(!of_update_one(&doc! { "_id": "a" }, &set, Some(&options)).is_idempotent());
    assert!(of_update_one(&doc! { "_id": 1 }, &set, Some(&options)).is_idempotent());
    let simple = steadfast::options::Collation::builder().locale("simple").build();
    let options = UpdateOptions::builder().collation(simple).build();
    assert!(of_update_one(&doc! { "_id": "a" }, &set, Some(&options)).is_idempotent());
}

#[test]
fn upsert_filter_must_match_the_inserted_document() {
    let set = doc! { "$set": { "n": 2 } }.into();
    let options = upserting();
    for filter in [doc! { "_id": 1 }, doc! { "_id": 1, "site": "alfa", "m": { "$eq": 3 } }] {
        assert!(of_update_one(&filter, &set, Some(&options)).is_idempotent(), "{filter}");
        assert!(of_update_many(&filter, &set, Some(&options)).is_idempotent(), "{filter}");
    }
    let unpinned = of_update_many(&doc! { "site": "alfa" }, &set, Some(&options));
    assert!(matches!(unpinned, Idempotence::NotIdempotent(_)), "{unpinned}");
    for filter in [
        doc! { "_id": 1, "n": 1 },
        doc! { "_id": 1, "n.x": 1 },
        doc! { "_id": 1, "m": { "$gt": 3 } },
    ] {
        let check = of_update_one(&filter, &set, Some(&options));
        assert!(matches!(check, Idempotence::Unknown(_)), "{filter}: {check}");
    }
    let rename = doc! { "$rename": { "a": "b" } }.into();
    for filter in [doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "b": 1 }] {
        assert!(!of_update_one(&filter, &rename, Some(&options)).is_idempotent(), "{filter}");
    }
}

#[test]
fn upserted_replacement_keeps_only_the_id_of_the_filter() {
    let options = upserting();
    let filter = doc! { "_id": 1, "site": "alfa" };
    let check = |whole: Document| of_update_one(&filter, &whole.into(), Some(&options));
    assert!(check(doc! { "site": "alfa", "n": 1 }).is_idempotent());
    assert!(!check(doc! { "n": 1 }).is_idempotent());
    assert!(!check(doc! { "site": "bravo" }).is_idempotent());
}

#[test]
fn result_is_displayed_as_a_sentence() {
    assert_eq!(Idempotence::Idempotent.to_string(), "idempotent");
    assert_eq!(
        of(doc! { "$inc": { "counter": 1 } }).to_string(),
        "not idempotent: $inc of \"counter\" adds at each execution"
    );
    let unknown = of_update(&vec![doc! { "$set": { "a": 1 } }].into(), &[]);
    assert!(unknown.to_string().starts_with("not known to be idempotent: a pipeline"));
}
