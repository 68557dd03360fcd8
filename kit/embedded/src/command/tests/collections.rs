//! `create`, `drop`, `dropDatabase`, `renameCollection`, `collMod`, and the lists that show them.

use bson::{Document, doc};

use super::{TestServer, numbers};

fn options(server: &mut TestServer, name: &str) -> Document {
    let list = doc! { "listCollections": 1, "filter": { "name": name } };
    let listed = server.batch(list);
    listed[0].get_document("options").unwrap().clone()
}

#[test]
fn create_of_existing_collection_fails() {
    let mut server = TestServer::new();
    assert_eq!(server.ok(doc! { "create": "c" }), doc! {});
    assert_eq!(
        server.expect_error(doc! { "create": "c" }),
        (48, "Collection d.c already exists.".into())
    );
    server.server_info.max_wire_version = 21;
    assert_eq!(server.ok(doc! { "create": "c" }), doc! {});
    assert_eq!(server.expect_error(doc! { "create": "c", "capped": true, "size": 256 }).0, 48);
}

#[test]
fn list_collections_returns_options() {
    let mut server = TestServer::new();
    server.ok(doc! { "create": "capped", "capped": true, "size": 1000, "max": 5 });
    assert_eq!(options(&mut server, "capped"), doc! { "capped": true, "size": 1024, "max": 5 });
    server.ok(doc! { "create": "v", "validator": { "a": 1 }, "validationAction": "warn" });
    assert_eq!(
        options(&mut server, "v"),
        doc! { "validator": { "a": 1 }, "validationAction": "warn" }
    );
    let index = doc! { "key": { "_id": 1 }, "unique": true };
    server.ok(doc! { "create": "cl", "clusteredIndex": index });
    let shown = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "unique": true };
    assert_eq!(options(&mut server, "cl"), doc! { "clusteredIndex": shown.clone() });
    let mut listed = shown;
    listed.insert("clustered", true);
    assert_eq!(server.batch(doc! { "listIndexes": "cl" }), [listed]);
    server.fill("cl", [doc! { "_id": 3 }, doc! { "_id": 1 }]);
    assert_eq!(server.ids(doc! { "find": "cl" }), [1, 3]);
}

#[test]
fn create_rejects_invalid_options() {
    let mut server = TestServer::new();
    let mut rejected = |command| server.expect_error(command);
    assert_eq!(
        rejected(doc! { "create": "x", "capped": true }),
        (72, "the 'size' field is required when 'capped' is true".into())
    );
    assert_eq!(rejected(doc! { "create": "x", "size": 5 }).0, 72);
    assert_eq!(rejected(doc! { "create": "x", "expireAfterSeconds": 5 }).0, 72);
    assert_eq!(rejected(doc! { "create": "x", "validator": 5 }).0, 14);
    assert_eq!(rejected(doc! { "create": "x", "validator": { "$foo": 1 } }).0, 2);
    assert_eq!(
        rejected(doc! { "create": "x", "validationLevel": "y" }),
        (
            2,
            "Enumeration value 'y' for field 'create.validationLevel' is not a valid value.".into()
        )
    );
    assert_eq!(rejected(doc! { "create": "a$b" }), (73, "Invalid collection name: a$b".into()));
    assert_eq!(
        rejected(doc! { "create": "system.foo" }),
        (73, "Invalid system namespace: d.system.foo".into())
    );
    assert_eq!(rejected(doc! { "create": "x".repeat(300) }).0, 73);
    assert_eq!(rejected(doc! { "create": "x", "autoIndexId": false }).0, 50001);
    assert_eq!(rejected(doc! { "create": "x", "timeseries": { "timeField": "t" } }).0, 238);
    assert_eq!(
        rejected(doc! { "create": "x", "foo": 1 }),
        (40415, "BSON field 'create.foo' is an unknown field.".into())
    );
}

