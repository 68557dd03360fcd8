//! Comparison of the check with real executions: an update that is idempotent by the check has the same result
//! twice; each rejected form has a counterexample.

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

/// Returns the environment of an attempt: a later one has a later time and other random numbers.
fn at_attempt(number: u32) -> Environment {
    let now = DateTime::from_millis(1_467_072_000_000 + i64::from(number) * 1000);
    let cluster_time = Timestamp { time: 1_467_072_000 + number, increment: 1 };
    Environment::new(now, cluster_time, u64::from(number))
}

/// A parsed update statement.
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
        let env = at_attempt(0);
        let update = Update::parse(&Bson::from(update.clone()), array_filters, &env).ok()?;
        Some(Self { update, filter: Filter::parse(filter, &env).ok()?, upsert })
    }

    /// Executes the statement on a collection with one document, or with none.
    fn execute(&self, there: Option<&Document>, attempt: u32) -> Result<Option<Document>, String> {
        let env = at_attempt(attempt);
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
struct CaseCounts {
    idempotent: usize,
    other: usize,
    /// Idempotent updates that the server accepts and that change the document.
    changing: usize,
    upserting: usize,
}

fn check_case(case: &Case, counts: &mut CaseCounts) {
    let Case { document, update, filter, array_filters, upsert } = case;
    let options = UpdateOptions::builder()
        .array_filters((!array_filters.is_empty()).then(|| array_filters.clone()))
        .upsert(*upsert)
        .build();
    let modifications = UpdateModifications::from(update.clone());
    if !of_update_one(filter, &modifications, Some(&options)).is_idempotent() {
        counts.other += 1;
        return;
    }
    counts.idempotent += 1;
    let Some(statement) = Statement::parse(update, filter, array_filters, *upsert) else { return };
    // A statement that the server rejects changes nothing.
    let Ok(once) = statement.execute(document.as_ref(), 1) else { return };
    if bytes(&once) != bytes(document) {
        counts.changing += 1;
        counts.upserting += usize::from(document.is_none());
    }
    let twice = statement.execute(once.as_ref(), 2).unwrap_or_else(|fault| {
        panic!("the second is rejected, {fault}: {case:#?}, of which the first made {once:?}")
    });
    assert!(bytes(&once) == bytes(&twice), "{case:#?}: once {once:?}, twice {twice:?}");
}

/// Compares documents by their bytes, so that a NaN equals a NaN.
fn bytes(document: &Option<Document>) -> Option<Vec<u8>> {
    document.as_ref().map(|document| bson::document_to_vec(document).unwrap())
}

/// Checks `count` cases, the same in every run.
fn check_cases(cases: impl Strategy<Value = Case>, count: usize) -> CaseCounts {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut counts = CaseCounts::default();
    for _ in 0..count {
        check_case(&cases.new_tree(&mut runner).unwrap().current(), &mut counts);
    }
    counts
}

#[test]
fn idempotent_update_has_the_same_result_twice() {
    const CASES: usize = 20_000;
    let counts = check_cases(generate::cases(), CASES);
    // The generated cases cover all outcomes.
    assert!(counts.idempotent > CASES / 2 && counts.other > CASES / 5, "{counts:?}");
    assert!(counts.changing > CASES / 10 && counts.upserting > CASES / 100, "{counts:?}");
}

#[test]
fn idempotent_array_update_has_the_same_result_twice() {
    const CASES: usize = 10_000;
    let counts = check_cases(generate::cases_of_elements(), CASES);
    assert!(counts.other > CASES / 10 && counts.changing > CASES / 10, "{counts:?}");
}

/// Asserts that the check rejects the update, and that a second execution changes this document.
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
    let once = statement.execute(Some(&witness), 1).unwrap();
    let twice = statement.execute(once.as_ref(), 2).unwrap();
    assert_ne!(once, twice, "{update}");
}

#[test]
fn operator_that_is_not_idempotent_has_a_counterexample() {
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
fn array_selection_that_is_not_idempotent_has_a_counterexample() {
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
fn idempotence_of_a_pipeline_is_unknown() {
    for pipeline in
        [vec![doc! { "$set": { "x": 1 } }], vec![doc! { "$set": { "x": { "$add": ["$x", 1] } } }]]
    {
        let verdict = of_update(&pipeline.into(), &[]);
        assert!(matches!(verdict, Idempotence::Unknown(_)), "{verdict}");
    }
}

#[test]
fn upsert_that_is_not_idempotent_has_a_counterexample() {
    let set = doc! { "$set": { "v": 2 } };
    for filter in [doc! { "_id": 1, "v": 1 }, doc! { "_id": 1, "w": { "$gt": 1 } }] {
        let options = UpdateOptions::builder().upsert(true).build();
        let verdict = of_update_one(&filter, &set.clone().into(), Some(&options));
        assert!(!verdict.is_idempotent(), "{filter}");
        let statement = Statement::parse(&set, &filter, &[], true).unwrap();
        let once = statement.execute(None, 1).unwrap();
        statement.execute(once.as_ref(), 2).expect_err("the second is rejected");
    }
}
