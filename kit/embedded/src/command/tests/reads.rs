//! `find`, `getMore`, `killCursors`, `count` and `distinct`.

use bson::{Bson, Document, doc};

use super::{TestServer, cursor_id, numbers};

#[test]
fn find_filters_sorts_skips_limits_and_projects() {
    let mut server = TestServer::with(numbers(7));
    assert_eq!(server.ids(doc! { "find": "c", "filter": { "a": 1 } }), [1, 4, 7]);
    let sorted = doc! { "find": "c", "sort": { "a": -1, "_id": 1 }, "skip": 1, "limit": 3 };
    assert_eq!(server.ids(sorted), [5, 1, 4]);
    let projected =
        doc! { "find": "c", "filter": { "_id": 2 }, "projection": { "_id": 0, "a": 1 } };
    assert_eq!(server.batch(projected), [doc! { "a": 2 }]);
    let backward = doc! { "find": "c", "hint": { "$natural": -1 }, "limit": 2 };
    assert_eq!(server.ids(backward), [7, 6]);
    assert_eq!(server.ids(doc! { "find": "c", "sort": { "$natural": -1 }, "limit": 1 }), [7]);
}

#[test]
fn first_batch_has_101_documents() {
    let mut server = TestServer::with(numbers(150));
    let reply = server.ok(doc! { "find": "c" });
    let id = cursor_id(&reply);
    assert_ne!(id, 0);
    assert_eq!(server.ids(doc! { "find": "c" }).len(), 101);
    let rest = server.ids(doc! { "getMore": id, "collection": "c" });
    assert_eq!((rest.len(), rest[0]), (49, 102));
}

#[test]
fn cursor_stays_open_until_exhausted() {
    let mut server = TestServer::with(numbers(3));
    let is_open = |server: &mut TestServer, command| cursor_id(&server.ok(command)) != 0;
    assert!(is_open(&mut server, doc! { "find": "c", "batchSize": 3 }));
    assert!(is_open(
        &mut server,
        doc! { "find": "c", "batchSize": 3, "sort": { "z": 1 }, "limit": 3 }
    ));
    assert!(is_open(&mut server, doc! { "find": "c", "batchSize": 0, "limit": 1 }));
    assert!(is_open(
        &mut server,
        doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 3 } }
    ));
    assert!(!is_open(&mut server, doc! { "find": "c", "batchSize": 3, "limit": 3 }));
    assert!(!is_open(&mut server, doc! { "find": "c", "batchSize": 1, "filter": { "_id": 1 } }));
    assert!(!is_open(&mut server, doc! { "find": "c", "batchSize": 2, "singleBatch": true }));
    assert!(!is_open(&mut server, doc! { "find": "nope", "batchSize": 0 }));
    assert!(is_open(
        &mut server,
        doc! { "aggregate": "nope", "pipeline": [], "cursor": { "batchSize": 0 } }
    ));
}

#[test]
fn find_rejects_invalid_arguments() {
    let mut server = TestServer::with(numbers(3));
    let mut rejected = |command| server.expect_error(command);
    assert_eq!(
        rejected(doc! { "find": "c", "limit": "x" }),
        (
            14,
            "BSON field 'FindCommandRequest.limit' is the wrong type 'string', expected types \
             '[long, int, decimal, double']"
                .into()
        )
    );
    assert_eq!(
        rejected(doc! { "find": "c", "foo": 1 }),
        (40415, "BSON field 'FindCommandRequest.foo' is an unknown field.".into())
    );
    assert_eq!(
        rejected(doc! { "find": "c", "skip": -1 }),
        (51024, "BSON field 'skip' value must be >= 0, actual value '-1'".into())
    );
    assert_eq!(
        rejected(doc! { "find": "c", "filter": 1 }),
        (14, "Expected field filterto be of type object".into())
    );
    assert_eq!(rejected(doc! { "find": 1 }), (73, "collection name has invalid type int".into()));
    assert_eq!(rejected(doc! { "find": "" }), (73, "Invalid namespace specified 'd.'".into()));
    assert_eq!(
        rejected(doc! { "find": "a$b" }),
        (73, "Invalid collection name specified 'd.a$b".into())
    );
    assert_eq!(
        rejected(doc! { "find": "c", "awaitData": true }),
        (9, "Cannot set 'awaitData' without also setting 'tailable'".into())
    );
    assert_eq!(rejected(doc! { "find": "c", "tailable": true }).0, 2);
    assert_eq!(rejected(doc! { "find": "c", "hint": { "z": 1 } }).0, 2);
    assert_eq!(
        rejected(doc! { "find": "c", "hint": 1 }),
        (9, "Hint must be a string or an object".into())
    );
    assert_eq!(
        rejected(doc! { "find": "c", "singleBatch": 1 }),
        (14, "Field 'singleBatch' should be a boolean value, but found: int".into())
    );
}

