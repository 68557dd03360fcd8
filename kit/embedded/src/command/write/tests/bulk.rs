//! `bulkWrite`: operations of all kinds, and the cursor of their results.

use super::*;

fn server() -> WriteTestServer {
    let mut server =
        WriteTestServer::with([doc! { "_id": 1, "x": 11 }, doc! { "_id": 2, "x": 22 }]);
    server.max_wire_version = 25;
    server
}

fn command(operations: &[Document]) -> Document {
    let namespaces = [doc! { "ns": "shop.orders" }, doc! { "ns": "shop.other" }];
    doc! { "bulkWrite": 1, "ops": operations.to_vec(), "nsInfo": namespaces.to_vec() }
}

/// Rows of the reply's cursor, and the reply without its cursor.
fn parts(mut reply: Document) -> (Vec<Bson>, Document) {
    let Some(Bson::Document(mut cursor)) = reply.remove("cursor") else { panic!("{reply}") };
    let Some(Bson::Array(items)) = cursor.remove("firstBatch") else { panic!("{cursor}") };
    assert_eq!(cursor, doc! { "id": 0_i64, "ns": "admin.$cmd.bulkWrite" });
    (items, reply)
}

#[test]
fn bulk_write_returns_rows_and_counts() {
    let mut server = server();
    let update = doc! { "$inc": { "x": 1 } };
    let operations = [
        doc! { "insert": 1, "document": { "_id": 7 } },
        doc! { "update": 0, "filter": {}, "updateMods": update.clone(), "multi": true },
        doc! { "update": 0, "filter": { "_id": 5 }, "updateMods": update, "upsert": true },
        doc! { "delete": 0, "filter": { "_id": 1 } },
    ];
    let (items, counts) = parts(server.ok(command(&operations)));
    let expected = [
        doc! { "ok": 1.0, "idx": 0, "n": 1 },
        doc! { "ok": 1.0, "idx": 1, "n": 2, "nModified": 2 },
        doc! { "ok": 1.0, "idx": 2, "n": 1, "nModified": 0, "upserted": { "_id": 5 } },
        doc! { "ok": 1.0, "idx": 3, "n": 1 },
    ];
    assert_eq!(items, expected.map(Bson::Document));
    assert_eq!(
        counts,
        doc! {
            "nErrors": 0, "nInserted": 1, "nMatched": 2, "nModified": 2, "nUpserted": 1,
            "nDeleted": 1,
        }
    );
    assert_eq!(server.documents("other"), [doc! { "_id": 7 }]);
    assert_eq!(server.documents("orders"), [doc! { "_id": 2, "x": 23 }, doc! { "_id": 5, "x": 1 }]);
}

#[test]
fn bulk_write_error_is_a_row_and_stops_ordered_command() {
    let insert = |id: i32| doc! { "insert": 0, "document": { "_id": id } };
    let operations = [insert(3), insert(1), insert(4)];
    let (items, counts) = parts(server().ok(command(&operations)));
    assert_eq!(items.len(), 2);
    let message =
        "E11000 duplicate key error collection: shop.orders index: _id_ dup key: { _id: 1 }";
    let error = doc! {
        "ok": 0.0, "idx": 1, "code": 11000, "errmsg": message,
        "keyPattern": { "_id": 1 }, "keyValue": { "_id": 1 }, "n": 0,
    };
    assert_eq!(items[1], Bson::Document(error.clone()));
    assert_eq!(
        (counts.get_i32("nErrors").ok(), counts.get_i32("nInserted").ok()),
        (Some(1), Some(1))
    );

    let mut unordered = command(&operations);
    unordered.extend(doc! { "ordered": false, "errorsOnly": true });
    let (items, counts) = parts(server().ok(unordered));
    assert_eq!(items, [Bson::Document(error)]);
    assert_eq!(counts.get_i32("nInserted").ok(), Some(2));
}

#[test]
fn retried_bulk_write_executes_operations_once() {
    let mut server = server();
    let operations = [
        doc! { "insert": 1, "document": { "_id": 7 } },
        doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$inc": { "x": 1 } } },
        doc! { "delete": 0, "filter": { "_id": 2 } },
    ];
    let command = numbered(command(&operations), 1);
    let (items, counts) = parts(server.ok(command.clone()));
    let (again, mut counts_again) = parts(server.ok(command));
    assert_eq!(items, again);
    assert_eq!(counts_again.remove("retriedStmtIds"), Some(bson::bson!([0, 1, 2])));
    assert_eq!(counts, counts_again);
    assert_eq!(server.documents("orders"), [doc! { "_id": 1, "x": 12 }]);
}

#[test]
fn bulk_write_rejects_invalid_arguments() {
    let mut server = server();
    let bad = command(&[doc! { "insert": 5, "document": {} }]);
    let message = "BulkWrite ops entry 0 has an invalid nsInfo index.";
    assert_eq!(server.expect_error(bad), (2, message.to_owned()));
    assert_eq!(server.expect_error(command(&[])).0, 16);
    let mut elsewhere = command(&[doc! { "insert": 0, "document": {} }]);
    elsewhere.insert("$db", "shop");
    assert_eq!(server.expect_error(elsewhere).0, 13);
    server.max_wire_version = 21;
    let unknown = command(&[doc! { "insert": 0, "document": {} }]);
    assert_eq!(server.expect_error(unknown), (59, "no such command: 'bulkWrite'".to_owned()));
}
