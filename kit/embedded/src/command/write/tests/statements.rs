//! Single statements of `update`, `delete` and `insert`.

use std::sync::Arc;

use super::*;

fn namespace() -> Namespace {
    Namespace::new("shop", "orders")
}

fn create(options: Document) -> Change {
    Change::CreateCollection {
        namespace: namespace(),
        uuid: bson::Uuid::from_bytes([7; 16]),
        options,
    }
}

/// The only element of `writeErrors`.
fn error(reply: &Document) -> (i32, String) {
    let errors = reply.get_array("writeErrors").expect("writeErrors");
    let [Bson::Document(error)] = errors.as_slice() else { panic!("expected one error: {reply}") };
    let code = error.get_i32("code").expect("a code");
    (code, error.get_str("errmsg").expect("errmsg").to_owned())
}

#[test]
fn update_reports_matched_and_modified_counts() {
    let mut server = WriteTestServer::with([doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    let update = |multi| doc! { "q": {}, "u": { "$set": { "a": 1 } }, "multi": multi };
    let one = server.ok(doc! { "update": "orders", "updates": [update(false)] });
    assert_eq!(one, doc! { "n": 1, "nModified": 0 });
    let all = server.ok(doc! { "update": "orders", "updates": [update(true)] });
    assert_eq!(all, doc! { "n": 2, "nModified": 1 });
}

#[test]
fn failed_multi_update_keeps_earlier_changes() {
    let mut server = WriteTestServer::with([
        doc! { "_id": 1, "a": 1 },
        doc! { "_id": 2, "a": "x" },
        doc! { "_id": 3, "a": 3 },
    ]);
    let update = doc! { "q": {}, "u": { "$inc": { "a": 1 } }, "multi": true };
    let reply = server.ok(doc! { "update": "orders", "updates": [update] });
    assert_eq!(error(&reply).0, Code::TYPE_MISMATCH.number);
    assert_eq!((reply.get_i32("n").ok(), reply.get_i32("nModified").ok()), (Some(0), Some(0)));
    let values: Vec<Bson> = server.documents("orders").iter().map(|it| it["a"].clone()).collect();
    assert_eq!(values, [Bson::Int32(2), Bson::String("x".into()), Bson::Int32(3)]);
}

#[test]
fn update_sort_requires_8_0() {
    let mut server = WriteTestServer::with([doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    server.max_wire_version = 25;
    let update = doc! { "q": {}, "u": { "$set": { "b": 1 } }, "sort": { "a": -1 } };
    server.ok(doc! { "update": "orders", "updates": [update] });
    assert_eq!(
        server.documents("orders"),
        [doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2, "b": 1 }]
    );
}

#[test]
fn hint_requires_existing_index() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }]);
    let update = doc! { "q": {}, "u": { "a": 1 }, "hint": "nope" };
    let reply = server.ok(doc! { "update": "orders", "updates": [update.clone()] });
    let (code, message) = error(&reply);
    assert_eq!(code, 2);
    assert!(message.ends_with("hint provided does not correspond to an existing index"));
    let reply = server.ok(doc! { "update": "nothing", "updates": [update] });
    assert_eq!(reply, doc! { "n": 0, "nModified": 0 });
    let delete = doc! { "q": {}, "limit": 1, "hint": { "_id": 1 } };
    assert_eq!(server.ok(doc! { "delete": "orders", "deletes": [delete] }), doc! { "n": 1 });
}

#[test]
fn delete_limit_is_one_or_all() {
    let mut server = WriteTestServer::with((0..4).map(|id| doc! { "_id": id }));
    let deletes = [
        doc! { "q": {}, "limit": 1 },
        doc! { "q": { "_id": { "$gt": 1 } }, "limit": 0 },
        doc! { "q": { "_id": 77 }, "limit": 1 },
    ];
    let reply = server.ok(doc! { "delete": "orders", "deletes": deletes.to_vec() });
    assert_eq!(reply, doc! { "n": 3 });
    assert_eq!(server.documents("orders"), [doc! { "_id": 1 }]);
    let two = doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 2 }] };
    let message = "The limit field in delete objects must be 0 or 1. Got 2";
    assert_eq!(server.expect_error(two), (9, message.to_owned()));
}

#[test]
fn replacement_with_multi_is_rejected() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }]);
    let update = doc! { "q": {}, "u": { "a": 1 }, "multi": true };
    let reply = server.ok(doc! { "update": "orders", "updates": [update] });
    let message = "multi update is not supported for replacement-style update";
    assert_eq!(error(&reply), (9, message.to_owned()));
}

