//! `aggregate`: its arguments, and stages that must come first.

use bson::{Bson, Document, doc};

use super::{TestServer, numbers};

fn aggregate(collection: impl Into<Bson>, pipeline: Vec<Document>) -> Document {
    doc! { "aggregate": collection.into(), "pipeline": pipeline, "cursor": {} }
}

#[test]
fn aggregate_rejects_invalid_arguments() {
    let mut server = TestServer::with(numbers(2));
    let mut rejected = |command| server.expect_error(command);
    assert_eq!(
        rejected(doc! { "aggregate": "c", "pipeline": [] }),
        (
            9,
            "The 'cursor' option is required, except for aggregate with the explain argument"
                .into()
        )
    );
    assert_eq!(
        rejected(doc! { "aggregate": "c", "cursor": {} }),
        (40414, "BSON field 'aggregate.pipeline' is missing but a required field".into())
    );
    assert_eq!(
        rejected(doc! { "aggregate": "c", "pipeline": 5, "cursor": {} }),
        (14, "'pipeline' option must be specified as an array".into())
    );
    assert_eq!(
        rejected(doc! { "aggregate": "c", "pipeline": [5], "cursor": {} }),
        (14, "Each element of the 'pipeline' array must be an object".into())
    );
    assert_eq!(
        rejected(doc! { "aggregate": "c", "pipeline": [], "cursor": { "foo": 0 } }),
        (40415, "BSON field 'cursor.foo' is an unknown field.".into())
    );
    assert_eq!(
        rejected(doc! { "aggregate": "c", "pipeline": [], "cursor": 5 }),
        (14, "cursor field must be missing or an object".into())
    );
    assert_eq!(
        rejected(aggregate(1, vec![])),
        (73, "{aggregate: 1} is not valid for an empty pipeline.".into())
    );
    assert_eq!(
        rejected(aggregate(1, vec![doc! { "$match": {} }])),
        (73, "{aggregate: 1} is not valid for '$match'; a collection is required.".into())
    );
    assert_eq!(rejected(aggregate(2, vec![])).0, 9);
}

#[test]
fn coll_stats_stage_returns_statistics() {
    let mut server = TestServer::with(numbers(7));
    let stage = |options: Bson| aggregate("c", vec![doc! { "$collStats": options }]);
    let counted = server.batch(stage(doc! { "count": {} }.into()));
    assert_eq!(counted[0].get_i32("count").unwrap(), 7);
    let stored = server.batch(stage(doc! { "storageStats": {} }.into()));
    assert_eq!(stored[0].get_document("storageStats").unwrap().get_i32("count").unwrap(), 7);
    assert_eq!(server.expect_error(stage(doc! { "foo": {} }.into())).0, 40415);
    assert_eq!(server.expect_error(stage(5.into())).0, 5447000);
    let late = vec![doc! { "$match": {} }, doc! { "$collStats": { "count": {} } }];
    assert_eq!(
        server.expect_error(aggregate("c", late)),
        (40602, "$collStats is only valid as the first stage in a pipeline".into())
    );
    let missing = aggregate("nope", vec![doc! { "$collStats": { "count": {} } }]);
    assert_eq!(server.expect_error(missing).0, 26);
    let indexes = server.batch(aggregate("c", vec![doc! { "$indexStats": {} }]));
    assert_eq!(indexes[0].get_str("name").unwrap(), "_id_");
}

#[test]
fn list_sessions_includes_session_of_command() {
    let mut server = TestServer::new();
    let mut command = aggregate(1, vec![doc! { "$listLocalSessions": {} }]);
    let id = bson::Uuid::from_bytes([7; 16]);
    command.insert("lsid", doc! { "id": id });
    let sessions = server.batch(command);
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].get_document("_id").unwrap().get("id"), Some(&Bson::from(id)));
    let elsewhere = aggregate("c", vec![doc! { "$listLocalSessions": {} }]);
    assert_eq!(server.expect_error(elsewhere).0, 73);
    let operations = aggregate(1, vec![doc! { "$currentOp": {} }]);
    assert_eq!(server.expect_error(operations).0, 73);
}

#[test]
fn api_strict_rejects_unstable_stages_and_fields() {
    let mut server = TestServer::with(numbers(2));
    let strict = |mut command: Document| {
        command.extend(doc! { "apiVersion": "1", "apiStrict": true });
        command
    };
    let sessions = aggregate(1, vec![doc! { "$listLocalSessions": {} }]);
    assert_eq!(
        server.expect_error(strict(sessions)),
        (323, "$listLocalSessions is not allowed with 'apiStrict: true' in API Version 1".into())
    );
    let stored = aggregate("c", vec![doc! { "$collStats": { "storageStats": {} } }]);
    assert_eq!(server.expect_error(strict(stored)).0, 323);
    server.ok(strict(aggregate("c", vec![doc! { "$collStats": { "count": {} } }])));
    assert_eq!(
        server.expect_error(strict(doc! { "find": "c", "noCursorTimeout": true })),
        (
            323,
            "BSON field 'FindCommandRequest.noCursorTimeout' is not allowed with apiStrict:true."
                .into()
        )
    );
    let capped = doc! { "create": "x", "capped": true, "size": 1000 };
    assert_eq!(server.expect_error(strict(capped)).0, 323);
}

#[test]
fn out_and_merge_are_rejected_in_transactions_and_linearizable_reads() {
    let mut server = TestServer::with(numbers(2));
    for stage in ["$out", "$merge"] {
        let mut command = aggregate("c", vec![doc! { stage: "o" }]);
        command.insert("readConcern", doc! { "level": "linearizable" });
        assert_eq!(server.expect_error(command).0, 72);
        let mut command = aggregate("c", vec![doc! { stage: "o" }]);
        command.extend(doc! {
            "lsid": { "id": bson::Uuid::from_bytes([7; 16]) },
            "txnNumber": 1_i64,
            "startTransaction": true,
            "autocommit": false,
        });
        assert_eq!(
            server.expect_error(command),
            (263, format!("{stage} cannot be used in a transaction"))
        );
    }
}
