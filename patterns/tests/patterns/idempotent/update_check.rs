//! The check of updates, judged by what updates do: whatever it calls idempotent leaves, carried out twice,
//! what it leaves carried out once; and whatever it says is not has a document that shows it.

mod generate;
mod real;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use steadfast::{
    bson::{Bson, DateTime, Document, Timestamp, doc},
    options::{UpdateModifications, UpdateOptions},
};
use steadfast_patterns::idempotent::update::{
    Idempotence, of_update, of_update_many, of_update_one,
};
use steadfast_query::{Environment, Fault, Filter, Update};

use self::generate::Case;

/// What a server knows at the first sending, or at the second: later, and with other dice.
fn at_sending(number: u32) -> Environment {
    let now = DateTime::from_millis(1_467_072_000_000 + i64::from(number) * 1000);
    let cluster_time = Timestamp { time: 1_467_072_000 + number, increment: 1 };
    Environment::new(now, cluster_time, u64::from(number))
}

/// A statement as a server has read it, if it takes it.
struct Statement {
    update: Update,
    filter: Filter,
    upsert: bool,
}

impl Statement {
    fn parse(
        update: &Document,
        filter: &Document,
        array_filters: &[Document],
        upsert: bool,
    ) -> Option<Self> {
        let env = at_sending(0);
        let update = Update::parse(&Bson::from(update.clone()), array_filters, &env).ok()?;
        Some(Self { update, filter: Filter::parse(filter, &env).ok()?, upsert })
    }

    /// What one sending makes of a collection with one document, or with none.
    fn carry_out(
        &self,
        there: Option<&Document>,
        sending: u32,
    ) -> Result<Option<Document>, String> {
        let env = at_sending(sending);
        let fault = |fault: Fault| format!("{fault:?}");
        if let Some(document) = there
            && self.filter.matches(document, &env).map_err(fault)?
        {
            let changed = self.update.apply(document, &self.filter, &env).map_err(fault)?;
            return Ok(Some(changed.unwrap_or_else(|| document.clone())));
        }
        if !self.upsert {
            return Ok(there.cloned());
        }
        let inserted = self.update.upserted(&self.filter, &env).map_err(fault)?;
        match there {
            Some(document) if document.get("_id") == inserted.get("_id") => {
                Err("duplicate key".to_owned())
            }
            _ => Ok(Some(inserted)),
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    idempotent: usize,
    other: usize,
    /// Idempotent ones that a server takes, and that change something.
    changing: usize,
    upserting: usize,
}

fn judge(case: &Case, tally: &mut Tally) {
    let Case { document, update, filter, array_filters, upsert } = case;
    let options = UpdateOptions::builder()
        .array_filters((!array_filters.is_empty()).then(|| array_filters.clone()))
        .upsert(*upsert)
        .build();
    let modifications = UpdateModifications::from(update.clone());
    if !of_update_one(filter, &modifications, Some(&options)).is_idempotent() {
        tally.other += 1;
        return;
    }
    tally.idempotent += 1;
    let Some(statement) = Statement::parse(update, filter, array_filters, *upsert) else { return };
    // A statement that is refused changes nothing, however often.
    let Ok(once) = statement.carry_out(document.as_ref(), 1) else { return };
    if bytes(&once) != bytes(document) {
        tally.changing += 1;
        tally.upserting += usize::from(document.is_none());
    }
    let twice = statement.carry_out(once.as_ref(), 2).unwrap_or_else(|fault| {
        panic!("the second is refused, {fault}: {case:#?}, of which the first made {once:?}")
    });
    assert!(bytes(&once) == bytes(&twice), "{case:#?}: once {once:?}, twice {twice:?}");
}

/// Equal to the last bit, and a NaN equals a NaN.
fn bytes(document: &Option<Document>) -> Option<Vec<u8>> {
    document.as_ref().map(|document| document.to_vec().unwrap())
}

/// Judges so many cases, the same in every run.
fn judge_all(cases: impl Strategy<Value = Case>, count: usize) -> Tally {
    let dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), dice);
    let mut tally = Tally::default();
    for _ in 0..count {
        judge(&cases.new_tree(&mut runner).unwrap().current(), &mut tally);
    }
    tally
}

