//! `findAndModify`: selection, update, returned document.

use super::*;

fn orders() -> WriteTestServer {
    WriteTestServer::with((0..3).map(|number| doc! { "_id": number, "a": number }))
}

#[test]
fn find_and_modify_uses_sort_and_returns_document_before_or_after() {
    let mut server = orders();
    let mut command = doc! {
        "findAndModify": "orders", "query": {}, "sort": { "a": -1 },
        "update": { "$set": { "z": 7 } },
    };
    let last = doc! { "n": 1, "updatedExisting": true };
    assert_eq!(
        server.ok(command.clone()),
        doc! { "lastErrorObject": last.clone(), "value": { "_id": 2, "a": 2 } }
    );
    command.insert("new", true);
    command.insert("fields", doc! { "z": 1 });
    assert_eq!(server.ok(command), doc! { "lastErrorObject": last, "value": { "_id": 2, "z": 7 } });
}

#[test]
fn find_and_modify_without_match_returns_null_or_upserts() {
    let mut server = orders();
    let mut command = doc! {
        "findAndModify": "orders", "query": { "_id": 9 }, "update": { "$set": { "a": 7 } },
    };
    let none = doc! { "n": 0, "updatedExisting": false };
    assert_eq!(server.ok(command.clone()), doc! { "lastErrorObject": none, "value": null });
    command.insert("upsert", true);
    let last = doc! { "n": 1, "updatedExisting": false, "upserted": 9 };
    assert_eq!(server.ok(command.clone()), doc! { "lastErrorObject": last, "value": null });
    command.insert("query", doc! { "_id": 10 });
    command.insert("new", true);
    let last = doc! { "n": 1, "updatedExisting": false, "upserted": 10 };
    assert_eq!(
        server.ok(command),
        doc! { "lastErrorObject": last, "value": { "_id": 10, "a": 7 } }
    );
}

#[test]
fn find_and_modify_removes_and_returns_document() {
    let mut server = orders();
    let command = doc! { "findAndModify": "orders", "query": { "_id": 1 }, "remove": true };
    assert_eq!(
        server.ok(command.clone()),
        doc! { "lastErrorObject": { "n": 1 }, "value": { "_id": 1, "a": 1 } }
    );
    assert_eq!(server.ok(command), doc! { "lastErrorObject": { "n": 0 }, "value": null });
}

#[test]
fn find_and_modify_rejects_conflicting_options() {
    let mut server = orders();
    let cases = [
        (doc! {}, "Either an update or remove=true must be specified"),
        (doc! { "remove": true, "update": {} }, "Cannot specify both an update and remove=true"),
        (
            doc! { "remove": true, "new": true },
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
             document",
        ),
        (
            doc! { "remove": true, "upsert": true },
            "Cannot specify both upsert=true and remove=true ",
        ),
        (
            doc! { "remove": true, "arrayFilters": [] },
            "Cannot specify arrayFilters and remove=true",
        ),
        (doc! { "update": 3 }, "Update argument must be either an object or an array"),
        (doc! { "remove": true, "hint": 3 }, "Hint must be a string or an object"),
    ];
    for (arguments, message) in cases {
        let mut command = doc! { "findAndModify": "orders" };
        command.extend(arguments);
        assert_eq!(server.expect_error(command), (9, message.to_owned()));
    }
}

#[test]
fn find_and_modify_write_error_fails_command() {
    let mut server = orders();
    let command = doc! { "findAndModify": "orders", "query": { "q": 1 }, "update": { "_id": 2 }, "upsert": true };
    let fault = server.run(command).expect_err("the _id is taken");
    assert_eq!(
        fault.message,
        "Plan executor error during findAndModify :: caused by :: E11000 duplicate key error \
         collection: shop.orders index: _id_ dup key: { _id: 2 }"
    );
    assert_eq!(fault.details, doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": 2 } });
}

#[test]
fn invalid_projection_changes_nothing() {
    let mut server = orders();
    let command = doc! {
        "findAndModify": "orders", "query": { "_id": 1 }, "remove": true,
        "fields": { "a": 1, "b": 0 },
    };
    server.run(command).expect_err("it includes and excludes");
    assert_eq!(server.documents("orders").len(), 3);
}
