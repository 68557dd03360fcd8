//! `findAndModify`: selection, update, returned document.

use super::*;

fn orders() -> Alone {
    Alone::with((0..3).map(|number| doc! { "_id": number, "a": number }))
}

#[test]
fn the_first_by_the_sort_changes_and_comes_as_it_was_or_as_it_is() {
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
fn what_is_not_found_is_null_or_comes_into_being() {
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
fn a_document_is_removed_and_given() {
    let mut server = orders();
    let command = doc! { "findAndModify": "orders", "query": { "_id": 1 }, "remove": true };
    assert_eq!(
        server.ok(command.clone()),
        doc! { "lastErrorObject": { "n": 1 }, "value": { "_id": 1, "a": 1 } }
    );
    assert_eq!(server.ok(command), doc! { "lastErrorObject": { "n": 0 }, "value": null });
}

#[test]
fn what_cannot_be_asked_for_together_is_refused() {
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
        assert_eq!(server.refused(command), (9, message.to_owned()));
    }
}

#[test]
fn what_goes_wrong_with_the_document_is_an_error_of_the_command() {
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
fn a_projection_that_cannot_be_read_changes_nothing() {
    let mut server = orders();
    let command = doc! {
        "findAndModify": "orders", "query": { "_id": 1 }, "remove": true,
        "fields": { "a": 1, "b": 0 },
    };
    server.run(command).expect_err("it includes and excludes");
    assert_eq!(server.documents("orders").len(), 3);
}