#[test]
fn what_is_called_idempotent_leaves_twice_what_it_leaves_once() {
    const CASES: usize = 20_000;
    let tally = judge_all(generate::cases(), CASES);
    // The cases are worth something.
    assert!(tally.idempotent > CASES / 2 && tally.other > CASES / 5, "{tally:?}");
    assert!(tally.changing > CASES / 10 && tally.upserting > CASES / 100, "{tally:?}");
}

#[test]
fn elements_that_are_called_safe_to_choose_again_are() {
    const CASES: usize = 10_000;
    let tally = judge_all(generate::cases_of_elements(), CASES);
    assert!(tally.other > CASES / 10 && tally.changing > CASES / 10, "{tally:?}");
}

/// A document of which a second sending makes something else than the first.
fn assert_witness(
    update: Document,
    array_filters: &[Document],
    filter: Document,
    witness: Document,
) {
    let verdict = of_update_many(
        &filter,
        &update.clone().into(),
        Some(&UpdateOptions::builder().array_filters(array_filters.to_vec()).build()),
    );
    assert!(!verdict.is_idempotent(), "{update}: {verdict}");
    let statement = Statement::parse(&update, &filter, array_filters, false).unwrap();
    let once = statement.carry_out(Some(&witness), 1).unwrap();
    let twice = statement.carry_out(once.as_ref(), 2).unwrap();
    assert_ne!(once, twice, "{update}");
}

#[test]
fn each_operator_that_is_called_not_idempotent_has_a_document_that_shows_it() {
    let x = |value: Bson| doc! { "_id": 1, "x": value };
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    for (update, witness) in [
        (doc! { "$inc": { "x": 1 } }, x(1.into())),
        (doc! { "$mul": { "x": 2 } }, x(1.into())),
        (doc! { "$push": { "x": 1 } }, x(Bson::Array(vec![]))),
        (doc! { "$pop": { "x": 1 } }, x(vec![1, 2].into())),
        (doc! { "$currentDate": { "x": true } }, x(1.into())),
        (doc! { "$bit": { "x": { "xor": 1 } } }, x(1.into())),
        (doc! { "x": empty }, x(1.into())),
    ] {
        assert_witness(update, &[], doc! {}, witness);
    }
}

#[test]
fn each_way_to_choose_elements_that_is_not_safe_has_a_document_that_shows_it() {
    let fives: Bson = vec![5, 5].into();
    let positional = doc! { "$set": { "a.$": 6 } };
    assert_witness(positional, &[], doc! { "a": 5 }, doc! { "_id": 1, "a": fives });
    let elements: Bson = vec![doc! { "x": 0 }, doc! { "x": 1 }].into();
    let witness = doc! { "_id": 1, "a": elements };
    let all_and_some = doc! { "$set": { "a.$[].x": 1, "a.$[e].y": 2 } };
    assert_witness(all_and_some, &[doc! { "e.x": 1 }], doc! {}, witness.clone());
    let two_ways = doc! { "$set": { "a.$[e].x": 1, "a.$[f].y": 2 } };
    let filters = [doc! { "e.x": 0 }, doc! { "f.x": 1 }];
    assert_witness(two_ways, &filters, doc! {}, witness);
}

#[test]
fn a_pipeline_can_go_either_way_and_is_not_told() {
    for pipeline in
        [vec![doc! { "$set": { "x": 1 } }], vec![doc! { "$set": { "x": { "$add": ["$x", 1] } } }]]
    {
        let verdict = of_update(&pipeline.into(), &[]);
        assert!(matches!(verdict, Idempotence::Unknown(_)), "{verdict}");
    }
}

#[test]
fn an_upsert_that_is_not_safe_has_a_case_that_shows_it() {
    let set = doc! { "$set": { "v": 2 } };
    for filter in [doc! { "_id": 1, "v": 1 }, doc! { "_id": 1, "w": { "$gt": 1 } }] {
        let options = UpdateOptions::builder().upsert(true).build();
        let verdict = of_update_one(&filter, &set.clone().into(), Some(&options));
        assert!(!verdict.is_idempotent(), "{filter}");
        let statement = Statement::parse(&set, &filter, &[], true).unwrap();
        let once = statement.carry_out(None, 1).unwrap();
        statement.carry_out(once.as_ref(), 2).expect_err("the second is refused");
    }
}