#[test]
fn view_returns_result_of_its_pipeline() {
    let mut server = TestServer::with(numbers(4));
    server.ok(doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$match": { "a": 1 } }] });
    assert_eq!(server.ids(doc! { "find": "v" }), [1, 4]);
    assert_eq!(server.ok(doc! { "count": "v", "query": { "_id": 4 } }), doc! { "n": 1 });
    let listed = server.batch(doc! { "listCollections": 1, "filter": { "type": "view" } });
    assert_eq!(listed[0].get_document("info").unwrap(), &doc! { "readOnly": true });
    assert_eq!(
        server.expect_error(doc! { "listIndexes": "v" }),
        (166, "Namespace d.v is a view, not a collection".into())
    );
    assert_eq!(server.ok(doc! { "drop": "v" }), doc! { "ns": "d.v" });
}

#[test]
fn drop_reports_namespace_and_indexes() {
    let mut server = TestServer::with(numbers(1));
    assert_eq!(server.ok(doc! { "drop": "c" }), doc! { "nIndexesWas": 1, "ns": "d.c" });
    assert_eq!(server.expect_error(doc! { "drop": "c" }), (26, "ns not found".into()));
    server.server_info.max_wire_version = 21;
    assert_eq!(server.ok(doc! { "drop": "c" }), doc! {});
}

#[test]
fn drop_database_drops_collections_and_views() {
    let mut server = TestServer::with(numbers(1));
    server.fill("other", numbers(1));
    assert_eq!(server.ok(doc! { "dropDatabase": 1 }), doc! {});
    assert_eq!(server.batch(doc! { "listCollections": 1 }), Vec::<Document>::new());
    assert_eq!(server.expect_error(doc! { "dropDatabase": 2 }).0, 5255100);
    assert_eq!(server.expect_error(doc! { "dropDatabase": 1, "$db": "admin" }).0, 20);
    assert_eq!(server.expect_error(doc! { "dropDatabase": 1, "$db": "local" }).0, 20);
}

#[test]
fn rename_collection_renames_and_rejects_invalid_targets() {
    let mut server = TestServer::with(numbers(2));
    server.fill("z", numbers(1));
    let rename = |to: &str, drops: bool| {
        doc! { "renameCollection": "d.c", "to": to, "dropTarget": drops, "$db": "admin" }
    };
    assert_eq!(server.expect_error(rename("d.z", false)), (48, "target namespace exists".into()));
    server.ok(rename("d.z", true));
    assert_eq!(server.ids(doc! { "find": "z" }), [1, 2]);
    assert_eq!(
        server.expect_error(rename("d.y", false)),
        (26, "Source collection d.c does not exist".into())
    );
    assert_eq!(server.expect_error(rename("d.c", false)).0, 20);
    assert_eq!(server.expect_error(rename("d", false)), (73, "Invalid target namespace: d".into()));
    assert_eq!(
        server.expect_error(rename("d.a$b", false)),
        (20, "error with target namespace: Invalid collection name: a$b".into())
    );
    assert_eq!(
        server.expect_error(doc! { "renameCollection": "d.z", "to": "d.y" }),
        (13, "renameCollection may only be run against the admin database.".into())
    );
}

#[test]
fn coll_mod_changes_index_and_reports_old_and_new_values() {
    let mut server = TestServer::with(numbers(1));
    server.ok(doc! {
        "createIndexes": "c",
        "indexes": [{ "key": { "a": 1 }, "name": "a_1", "expireAfterSeconds": 100 }],
    });
    let modify = |index: Document| doc! { "collMod": "c", "index": index };
    assert_eq!(
        server.ok(modify(doc! { "name": "a_1", "expireAfterSeconds": 50 })),
        doc! { "expireAfterSeconds_old": 100_i64, "expireAfterSeconds_new": 50_i64 }
    );
    assert_eq!(
        server.ok(modify(doc! { "keyPattern": { "a": 1 }, "hidden": true })),
        doc! { "hidden_old": false, "hidden_new": true }
    );
    let shown = server.batch(doc! { "listIndexes": "c" }).remove(1);
    assert_eq!(
        (shown.get_i32("expireAfterSeconds").unwrap(), shown.get_bool("hidden").unwrap()),
        (50, true)
    );
    assert_eq!(server.expect_error(doc! { "find": "c", "hint": "a_1" }).0, 2);
    assert_eq!(
        server.expect_error(modify(doc! { "name": "nix", "hidden": true })),
        (27, "cannot find index nix for ns d.c".into())
    );
    assert_eq!(server.expect_error(modify(doc! { "name": "a_1" })).0, 72);
    assert_eq!(
        server.expect_error(modify(doc! { "name": "_id_", "hidden": true })),
        (2, "can't hide _id index".into())
    );
    assert_eq!(
        server.expect_error(modify(doc! { "name": "a_1", "foo": 1 })),
        (40415, "BSON field 'collMod.index.foo' is an unknown field.".into())
    );
}

#[test]
fn coll_mod_changes_validator() {
    let mut server = TestServer::with(numbers(1));
    server.ok(doc! { "collMod": "c", "validator": { "a": 1 }, "validationLevel": "off" });
    server.ok(doc! { "collMod": "c", "changeStreamPreAndPostImages": { "enabled": true } });
    server.ok(doc! { "collMod": "c", "validator": {} });
    assert_eq!(
        options(&mut server, "c"),
        doc! {
            "validationLevel": "off",
            "changeStreamPreAndPostImages": { "enabled": true },
        }
    );
    assert_eq!(
        server.expect_error(doc! { "collMod": "nope", "validator": {} }),
        (26, "ns does not exist".into())
    );
}

#[test]
fn list_commands_support_filter_and_name_only() {
    let mut server = TestServer::with(numbers(1));
    server.ok(doc! { "create": "v", "validator": { "a": 1 } });
    let names = server.batch(doc! { "listCollections": 1, "nameOnly": true });
    assert_eq!(
        names,
        [doc! { "name": "c", "type": "collection" }, doc! { "name": "v", "type": "collection" }]
    );
    let filter = doc! { "options.validator": { "$exists": true } };
    let found = server.batch(doc! { "listCollections": 1, "filter": filter });
    assert_eq!((found.len(), found[0].get_str("name").unwrap()), (1, "v"));
    assert!(found[0].get_document("idIndex").is_ok());

    let databases = server.admin(doc! { "listDatabases": 1, "nameOnly": true });
    assert_eq!(databases, doc! { "databases": [{ "name": "d" }] });
    let reply = server.admin(doc! { "listDatabases": 1, "filter": { "name": "x" } });
    assert_eq!(reply, doc! { "databases": [], "totalSize": 0_i64, "totalSizeMb": 0_i64 });
    assert_eq!(server.expect_error(doc! { "listDatabases": 1 }).0, 13);
}