#[test]
fn writes_to_views_are_rejected() {
    let mut server = WriteTestServer::new();
    server.change(create(doc! { "viewOn": "other", "pipeline": [] }));
    let rejected = (166, "Namespace shop.orders is a view, not a collection".to_owned());
    let reply = server.ok(doc! { "insert": "orders", "documents": [{}] });
    assert_eq!(error(&reply), rejected);
    let remove = doc! { "findAndModify": "orders", "query": {}, "remove": true };
    assert_eq!(server.expect_error(remove), rejected);
}

#[test]
fn validator_applies_unless_bypassed() {
    let mut server = WriteTestServer::new();
    server.change(create(doc! { "validator": { "a": { "$gt": 5 } } }));
    let insert = doc! { "insert": "orders", "documents": [{ "_id": 1, "a": 1 }] };
    let reply = server.ok(insert.clone());
    let details = doc! {
        "operatorName": "$gt", "specifiedAs": { "a": { "$gt": 5 } },
        "reason": "comparison failed", "consideredValue": 1,
    };
    let failure = doc! {
        "index": 0, "code": 121, "errmsg": "Document failed validation",
        "errInfo": { "failingDocumentId": 1, "details": details },
    };
    assert_eq!(reply, doc! { "n": 0, "writeErrors": [failure] });

    let mut bypassing = insert;
    bypassing.insert("bypassDocumentValidation", true);
    assert_eq!(server.ok(bypassing), doc! { "n": 1 });
    let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "b": 1 } } };
    let reply = server.ok(doc! { "update": "orders", "updates": [update.clone()] });
    assert_eq!(error(&reply).0, 121);

    let validator = doc! { "a": { "$gt": 5 } };
    let options = doc! { "validator": validator, "validationLevel": "moderate" };
    server.change(Change::ModifyCollection { namespace: namespace(), options });
    let reply = server.ok(doc! { "update": "orders", "updates": [update] });
    assert_eq!(reply, doc! { "n": 1, "nModified": 1 });
}

#[test]
fn index_scan_equals_collection_scan() {
    let documents: Vec<Document> = (0..40)
        .map(|id| match id % 4 {
            0 => doc! { "_id": id, "a": id % 5 },
            1 => doc! { "_id": id, "a": [id % 5, { "b": 2 }, "x"] },
            2 if id % 8 == 2 => doc! { "_id": id, "a": { "b": id % 3 } },
            2 => doc! { "_id": id, "a": [{ "b": 1, "c": 7 }, { "b": 5, "c": 2 }], "d": id % 3 },
            _ => doc! { "_id": id },
        })
        .collect();
    let plain = WriteTestServer::with(documents.clone());
    let mut indexed = WriteTestServer::with(documents);
    let patterns =
        [doc! { "d": 1, "a": -1 }, doc! { "a.b": 1, "a.c": 1 }, doc! { "a": 1 }, doc! { "a.b": 1 }];
    for (pattern, name) in patterns.into_iter().zip(["da", "abc", "a", "ab"]) {
        let specification = doc! { "v": 2, "key": pattern, "name": name };
        indexed.change(Change::CreateIndex { namespace: namespace(), specification });
    }
    let env = Environment::new(DateTime::from_millis(0), Timestamp { time: 0, increment: 0 }, 0);
    let filters = [
        doc! { "a": 2 },
        doc! { "a": 2.0 },
        doc! { "a": "x" },
        doc! { "a": null },
        doc! { "a": { "b": 2 } },
        doc! { "a.b": 2 },
        // Two elements match together, neither matches alone.
        doc! { "a.b": 1, "a.c": 2 },
        doc! { "d": 0, "a": { "b": 1, "c": 7 } },
        doc! { "a": { "b": 5, "c": 2 }, "d": 1 },
        doc! { "a": [0, { "b": 2 }, "x"] },
        doc! { "_id": 7 },
        doc! { "_id": { "$eq": 7.0 }, "a": 1 },
        doc! { "$and": [{ "a": 1 }, { "a": "x" }] },
    ];
    for filter in filters {
        let found = |server: &WriteTestServer| -> Vec<Arc<Document>> {
            let filter = steadfast_query::Filter::parse(&filter, &env).expect("a valid filter");
            let collection = server.store.collection(&namespace()).expect("the collection exists");
            collection
                .candidates(&filter, &env)
                .filter(|document| {
                    filter.matches(document, &env).expect("the filter can be evaluated")
                })
                .cloned()
                .collect()
        };
        assert_eq!(found(&indexed), found(&plain), "{filter}");
        assert!(!found(&plain).is_empty() || filter.contains_key("_id"), "{filter}");
    }
}
