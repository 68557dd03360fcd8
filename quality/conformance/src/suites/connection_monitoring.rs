//! Connection pools: what they hand out, in which order, and the events they tell of it.
//!
//! A case is a list of operations on one pool, some of them in threads, and the events to be seen.
//! It runs in a simulation: the pool is the real one, while time, threads, connections and the
//! server's handshakes are simulated, so that a case takes no time and always ends the same way.

mod format;
mod server;
mod simulator;

use serde_json::Value;

use self::{
    format::{ExpectedError, TestFile},
    simulator::{Outcome, Simulator},
};
use crate::{Case, Context, LoadError, Suite};

/// The suite of this file.
pub const SUITE: Suite = Suite { name: "connection_monitoring", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files(SUITE.name)?;
    files
        .into_iter()
        .map(|file| {
            let test: TestFile = file.json()?;
            let description = test.description.clone();
            Ok(Case::new(file.name, description, move || check(test)))
        })
        .collect()
}

fn check(test: TestFile) -> Result<(), String> {
    let mut simulator = Simulator::new(&test.pool_options, test.fail_point);
    let outcome = simulator.run(test.operations)?;
    compare_error(test.error.as_ref(), outcome)?;
    let mut seen = simulator.into_events();
    seen.retain(|event| !test.ignore.iter().any(|ignored| event["type"] == ignored.as_str()));
    compare_events(&test.events, &seen)
}

fn compare_error(expected: Option<&ExpectedError>, outcome: Outcome) -> Result<(), String> {
    match (expected, outcome) {
        (None, Outcome::Finished) => Ok(()),
        (None, Outcome::Failed { error, .. }) => Err(format!("unexpected error: {error}")),
        (Some(expected), Outcome::Finished) => Err(format!("no {} was raised", expected.kind)),
        // The specification itself does not agree with its tests on capital letters.
        (Some(expected), Outcome::Failed { kind, error })
            if kind == expected.kind && error.eq_ignore_ascii_case(&expected.message) =>
        {
            Ok(())
        }
        (Some(expected), Outcome::Failed { kind, error }) => {
            Err(format!("expected {}: {}, got {kind}: {error}", expected.kind, expected.message))
        }
    }
}

fn compare_events(expected: &[Value], seen: &[Value]) -> Result<(), String> {
    let mut expected = expected.to_vec();
    settle_disagreement(&mut expected, seen);
    for (index, wanted) in expected.iter().enumerate() {
        let matched = seen.get(index).is_some_and(|event| matches(wanted, event));
        if !matched {
            return Err(format!("event {index} should match {wanted}; seen: {seen:#?}"));
        }
    }
    Ok(())
}

/// When establishing a connection fails and the pool is cleared for it, the editions of this suite
/// disagree: the `specifications` repository has the pool cleared before the connection is
/// closed, PyMongo's copy the other way round. Either order of these two is accepted.
fn settle_disagreement(expected: &mut [Value], seen: &[Value]) {
    let cleared = |event: &Value| event["type"] == "ConnectionPoolCleared";
    let closed = |event: &Value| event["type"] == "ConnectionClosed" && event["reason"] == "error";
    for index in 1..expected.len() {
        let pair = (&expected[index - 1], &expected[index]);
        let disputed = (closed(pair.0) && cleared(pair.1)) || (cleared(pair.0) && closed(pair.1));
        let swapped = seen.get(index).is_some_and(|event| matches(pair.0, event));
        if disputed && swapped {
            expected.swap(index - 1, index);
        }
    }
}

/// The specification's match function: what is expected is a part of what is seen, and 42 stands
/// for anything that is there.
fn matches(expected: &Value, seen: &Value) -> bool {
    if *expected == 42 || *expected == "42" {
        return !seen.is_null();
    }
    match (expected, seen) {
        (Value::Object(expected), Value::Object(seen)) => expected
            .iter()
            .all(|(key, value)| seen.get(key).is_some_and(|found| matches(value, found))),
        (Value::Array(expected), Value::Array(seen)) => expected
            .iter()
            .enumerate()
            .all(|(index, value)| seen.get(index).is_some_and(|found| matches(value, found))),
        (expected, seen) => expected == seen,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anything_matches_42_but_nothing_does_not() {
        assert!(matches(&json!({"address": 42}), &json!({"address": "a", "duration": 1})));
        assert!(!matches(&json!({"address": 42}), &json!({"address": null})));
        assert!(!matches(&json!({"reason": "stale"}), &json!({"reason": "idle"})));
    }

    #[test]
    fn events_out_of_order_are_noticed() {
        let event = |name| json!({ "type": name });
        let (a, b) = (event("ConnectionCreated"), event("ConnectionReady"));
        assert!(compare_events(&[a.clone(), b.clone()], &[a.clone(), b.clone()]).is_ok());
        assert!(compare_events(&[a.clone(), b.clone()], &[b.clone(), a.clone()]).is_err());
        assert!(compare_events(&[a.clone(), b], &[a]).is_err());
    }

    #[test]
    fn only_the_order_in_dispute_is_free() {
        let cleared = json!({ "type": "ConnectionPoolCleared" });
        let closed = |reason| json!({ "type": "ConnectionClosed", "reason": reason });
        let seen = [cleared.clone(), closed("error")];
        assert!(compare_events(&[closed("error"), cleared.clone()], &seen).is_ok());
        let seen = [cleared.clone(), closed("stale")];
        assert!(compare_events(&[closed("stale"), cleared], &seen).is_err());
    }
}
