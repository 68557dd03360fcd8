//! Tests that the runner must fail, each for one reason. The suites have the tests that it must pass.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use super::{TestFile, run_one};
use crate::{CaseResult, Context, SpecDir, Target};

/// Runs a test with a client, a database and a collection that contains `{ _id: 1, x: 1 }`.
fn run(test: Document) -> CaseResult {
    run_on(Target::Mongod6_0, test)
}

fn run_on(target: Target, test: Document) -> CaseResult {
    let mut test = test;
    test.insert("description", "a test");
    let file = doc! {
        "description": "a file",
        "schemaVersion": "1.16",
        "createEntities": [
            { "client": {
                "id": "client",
                "uriOptions": { "retryReads": false, "retryWrites": false },
                "observeEvents": ["commandStartedEvent", "commandFailedEvent"],
                "observeLogMessages": { "command": "debug" },
            } },
            { "database": { "id": "db", "client": "client", "databaseName": "runner" } },
            { "collection": { "id": "coll", "database": "db", "collectionName": "c" } },
        ],
        "initialData": [
            { "databaseName": "runner", "collectionName": "c", "documents": [{ "_id": 1, "x": 1 }] },
        ],
        "tests": [test],
    };
    let spec = SpecDir::open(testbed::spec_tests().unwrap()).unwrap();
    let file = TestFile::parse(file).unwrap();
    run_one(&Context::new(spec, target), &file, 0)
}

/// Runs a test with one `find` and this expectation.
fn find_and(key: &str, expected: Bson) -> CaseResult {
    let find = doc! { "name": "find", "object": "coll", "arguments": { "filter": {} } };
    run(doc! { "operations": [find], key: expected })
}

fn run_operation(operation: Document) -> CaseResult {
    run(doc! { "operations": [operation] })
}

#[track_caller]
fn assert_fails(result: CaseResult, why: &str) {
    match result {
        CaseResult::Fail(text) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn events(names: &[&str], ignore_extra: bool) -> Bson {
    let expected = |name: &&str| doc! { "commandStartedEvent": { "commandName": *name } };
    let events: Vec<Document> = names.iter().map(expected).collect();
    Bson::Array(vec![
        doc! { "client": "client", "events": events, "ignoreExtraEvents": ignore_extra }.into(),
    ])
}

#[test]
fn missing_and_unexpected_events_fail() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    assert_eq!(find_and("expectEvents", events(&["find"], false)), CaseResult::Pass);
    assert_fails(find_and("expectEvents", events(&["insert"], false)), "commandName");
    assert_fails(find_and("expectEvents", events(&["find", "find"], false)), "expected 2 events");
    assert_fails(find_and("expectEvents", events(&[], false)), "unexpected event");
    assert_eq!(find_and("expectEvents", events(&[], true)), CaseResult::Pass);
}

#[test]
fn missing_and_unexpected_log_messages_fail() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let logs = |texts: &[&str], level: &str| {
        let message = |text: &&str| {
            doc! { "level": level, "component": "command", "data": { "message": *text } }
        };
        let messages: Vec<Document> = texts.iter().map(message).collect();
        Bson::Array(vec![doc! { "client": "client", "messages": messages }.into()])
    };
    let both = ["Command started", "Command succeeded"];
    assert_eq!(find_and("expectLogMessages", logs(&both, "debug")), CaseResult::Pass);
    assert_fails(find_and("expectLogMessages", logs(&both, "info")), "Debug");
    assert_fails(find_and("expectLogMessages", logs(&both[..1], "debug")), "unexpected message");
    assert_fails(find_and("expectLogMessages", logs(&[], "debug")), "unexpected message");
    let more = ["Command started", "Command succeeded", "Command started"];
    assert_fails(find_and("expectLogMessages", logs(&more, "debug")), "expected 3 messages");
}

#[test]
fn other_documents_than_the_outcome_fail() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let outcome = |documents: Vec<Document>| {
        let data = doc! { "databaseName": "runner", "collectionName": "c", "documents": documents };
        Bson::Array(vec![data.into()])
    };
    let held = find_and("outcome", outcome(vec![doc! { "x": 1, "_id": 1 }]));
    assert_eq!(held, CaseResult::Pass);
    assert_fails(find_and("outcome", outcome(vec![doc! { "_id": 1, "x": 2 }])), "outcome");
    assert_fails(find_and("outcome", outcome(vec![doc! { "_id": 1, "x": 1_i64 }])), "outcome");
    assert_fails(find_and("outcome", outcome(vec![])), "outcome");
}