#[test]
fn let_variables_are_visible_in_filter() {
    let mut server = TestServer::with(numbers(4));
    let command = doc! {
        "find": "c",
        "filter": { "$expr": { "$eq": ["$_id", "$$wanted"] } },
        "let": { "wanted": 3 },
    };
    assert_eq!(server.ids(command), [3]);
}

#[test]
fn id_conditions_return_documents_in_id_order() {
    let mut server = TestServer::with([doc! { "_id": 3 }, doc! { "_id": 1 }, doc! { "_id": 2 }]);
    assert_eq!(server.ids(doc! { "find": "c" }), [3, 1, 2]);
    assert_eq!(server.ids(doc! { "find": "c", "filter": { "_id": { "$gt": 0 } } }), [1, 2, 3]);
    let natural =
        doc! { "find": "c", "filter": { "_id": { "$gt": 0 } }, "hint": { "$natural": 1 } };
    assert_eq!(server.ids(natural), [3, 1, 2]);
}

#[test]
fn multikey_index_returns_document_once() {
    let mut server = TestServer::with([doc! { "_id": 1, "a": [3, 1] }, doc! { "_id": 2, "a": 2 }]);
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    server.ok(doc! { "createIndexes": "c", "indexes": [index] });
    assert_eq!(server.ids(doc! { "find": "c", "hint": "a_1" }), [1, 2]);
    assert_eq!(server.ids(doc! { "find": "c", "hint": "a_1", "limit": 1 }), [1]);
    assert_eq!(server.ids(doc! { "find": "c", "filter": { "a": 3 } }), [1]);
}

#[test]
fn hint_decides_documents_and_order() {
    let mut server =
        TestServer::with([doc! { "_id": 1, "s": 2 }, doc! { "_id": 2 }, doc! { "_id": 3, "s": 1 }]);
    server.ok(doc! {
        "createIndexes": "c",
        "indexes": [{ "key": { "s": 1 }, "name": "s_1", "sparse": true }],
    });
    assert_eq!(server.ids(doc! { "find": "c", "hint": "s_1" }), [3, 1]);
    assert_eq!(server.ok(doc! { "count": "c", "hint": { "s": 1 } }), doc! { "n": 2 });
}

#[test]
fn get_more_rejects_invalid_arguments() {
    let mut server = TestServer::with(numbers(5));
    let id = cursor_id(&server.ok(doc! { "find": "c", "batchSize": 1 }));
    let mut rejected = |command| server.expect_error(command);
    assert_eq!(
        rejected(doc! { "getMore": 5, "collection": "c" }),
        (14, "BSON field 'getMore.getMore' is the wrong type 'int', expected type 'long'".into())
    );
    assert_eq!(
        rejected(doc! { "getMore": id }),
        (40414, "BSON field 'getMore.collection' is missing but a required field".into())
    );
    assert_eq!(
        rejected(doc! { "getMore": id, "collection": "x" }),
        (
            13,
            "Requested getMore on namespace 'd.x', but cursor belongs to a different namespace d.c"
                .into()
        )
    );
    assert_eq!(rejected(doc! { "getMore": id, "collection": "c", "maxTimeMS": 100 }).0, 2);
    assert_eq!(
        rejected(doc! { "getMore": 12345_i64, "collection": "c" }),
        (43, "cursor id 12345 not found".into())
    );
    assert_eq!(
        rejected(doc! { "killCursors": "c", "cursors": [5] }),
        (
            14,
            "BSON field 'killCursors.cursors.0' is the wrong type 'int', expected type 'long'"
                .into()
        )
    );
    let killed = server.ok(doc! { "killCursors": "c", "cursors": [id] });
    assert_eq!(killed.get_array("cursorsKilled").unwrap(), &[Bson::Int64(id)]);
}

#[test]
fn list_commands_open_cursors() {
    let mut server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.ok(doc! { "create": name });
    }
    let list = doc! { "listCollections": 1, "nameOnly": true, "cursor": { "batchSize": 2 } };
    let reply = server.ok(list);
    let id = cursor_id(&reply);
    let namespace = reply.get_document("cursor").unwrap().get_str("ns").unwrap().to_owned();
    assert_eq!(namespace, "d.$cmd.listCollections");
    let rest = server.batch(doc! { "getMore": id, "collection": "$cmd.listCollections" });
    assert_eq!(rest, [doc! { "name": "c", "type": "collection" }]);
}

