//! Connection Monitoring and Pooling: check-outs and check-ins of a pool, and its events.
//!
//! A case is a list of operations on one pool, some of them in threads, and the expected events. The pool is the
//! driver's. Time, threads, connections and handshakes are simulated, so that a case takes no time and is repeatable.

mod format;
mod server;
mod simulator;

use serde_json::Value;

use self::{
    format::{CmapTest, ExpectedCheckOutError},
    simulator::{SimulationResult, Simulator},
};
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "connection_monitoring", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files(SUITE.name)?;
    files
        .into_iter()
        .map(|file| {
            let test: CmapTest = file.json()?;
            let description = test.description.clone();
            Ok(Case::new(file.name, description, move || check(test)))
        })
        .collect()
}

fn check(test: CmapTest) -> Result<(), String> {
    let mut simulator = Simulator::new(&test.pool_options, test.fail_point);
    let result = simulator.run(test.operations)?;
    compare_error(test.error.as_ref(), result)?;
    let mut seen = simulator.into_events();
    seen.retain(|event| !test.ignore.iter().any(|ignored| event["type"] == ignored.as_str()));
    compare_events(&test.events, &seen)
}

fn compare_error(
    expected: Option<&ExpectedCheckOutError>,
    result: SimulationResult,
) -> Result<(), String> {
    match (expected, result) {
        (None, SimulationResult::Finished) => Ok(()),
        (None, SimulationResult::Failed { error, .. }) => Err(format!("unexpected error: {error}")),
        (Some(expected), SimulationResult::Finished) => {
            Err(format!("no {} was raised", expected.kind))
        }
        // The specification and its tests differ in capital letters.
        (Some(expected), SimulationResult::Failed { kind, error })
            if kind == expected.kind && error.eq_ignore_ascii_case(&expected.message) =>
        {
            Ok(())
        }
        (Some(expected), SimulationResult::Failed { kind, error }) => {
            Err(format!("expected {}: {}, got {kind}: {error}", expected.kind, expected.message))
        }
    }
}

fn compare_events(expected: &[Value], seen: &[Value]) -> Result<(), String> {
    let mut expected = expected.to_vec();
    accept_either_order(&mut expected, seen);
    for (index, wanted) in expected.iter().enumerate() {
        let matched = seen.get(index).is_some_and(|event| matches(wanted, event));
        if !matched {
            return Err(format!("event {index} should match {wanted}; seen: {seen:#?}"));
        }
    }
    Ok(())
}

/// Accepts either order of "pool cleared" and "connection closed" after a connection could not be established. The
/// `specifications` repository expects the pool to be cleared first, PyMongo's edition the connection to be closed first.
fn accept_either_order(expected: &mut [Value], seen: &[Value]) {
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

/// The specification's match function: `seen` contains all of `expected`, and 42 matches any value but `null`.
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
    fn any_value_matches_42_except_null() {
        assert!(matches(&json!({"address": 42}), &json!({"address": "a", "duration": 1})));
        assert!(!matches(&json!({"address": 42}), &json!({"address": null})));
        assert!(!matches(&json!({"reason": "stale"}), &json!({"reason": "idle"})));
    }

    #[test]
    fn events_out_of_order_are_an_error() {
        let event = |name| json!({ "type": name });
        let (a, b) = (event("ConnectionCreated"), event("ConnectionReady"));
        assert!(compare_events(&[a.clone(), b.clone()], &[a.clone(), b.clone()]).is_ok());
        assert!(compare_events(&[a.clone(), b.clone()], &[b.clone(), a.clone()]).is_err());
        assert!(compare_events(&[a.clone(), b], &[a]).is_err());
    }

    #[test]
    fn only_pool_cleared_and_connection_closed_may_be_swapped() {
        let cleared = json!({ "type": "ConnectionPoolCleared" });
        let closed = |reason| json!({ "type": "ConnectionClosed", "reason": reason });
        let seen = [cleared.clone(), closed("error")];
        assert!(compare_events(&[closed("error"), cleared.clone()], &seen).is_ok());
        let seen = [cleared.clone(), closed("stale")];
        assert!(compare_events(&[closed("stale"), cleared], &seen).is_err());
    }
}
