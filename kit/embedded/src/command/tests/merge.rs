//! `$out` and `$merge`.

use bson::{Bson, Document, doc};

use super::{TestServer, numbers};

fn out(server: &mut TestServer, pipeline: Vec<Document>) -> Result<(), (i32, String)> {
    let command = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
    match server.run(command) {
        Ok(reply) => {
            let cursor = reply.get_document("cursor").unwrap();
            assert_eq!(cursor, &doc! { "firstBatch": [], "id": 0_i64, "ns": "d.c" });
            Ok(())
        }
        Err(fault) => Err((fault.code.number, fault.message)),
    }
}

/// Merges the first two documents with these options.
fn merge(server: &mut TestServer, options: Document) -> Result<(), (i32, String)> {
    out(server, vec![doc! { "$match": { "_id": { "$lt": 3 } } }, doc! { "$merge": options }])
}

fn target() -> TestServer {
    let mut server = TestServer::with(numbers(4));
    server.fill("t", [doc! { "_id": 1, "v": "old" }, doc! { "_id": 100 }]);
    server
}

#[test]
fn out_replaces_collection_and_keeps_indexes() {
    let mut server = TestServer::with(numbers(4));
    server.fill("o", [doc! { "_id": "old", "a": 99 }]);
    let index = doc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
    server.ok(doc! { "createIndexes": "o", "indexes": [index] });

    let (code, message) = out(&mut server, vec![doc! { "$out": "o" }]).unwrap_err();
    assert_eq!(code, 11000);
    assert!(message.starts_with("PlanExecutor error during aggregation"), "{message}");
    assert_eq!(server.documents("o"), [doc! { "_id": "old", "a": 99 }]);
    assert_eq!(server.batch(doc! { "listCollections": 1 }).len(), 2);

    out(&mut server, vec![doc! { "$match": { "_id": { "$lt": 3 } } }, doc! { "$out": "o" }])
        .unwrap();
    assert_eq!(server.ids(doc! { "find": "o" }), [1, 2]);
    assert_eq!(server.batch(doc! { "listIndexes": "o" }).len(), 2);
    assert_eq!(server.batch(doc! { "listCollections": 1 }).len(), 2);
}

#[test]
fn out_without_documents_creates_collection_merge_does_not() {
    let mut server = TestServer::new();
    out(&mut server, vec![doc! { "$out": "o" }]).unwrap();
    out(&mut server, vec![doc! { "$merge": { "into": "m" } }]).unwrap();
    let names = server.batch(doc! { "listCollections": 1, "nameOnly": true });
    assert_eq!(names, [doc! { "name": "o", "type": "collection" }]);
}

#[test]
fn merge_applies_when_matched() {
    let first = |options: Document| {
        let mut server = target();
        merge(&mut server, options).unwrap();
        server.documents("t")[0].clone()
    };
    assert_eq!(first(doc! { "into": "t" }), doc! { "_id": 1, "v": "old", "a": 1 });
    assert_eq!(first(doc! { "into": "t", "whenMatched": "replace" }), doc! { "_id": 1, "a": 1 });
    let kept = first(doc! { "into": "t", "whenMatched": "keepExisting" });
    assert_eq!(kept, doc! { "_id": 1, "v": "old" });
    let stages = vec![doc! { "$set": { "z": "$$new.a" } }];
    let made = first(doc! { "into": "t", "whenMatched": stages });
    assert_eq!(made, doc! { "_id": 1, "v": "old", "z": 1 });
    let stages = vec![doc! { "$set": { "z": "$$x" } }];
    let made = first(doc! { "into": "t", "whenMatched": stages, "let": { "x": "$a" } });
    assert_eq!(made, doc! { "_id": 1, "v": "old", "z": 1 });
    let (code, message) =
        merge(&mut target(), doc! { "into": "t", "whenMatched": "fail" }).unwrap_err();
    assert_eq!(code, 11000);
    assert!(message.contains("$merge with whenMatched: fail found an existing document"));
}

#[test]
fn merge_applies_when_not_matched() {
    let count = |options: Document| {
        let mut server = target();
        merge(&mut server, options).map(|()| server.documents("t").len())
    };
    assert_eq!(count(doc! { "into": "t" }), Ok(3));
    assert_eq!(count(doc! { "into": "t", "whenNotMatched": "discard" }), Ok(2));
    let failed = count(doc! { "into": "t", "whenNotMatched": "fail" }).unwrap_err();
    assert_eq!(failed.0, 13113);
}