#[test]
fn other_results_and_errors_than_expected_fail() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let insert = |expected: Document| {
        let mut insert = doc! { "name": "insertOne", "object": "coll", "arguments": { "document": { "_id": 1 } } };
        insert.extend(expected);
        run_operation(insert)
    };
    let error = |expected: Document| insert(doc! { "expectError": expected });
    assert_eq!(error(doc! { "errorCode": 11000, "isClientError": false }), CaseResult::Pass);
    assert_fails(error(doc! { "errorCode": 11001 }), "its code is");
    assert_fails(error(doc! { "isClientError": true }), "isClientError");
    assert_fails(error(doc! { "errorContains": "no such words" }), "its message lacks");
    assert_fails(error(doc! { "errorLabelsContain": ["Nonsense"] }), "it lacks the label");
    assert_fails(error(doc! { "errorResponse": { "n": 7 } }), "the reply");
    assert_fails(insert(doc! {}), "E11000");

    let find = |expected: Document| {
        let mut find = doc! { "name": "find", "object": "coll", "arguments": { "filter": {} } };
        find.extend(expected);
        run_operation(find)
    };
    assert_eq!(find(doc! { "expectResult": [{ "_id": 1 }] }), CaseResult::Pass);
    assert_fails(find(doc! { "expectResult": [{ "_id": 2 }] }), "_id");
    assert_fails(find(doc! { "expectResult": [] }), "expected 0 items");
    assert_fails(find(doc! { "expectError": { "isError": true } }), "expected an error");
}

#[test]
fn unsupported_operation_is_skipped_and_unknown_operation_fails() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let count = doc! { "name": "count", "object": "coll", "arguments": {} };
    let reason = "needs the deprecated count, which the driver leaves out";
    assert_eq!(run_operation(count), CaseResult::Skip(reason.to_owned()));
    assert_fails(run_operation(doc! { "name": "sing", "object": "coll" }), "unknown operation");
    let argument =
        doc! { "name": "find", "object": "coll", "arguments": { "filter": {}, "volume": 1 } };
    assert_fails(run_operation(argument), "has no argument volume");
    assert_fails(run_operation(doc! { "name": "find", "object": "missing" }), "no entity missing");
}

#[test]
fn fail_points_are_disabled_after_a_failed_test() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let fail_point = doc! {
        "name": "failPoint",
        "object": "testRunner",
        "arguments": { "client": "client", "failPoint": {
            "configureFailPoint": "failCommand",
            "mode": "alwaysOn",
            "data": { "failCommands": ["find"], "errorCode": 8 },
        } },
    };
    let find = doc! { "name": "find", "object": "coll", "arguments": { "filter": {} } };
    let failing = run(doc! { "operations": [fail_point, find.clone()] });
    assert_fails(failing, "UnknownError");
    assert_eq!(run_operation(find), CaseResult::Pass);
}

#[test]
fn failed_operation_on_a_thread_fails_the_test() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let on_thread = |operation: Document| {
        run(doc! { "operations": [
            { "name": "createEntities", "object": "testRunner",
              "arguments": { "entities": [{ "thread": { "id": "thread" } }] } },
            { "name": "runOnThread", "object": "testRunner",
              "arguments": { "thread": "thread", "operation": operation } },
            { "name": "waitForThread", "object": "testRunner", "arguments": { "thread": "thread" } },
        ] })
    };
    let insert = |id: i32| {
        doc! { "name": "insertOne", "object": "coll", "arguments": { "document": { "_id": id } } }
    };
    assert_eq!(on_thread(insert(2)), CaseResult::Pass);
    assert_fails(on_thread(insert(1)), "E11000");
}

#[test]
fn missing_partial_result_fails_unless_optional() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let fail_point = doc! {
        "name": "failPoint",
        "object": "testRunner",
        "arguments": { "client": "client", "failPoint": {
            "configureFailPoint": "failCommand",
            "mode": { "times": 1 },
            "data": { "failCommands": ["insert"], "errorCode": 8 },
        } },
    };
    let failing = |result: Document| {
        let insert = doc! { "insertOne": { "document": { "_id": 2 } } };
        let write = doc! {
            "name": "bulkWrite",
            "object": "coll",
            "arguments": { "requests": [insert] },
            "expectError": { "errorCode": 8, "expectResult": result },
        };
        run_on(Target::Embedded, doc! { "operations": [&fail_point, write] })
    };
    assert_fails(failing(doc! { "insertedCount": 0 }), "the partial result None");
    let optional = doc! { "$$unsetOrMatches": { "insertedCount": 0 } };
    assert_eq!(failing(optional), CaseResult::Pass);
}

#[test]
fn write_errors_are_not_top_level_errors_of_a_client_bulk_write() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let failing = |error: Document| {
        let insert = doc! { "namespace": "runner.c", "document": { "_id": 1 } };
        let write = doc! {
            "name": "clientBulkWrite",
            "object": "client",
            "arguments": { "models": [{ "insertOne": insert }] },
            "expectError": error,
        };
        run_on(Target::Embedded, doc! { "operations": [write] })
    };
    assert_eq!(failing(doc! { "writeErrors": { "0": { "code": 11000 } } }), CaseResult::Pass);
    assert_fails(failing(doc! { "errorCode": 11000 }), "its code is");
    assert_fails(failing(doc! { "errorCodeName": "DuplicateKey" }), "its code is");
    assert_fails(failing(doc! { "errorContains": "E11000" }), "its message lacks");
}

#[test]
fn wait_for_event_times_out_after_ten_seconds() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(testbed::spec_tests());
    let never = doc! {
        "name": "waitForEvent",
        "object": "testRunner",
        "arguments": {
            "client": "client",
            "event": { "commandFailedEvent": {} },
            "count": 1,
        },
    };
    let started = Instant::now();
    let result = run_on(Target::Embedded, doc! { "operations": [never] });
    assert_fails(result, "0 of 1 events within 10s");
    assert!(started.elapsed() >= Duration::from_secs(10));
}