#[test]
fn count_applies_skip_and_limit() {
    let mut server = TestServer::with(numbers(7));
    let mut n = |command| server.ok(command).get_i32("n").unwrap();
    assert_eq!(n(doc! { "count": "c" }), 7);
    assert_eq!(n(doc! { "count": "c", "query": { "a": 1 } }), 3);
    assert_eq!(n(doc! { "count": "c", "query": { "a": 1 }, "limit": -1 }), 1);
    assert_eq!(n(doc! { "count": "c", "query": { "a": 1 }, "skip": 1, "limit": 5 }), 2);
    assert_eq!(n(doc! { "count": "c", "query": Bson::Null }), 7);
    assert_eq!(n(doc! { "count": "nope" }), 0);
    assert_eq!(
        server.expect_error(doc! { "count": 1 }),
        (73, "collection name has invalid type int".into())
    );
    assert_eq!(
        server.expect_error(doc! { "count": "c", "limit": "x" }),
        (2, "limit value is not a valid number".into())
    );
}

#[test]
fn distinct_sorts_values_and_unwinds_arrays() {
    let values: Vec<Bson> = vec![
        3.into(),
        1.into(),
        "x".into(),
        Bson::Null,
        vec![5, 4].into(),
        doc! { "q": 1 }.into(),
        Bson::Double(1.0),
    ];
    let mut server = TestServer::new();
    server.fill("c", values.into_iter().map(|value| doc! { "a": value }));
    server.fill("c", [doc! {}]);
    assert_eq!(
        server.ok(doc! { "distinct": "c", "key": "a" }),
        doc! { "values": [Bson::Null, 1, 3, 4, 5, "x", { "q": 1 }] }
    );
    assert_eq!(server.ok(doc! { "distinct": "c", "key": "a.q" }), doc! { "values": [1] });
    assert_eq!(server.ok(doc! { "distinct": "c", "key": "a.0" }), doc! { "values": [5] });
    assert_eq!(server.ok(doc! { "distinct": "nope", "key": "a" }), doc! { "values": [] });
    assert_eq!(server.expect_error(doc! { "distinct": "c", "key": "" }).0, 40352);
    assert_eq!(
        server.expect_error(doc! { "distinct": "c", "key": "a", "hint": "x" }),
        (40415, "BSON field 'distinct.hint' is an unknown field.".into())
    );
}

#[test]
fn min_and_max_bound_an_index_scan() {
    let mut server = TestServer::with((1..=8).map(|n| doc! { "_id": n, "a": (n * 7) % 5 }));
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    server.ok(doc! { "createIndexes": "c", "indexes": [index] });
    let find = |min: i32, max: i32| {
        doc! { "find": "c", "min": { "a": min }, "max": { "a": max }, "hint": "a_1" }
    };
    assert_eq!(server.ids(find(2, 4)), [1, 6, 4]);
    assert_eq!(server.expect_error(find(3, 2)).0, 51175);
    assert_eq!(
        server.expect_error(doc! { "find": "c", "min": { "b": 2 }, "hint": "a_1" }).0,
        51174
    );
    assert_eq!(server.expect_error(doc! { "find": "c", "min": { "a": 2 } }).0, 51173);
    // A range condition on an index returns the documents in its order, too.
    assert_eq!(server.ids(doc! { "find": "c", "filter": { "a": { "$gt": 1 } } }), [1, 6, 4, 2, 7]);
}

#[test]
fn show_record_id_adds_record_id() {
    let mut server = TestServer::with([doc! { "_id": 3 }, doc! { "_id": 1, "a": 1 }]);
    let find = doc! {
        "find": "c", "showRecordId": true, "sort": { "_id": 1 }, "projection": { "_id": 1 },
    };
    assert_eq!(
        server.batch(find),
        [doc! { "_id": 1, "$recordId": 2_i64 }, doc! { "_id": 3, "$recordId": 1_i64 }]
    );
}

#[test]
fn return_key_returns_index_keys() {
    let mut server = TestServer::with([doc! { "_id": 3, "a": 1 }, doc! { "_id": 1, "a": 1 }]);
    let mut keys = |fields: Document| {
        let mut find = doc! { "find": "c", "returnKey": true };
        find.extend(fields);
        server.batch(find)
    };
    assert_eq!(keys(doc! {}), [doc! {}, doc! {}]);
    assert_eq!(keys(doc! { "sort": { "_id": 1 } }), [doc! { "_id": 1 }, doc! { "_id": 3 }]);
    assert_eq!(keys(doc! { "filter": { "_id": 3 } }), [doc! { "_id": 3 }]);
}