#[test]
fn merge_on_fields_requires_unique_index() {
    let mut server = target();
    server.fill("u", [doc! { "_id": "kept", "a": 1 }]);
    let options = doc! { "into": "u", "on": "a", "whenMatched": "merge" };
    assert_eq!(
        merge(&mut server, options.clone()).unwrap_err(),
        (51183, "Cannot find index to verify that join fields will be unique".into())
    );
    let index = doc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
    server.ok(doc! { "createIndexes": "u", "indexes": [index] });
    let pipeline = vec![
        doc! { "$match": { "_id": { "$lt": 3 } } },
        doc! { "$project": { "_id": 0, "a": 1, "n": "$_id" } },
        doc! { "$merge": options },
    ];
    out(&mut server, pipeline).unwrap();
    let merged = server.documents("u");
    assert_eq!(merged[0], doc! { "_id": "kept", "a": 1, "n": 1 });
    assert_eq!(merged.len(), 2);
}

#[test]
fn merge_rejects_invalid_options() {
    let mut server = target();
    let mut code = |options: Document| merge(&mut server, options).unwrap_err().0;
    assert_eq!(code(doc! { "into": "t", "whenMatched": "foo" }), 2);
    assert_eq!(code(doc! { "into": "t", "whenMatched": "merge", "let": { "q": 1 } }), 51199);
    for matched in ["fail", "keepExisting"] {
        for not_matched in ["discard", "fail"] {
            let options =
                doc! { "into": "t", "whenMatched": matched, "whenNotMatched": not_matched };
            assert_eq!(code(options), 51181);
        }
    }
    assert_eq!(code(doc! { "into": "t", "on": [] }), 51187);
    assert_eq!(code(doc! { "into": "t", "on": 5 }), 51186);
    assert_eq!(code(doc! { "into": "" }), 5786800);
    assert_eq!(code(doc! { "into": { "foo": "t" } }), 40415);
    assert_eq!(code(doc! { "into": "t", "foo": Bson::Null }), 40415);
}

#[test]
fn merge_and_out_validate_documents() {
    let mut server = TestServer::with([doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": "x" }]);
    server.ok(doc! { "create": "t", "validator": { "a": { "$type": "int" } } });
    assert_eq!(out(&mut server, vec![doc! { "$out": "t" }]).unwrap_err().0, 121);
    assert_eq!(server.documents("t").len(), 0);
    assert_eq!(out(&mut server, vec![doc! { "$merge": "t" }]).unwrap_err().0, 121);
    assert_eq!(server.documents("t").len(), 1);
    let pipeline = vec![doc! { "$merge": "t" }];
    server.ok(doc! {
        "aggregate": "c", "pipeline": pipeline, "cursor": {}, "bypassDocumentValidation": true,
    });
    assert_eq!(server.documents("t").len(), 2);
}

#[test]
fn replacement_with_reordered_fields_counts_as_modified() {
    let mut server = TestServer::with([doc! { "_id": 1, "b": 1, "a": 1 }]);
    server.fill("t", [doc! { "_id": 1, "a": 1, "b": 1 }]);
    out(&mut server, vec![doc! { "$merge": { "into": "t", "whenMatched": "replace" } }]).unwrap();
    let names: Vec<String> = server.documents("t")[0].keys().cloned().collect();
    assert_eq!(names, ["_id", "b", "a"]);
}

#[test]
fn merge_matches_null_since_8_2() {
    for (wire_version, merged) in [(25, Err(51132)), (27, Ok(()))] {
        let mut server = TestServer::with([doc! { "_id": Bson::Null, "a": 1 }]);
        server.server_info.max_wire_version = wire_version;
        let found = out(&mut server, vec![doc! { "$merge": { "into": "t" } }]);
        assert_eq!(found.map_err(|(code, _)| code), merged, "{wire_version}");
        server.fill("u", [doc! { "_id": 5, "x": 1 }]);
        let index = doc! { "key": { "k": 1 }, "name": "k_1", "unique": true };
        server.ok(doc! { "createIndexes": "u", "indexes": [index] });
        let pipeline = vec![
            doc! { "$replaceWith": { "_id": { "$literal": 5 }, "a": "$a" } },
            doc! { "$merge": { "into": "u", "on": "k" } },
        ];
        let found = out(&mut server, pipeline);
        assert_eq!(found.map_err(|(code, _)| code), merged, "{wire_version}");
        let x_and_a = server.documents("u")[0].len();
        assert_eq!(x_and_a, if merged.is_ok() { 3 } else { 2 });
    }
}

#[test]
fn distinct_treats_numeric_path_as_array_index_since_8_2() {
    for (wire_version, expected) in [(25, vec![3, 7]), (27, vec![3])] {
        let mut server = TestServer::with([doc! { "_id": 1, "b": [{ "1": 7 }, 3] }]);
        server.server_info.max_wire_version = wire_version;
        let reply = server.ok(doc! { "distinct": "c", "key": "b.1" });
        let values: Vec<Bson> = expected.into_iter().map(Bson::Int32).collect();
        assert_eq!(*reply.get_array("values").unwrap(), values);
    }
}
