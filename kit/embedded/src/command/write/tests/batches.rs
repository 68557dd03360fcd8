//! Write batches: order of execution, errors, waiting.

use super::*;

#[test]
fn first_insert_creates_collection() {
    let mut server = WriteTestServer::new();
    let reply = server.ok(doc! { "insert": "orders", "documents": [{ "_id": 1 }, { "a": 2 }] });
    assert_eq!(reply, doc! { "n": 2 });
    let documents = server.documents("orders");
    assert_eq!(documents[0], doc! { "_id": 1 });
    assert!(matches!(documents[1].iter().next(), Some((name, Bson::ObjectId(_))) if name == "_id"));
    assert_eq!(server.made, 3);
}

#[test]
fn ordered_batch_stops_at_first_error() {
    let mut server = WriteTestServer::with([doc! { "_id": 5 }]);
    let documents = [doc! { "_id": 4 }, doc! { "_id": 5 }, doc! { "_id": 6 }];
    let reply = server.ok(doc! { "insert": "orders", "documents": documents.to_vec() });
    let message =
        "E11000 duplicate key error collection: shop.orders index: _id_ dup key: { _id: 5 }";
    let error = doc! {
        "index": 1, "code": 11000, "errmsg": message,
        "keyPattern": { "_id": 1 }, "keyValue": { "_id": 5 },
    };
    assert_eq!(reply, doc! { "n": 1, "writeErrors": [error] });
    assert_eq!(server.documents("orders"), [doc! { "_id": 5 }, doc! { "_id": 4 }]);
}

#[test]
fn unordered_batch_continues_after_errors_except_in_transaction() {
    let command = doc! {
        "insert": "orders", "ordered": false,
        "documents": [{ "_id": 5 }, { "_id": 6 }, { "_id": 5 }, { "_id": 7 }],
    };
    let mut server = WriteTestServer::with([doc! { "_id": 5 }]);
    let reply = server.ok(command.clone());
    assert_eq!(reply.get_i32("n").expect("n"), 2);
    let indexes = |reply: &Document| -> Vec<i32> {
        let errors = reply.get_array("writeErrors").expect("writeErrors");
        errors.iter().filter_map(|error| error.as_document()?.get_i32("index").ok()).collect()
    };
    assert_eq!(indexes(&reply), [0, 2]);

    let mut server = WriteTestServer::with([doc! { "_id": 5 }]);
    let reply = server.ok(in_transaction(command));
    assert_eq!(indexes(&reply), [0]);
    assert_eq!(server.documents("orders").len(), 1);
}

#[test]
fn batch_size_is_between_1_and_100000() {
    let mut server = WriteTestServer::new();
    let rejected = |count: usize| {
        let message =
            format!("Write batch sizes must be between 1 and 100000. Got {count} operations.");
        (16, message)
    };
    let of = |count| vec![doc! {}; count];
    for count in [0, 100_001] {
        let command = doc! { "insert": "orders", "documents": of(count) };
        assert_eq!(server.expect_error(command), rejected(count));
    }
    assert_eq!(server.expect_error(doc! { "update": "orders", "updates": [] }), rejected(0));
    assert_eq!(server.expect_error(doc! { "delete": "orders", "deletes": [] }), rejected(0));
}

#[test]
fn unknown_fields_are_rejected() {
    let mut server = WriteTestServer::new();
    let cases = [
        (doc! { "insert": "c", "documents": [{}], "foo": 1 }, "insert.foo"),
        (doc! { "update": "c", "updates": [{ "q": {}, "u": {}, "x": 1 }] }, "update.updates.x"),
        (doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1, "x": 1 }] }, "delete.deletes.x"),
        (doc! { "findandmodify": "c", "remove": true, "foo": 1 }, "findAndModify.foo"),
        (
            doc! { "update": "c", "updates": [{ "q": {}, "u": {}, "sort": { "a": 1 } }] },
            "update.updates.sort",
        ),
    ];
    for (command, field) in cases {
        let rejected = (40415, format!("BSON field '{field}' is an unknown field."));
        assert_eq!(server.expect_error(command), rejected);
    }
    assert_eq!(
        server.expect_error(doc! { "insert": "c", "documents": [3] }),
        (
            14,
            "BSON field 'insert.documents.0' is the wrong type 'int', expected type 'object'"
                .into()
        )
    );
    assert_eq!(server.made, 0);
}

#[test]
fn invalid_namespaces_are_rejected() {
    let mut server = WriteTestServer::new();
    let cases = [
        ("", "Invalid namespace specified 'shop.'"),
        (".a", "Collection names cannot start with '.': .a"),
        ("a$b", "Invalid collection name: a$b"),
        ("system.foo", "Invalid system namespace: shop.system.foo"),
        ("system.views", "cannot write to shop.system.views"),
    ];
    for (name, message) in cases {
        let command = doc! { "insert": name, "documents": [{}] };
        assert_eq!(server.expect_error(command), (73, message.to_owned()));
    }
    let command = doc! { "insert": 3, "documents": [{}] };
    assert_eq!(
        server.expect_error(command),
        (2, "collection name has invalid type int".to_owned())
    );
}

#[test]
fn waiting_batch_resumes_without_repeating_statements() {
    let mut server = WriteTestServer::with([doc! { "_id": 1, "x": 0 }, doc! { "_id": 2, "x": 0 }]);
    let update = |id: i32| doc! { "q": { "_id": id }, "u": { "$inc": { "x": 1 } } };
    let command = doc! { "update": "orders", "updates": [update(1), update(2), update(1)] };
    server.reserved_by_others = vec![Bson::Int32(2)];
    let mut progress = BatchProgress::default();
    let fault = server.run_until_wait(&command, &mut progress).expect_err("it has to wait");
    assert_eq!(fault.code, Code::WRITE_CONFLICT);
    assert_eq!(progress.done.len(), 1);

    server.reserved_by_others.clear();
    let reply = server.run_until_wait(&command, &mut progress).expect("the transaction has ended");
    assert_eq!(reply, doc! { "n": 3, "nModified": 3 });
    assert_eq!(server.documents("orders"), [doc! { "_id": 1, "x": 2 }, doc! { "_id": 2, "x": 1 }]);
}

#[test]
fn waiting_multi_statement_has_changed_no_document() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }, doc! { "_id": 2 }]);
    server.reserved_by_others = vec![Bson::Double(2.0)];
    let update = doc! { "update": "orders", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } }, "multi": true }] };
    let delete = doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 0 }] };
    for command in [update, delete] {
        let fault = server.run(command).expect_err("it has to wait");
        assert_eq!(fault.code, Code::WRITE_CONFLICT);
        assert_eq!(server.documents("orders"), [doc! { "_id": 1 }, doc! { "_id": 2 }]);
    }
}
