//! `explain`: query plans.

use bson::{Document, doc};

use super::{TestServer, numbers};

fn winner(reply: &Document) -> &Document {
    reply.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap()
}

fn stage(plan: &Document) -> &str {
    plan.get_str("stage").unwrap()
}

#[test]
fn explain_returns_winning_plan() {
    let mut server = TestServer::with(numbers(7));
    let mut plan = |command: Document| winner(&server.ok(doc! { "explain": command })).clone();
    assert_eq!(plan(doc! { "find": "c" }), doc! { "stage": "COLLSCAN", "direction": "forward" });
    assert_eq!(stage(&plan(doc! { "find": "c", "filter": { "_id": 1 } })), "IDHACK");
    assert_eq!(stage(&plan(doc! { "find": "nope" })), "EOF");
    let sorted = plan(doc! { "find": "c", "sort": { "a": 1 }, "limit": 2 });
    assert_eq!(stage(&sorted), "LIMIT");
    let inner = sorted.get_document("inputStage").unwrap();
    assert_eq!(
        (stage(inner), stage(inner.get_document("inputStage").unwrap())),
        ("SORT", "COLLSCAN")
    );
    let hinted = plan(doc! { "find": "c", "hint": { "_id": 1 } });
    assert_eq!(stage(hinted.get_document("inputStage").unwrap()), "IXSCAN");
    assert_eq!(stage(&plan(doc! { "count": "c", "query": { "a": 1 } })), "COUNT");
    assert_eq!(stage(&plan(doc! { "distinct": "c", "key": "a" })), "COLLSCAN");
    let update = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 1 } } }] };
    assert_eq!(stage(&plan(update)), "UPDATE");
    assert_eq!(
        stage(&plan(doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] })),
        "DELETE"
    );
    assert_eq!(stage(&plan(doc! { "findAndModify": "c", "remove": true })), "DELETE");
    assert_eq!(server.documents("c").len(), 7);
}

#[test]
fn explain_names_index_of_plan() {
    let mut server = TestServer::with(numbers(7));
    let index = doc! { "key": { "a": 1, "_id": -1 }, "name": "by_a" };
    server.ok(doc! { "createIndexes": "c", "indexes": [index] });
    let command = doc! { "find": "c", "filter": { "a": 1 } };
    let reply = server.ok(doc! { "explain": command.clone(), "verbosity": "executionStats" });
    let scan = winner(&reply).get_document("inputStage").unwrap();
    assert_eq!((stage(scan), scan.get_str("indexName").unwrap()), ("IXSCAN", "by_a"));
    let figures = reply.get_document("executionStats").unwrap();
    assert_eq!(figures.get_i32("totalDocsExamined").unwrap(), 3);
    assert_eq!(server.ids(command), [7, 4, 1]);
    let natural = doc! { "find": "c", "filter": { "a": 1 }, "hint": { "$natural": 1 } };
    assert_eq!(server.ids(natural), [1, 4, 7]);
}

#[test]
fn explain_returns_execution_stats_on_demand() {
    let mut server = TestServer::with(numbers(7));
    let mut explained = |verbosity: &str| {
        let command = doc! { "find": "c", "filter": { "a": 1 } };
        server.ok(doc! { "explain": command, "verbosity": verbosity })
    };
    assert!(!explained("queryPlanner").contains_key("executionStats"));
    let reply = explained("executionStats");
    let figures = reply.get_document("executionStats").unwrap();
    assert_eq!(figures.get_i32("nReturned").unwrap(), 3);
    assert_eq!(figures.get_i32("totalDocsExamined").unwrap(), 7);
    assert!(!figures.contains_key("allPlansExecution"));
    assert_eq!(reply.get_document("serverInfo").unwrap().get_i32("port").unwrap(), 27017);
}

#[test]
fn explain_of_pipeline_lists_stages() {
    let mut server = TestServer::with(numbers(7));
    let pipeline = vec![doc! { "$match": { "a": 1 } }];
    let command = doc! { "aggregate": "c", "pipeline": pipeline, "explain": true };
    assert_eq!(stage(winner(&server.ok(command))), "COLLSCAN");
    let pipeline = vec![doc! { "$match": { "a": 1 } }, doc! { "$limit": 1 }];
    let command = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
    let reply = server.ok(doc! { "explain": command });
    assert_eq!(reply.get_array("stages").unwrap().len(), 2);
}

#[test]
fn explain_rejects_invalid_arguments() {
    let mut server = TestServer::new();
    assert_eq!(
        server.expect_error(doc! { "explain": { "insert": "c", "documents": [{}] } }),
        (20, "Cannot explain cmd: insert".into())
    );
    assert_eq!(
        server.expect_error(doc! { "explain": { "foo": "c" } }),
        (59, "Explain failed due to unknown command: foo".into())
    );
    assert_eq!(
        server.expect_error(doc! { "explain": { "find": "c" }, "verbosity": "foo" }),
        (2, "Enumeration value 'foo' for field 'explain.verbosity' is not a valid value.".into())
    );
    assert_eq!(server.expect_error(doc! { "explain": 5 }).0, 14);
}
