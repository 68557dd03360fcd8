//! Retryable writes: each statement is executed once.

use super::*;

/// Runs a command twice and returns both replies.
fn twice(server: &mut WriteTestServer, command: &Document) -> (Document, Document) {
    let first = server.ok(command.clone());
    let made = server.made;
    let second = server.ok(command.clone());
    assert_eq!(server.made, made, "nothing is done the second time");
    (first, second)
}

#[test]
fn retried_insert_is_executed_once() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }]);
    let documents = [doc! { "_id": 50 }, doc! { "_id": 1 }, doc! { "_id": 52 }];
    let command = doc! { "insert": "orders", "documents": documents.to_vec(), "ordered": false };
    let (first, mut second) = twice(&mut server, &numbered(command, 1));
    assert_eq!(first.get_i32("n").expect("n"), 2);
    assert_eq!(second.remove("retriedStmtIds"), Some(bson::bson!([0, 2])));
    assert_eq!(second, first);
}

#[test]
fn retried_update_is_executed_once_and_reports_upsert() {
    let mut server = WriteTestServer::with([doc! { "_id": 1, "x": 0 }]);
    let updates = [
        doc! { "q": { "_id": 1 }, "u": { "$inc": { "x": 1 } } },
        doc! { "q": { "_id": 9 }, "u": { "$inc": { "x": 1 } }, "upsert": true },
        doc! { "q": { "_id": 1000 }, "u": { "$inc": { "x": 1 } } },
    ];
    let command = numbered(doc! { "update": "orders", "updates": updates.to_vec() }, 1);
    let (first, second) = twice(&mut server, &command);
    let upserted = bson::bson!([{ "index": 1, "_id": 9 }]);
    assert_eq!(first, doc! { "n": 2, "upserted": upserted.clone(), "nModified": 1 });
    assert_eq!(
        second,
        doc! { "n": 2, "retriedStmtIds": [0, 1], "upserted": upserted, "nModified": 1 }
    );
    assert_eq!(server.documents("orders"), [doc! { "_id": 1, "x": 1 }, doc! { "_id": 9, "x": 1 }]);
}

#[test]
fn retried_delete_is_executed_once() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }, doc! { "_id": 2 }]);
    let command = doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 1 }] };
    let (first, second) = twice(&mut server, &numbered(command, 1));
    assert_eq!(first, doc! { "n": 1 });
    assert_eq!(second, doc! { "n": 1, "retriedStmtIds": [0] });
    assert_eq!(server.documents("orders"), [doc! { "_id": 2 }]);
}

#[test]
fn stmt_ids_identify_statements() {
    let mut server = WriteTestServer::new();
    let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }];
    let command = |ids: Document| {
        let mut command = doc! { "insert": "orders", "documents": documents.to_vec() };
        command.extend(ids);
        command
    };
    let (_, second) = twice(&mut server, &numbered(command(doc! { "stmtIds": [5, 9] }), 1));
    assert_eq!(second, doc! { "n": 2, "retriedStmtIds": [5, 9] });
    server.ok(doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 0 }] });
    let (_, second) = twice(&mut server, &numbered(command(doc! { "stmtId": 5 }), 2));
    assert_eq!(second, doc! { "n": 2, "retriedStmtIds": [5, 6] });
    let both = command(doc! { "stmtId": 5, "stmtIds": [5, 6] });
    assert_eq!(server.expect_error(both).0, 72);
    assert_eq!(server.expect_error(command(doc! { "stmtIds": [5] })).0, 16);
}

#[test]
fn retried_find_and_modify_returns_recorded_document() {
    let mut server = WriteTestServer::with([doc! { "_id": 1, "a": 1 }]);
    let command = doc! {
        "findAndModify": "orders", "query": { "_id": 1 }, "update": { "$inc": { "a": 1 } },
        "new": true, "fields": { "_id": 0 },
    };
    let (first, second) = twice(&mut server, &numbered(command, 1));
    let last = doc! { "n": 1, "updatedExisting": true };
    assert_eq!(first, doc! { "lastErrorObject": last.clone(), "value": { "a": 2 } });
    let value = doc! { "_id": 1, "a": 2 };
    assert_eq!(second, doc! { "lastErrorObject": last, "value": value, "retriedStmtId": 0 });

    let remove = doc! { "findAndModify": "orders", "query": { "_id": 1 }, "remove": true };
    let (first, mut second) = twice(&mut server, &numbered(remove, 2));
    assert_eq!(second.remove("retriedStmtId"), Some(Bson::Int32(0)));
    assert_eq!(first, second);
}

#[test]
fn find_and_modify_rejects_record_of_other_command() {
    let mut server = WriteTestServer::new();
    server.ok(numbered(doc! { "insert": "orders", "documents": [{ "_id": 1 }] }, 1));
    let command = doc! { "findAndModify": "orders", "query": { "_id": 1 }, "remove": true };
    assert_eq!(server.expect_error(numbered(command, 1)).0, 40608);
}

#[test]
fn multi_document_statements_are_not_retryable() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }]);
    let update = doc! { "update": "orders", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } }, "multi": true }] };
    let delete = doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 0 }] };
    for (command, argument) in [(update, "multi=true"), (delete, "limit=0")] {
        let reply = server.ok(numbered(command.clone(), 1));
        let message = format!("Cannot use (or request) retryable writes with {argument}");
        let error = doc! { "index": 0, "code": 72, "errmsg": message };
        assert_eq!(reply.get_array("writeErrors").expect("writeErrors"), &[Bson::Document(error)]);
        assert_eq!(server.documents("orders"), [doc! { "_id": 1 }]);
        // In a transaction it is not a retryable write.
        let reply = server.ok(in_transaction(command));
        assert_eq!(reply.get_i32("n").expect("n"), 1);
        server = WriteTestServer::with([doc! { "_id": 1 }]);
    }
}

#[test]
fn update_is_not_a_retry_of_remove() {
    let mut server = WriteTestServer::with([doc! { "_id": 1 }, doc! { "_id": 2 }]);
    let update = doc! { "findAndModify": "orders", "update": { "$set": { "a": 1 } } };
    let remove = doc! { "findAndModify": "orders", "remove": true };
    let first = server.ok(numbered(update.clone(), 1));
    let mut second = server.ok(numbered(remove.clone(), 1));
    assert_eq!(second.remove("retriedStmtId"), Some(Bson::Int32(0)));
    assert_eq!(first, second, "nothing is removed: the recorded result is returned");
    server.ok(numbered(remove, 2));
    assert_eq!(server.run(numbered(update, 2)).unwrap_err().code.number, 40606);
    assert_eq!(server.documents("orders"), [doc! { "_id": 2 }]);
}
