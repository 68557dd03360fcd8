//! The check, row by row of its table.

use bson::{Bson, Timestamp, doc};

use super::*;

fn of(update: Document) -> Idempotence {
    of_update(&update.into(), &[])
}

fn upserting() -> UpdateOptions {
    UpdateOptions::builder().upsert(true).build()
}

#[test]
fn operators_that_say_what_is_to_be_are_idempotent() {
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
fn operators_that_do_something_each_time_are_not() {
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
fn what_is_not_known_is_said_to_be_unknown() {
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
fn a_whole_document_is_idempotent_unless_the_server_puts_in_the_time() {
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    assert!(of(doc! { "a": 1, "b": { "at": empty.clone() } }).is_idempotent());
    assert!(of(doc! { "_id": empty.clone(), "a": 1 }).is_idempotent());
    assert!(of(doc! {}).is_idempotent());
    assert!(matches!(of(doc! { "a": empty }), Idempotence::NotIdempotent(_)));
}

#[test]
fn the_element_that_matched_may_be_another_the_second_time() {
    let Idempotence::NotIdempotent(reason) = of(doc! { "$set": { "a.$.b": 1 } }) else { panic!() };
    assert!(reason.contains("\"a.$.b\""), "{reason}");
    // A name that merely begins with a dollar sign.
    assert!(of(doc! { "$set": { "a.$b": 1 } }).is_idempotent());
}

#[test]
fn elements_of_an_array_are_to_be_chosen_in_one_way() {
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
fn chance_in_a_filter_is_not_safe_wherever_it_is() {
    let set: UpdateModifications = doc! { "$set": { "a.$[e]": 1 } }.into();
    let dice = doc! { "$expr": { "$lt": [{ "$rand": {} }, 0.5] } };
    assert!(matches!(of_update(&set, std::slice::from_ref(&dice)), Idempotence::Unknown(_)));
    assert!(matches!(of_update_many(&dice, &set, None), Idempotence::Unknown(_)));
    let options = UpdateOptions::builder().let_vars(doc! { "r": { "$rand": {} } }).build();
    assert!(matches!(of_update_many(&doc! {}, &set, Some(&options)), Idempotence::Unknown(_)));
    let pull = doc! { "$pull": { "a": { "$where": "Math.random() < 0.5" } } };
    assert!(matches!(of(pull), Idempotence::Unknown(_)));
}

#[test]
fn an_update_of_one_takes_the_same_document_only_by_its_id() {
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
fn a_collation_of_its_own_takes_the_pin_from_a_string() {
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
fn an_upsert_must_find_what_it_has_inserted() {
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
        let verdict = of_update_one(&filter, &set, Some(&options));
        assert!(matches!(verdict, Idempotence::Unknown(_)), "{filter}: {verdict}");
    }
    let rename = doc! { "$rename": { "a": "b" } }.into();
    for filter in [doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "b": 1 }] {
        assert!(!of_update_one(&filter, &rename, Some(&options)).is_idempotent(), "{filter}");
    }
}

#[test]
fn a_whole_document_keeps_nothing_of_an_upserts_filter_but_the_id() {
    let options = upserting();
    let filter = doc! { "_id": 1, "site": "alfa" };
    let verdict = |whole: Document| of_update_one(&filter, &whole.into(), Some(&options));
    assert!(verdict(doc! { "site": "alfa", "n": 1 }).is_idempotent());
    assert!(!verdict(doc! { "n": 1 }).is_idempotent());
    assert!(!verdict(doc! { "site": "bravo" }).is_idempotent());
}

#[test]
fn a_verdict_reads_like_a_sentence() {
    assert_eq!(Idempotence::Idempotent.to_string(), "idempotent");
    assert_eq!(
        of(doc! { "$inc": { "counter": 1 } }).to_string(),
        "not idempotent: $inc of \"counter\" adds each time that it is carried out"
    );
    let unknown = of_update(&vec![doc! { "$set": { "a": 1 } }].into(), &[]);
    assert!(unknown.to_string().starts_with("not known to be idempotent: a pipeline"));
}
