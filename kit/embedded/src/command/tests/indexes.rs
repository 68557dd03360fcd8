//! `createIndexes`, `dropIndexes` and `listIndexes`.

use bson::{Document, doc};

use super::{TestServer, numbers};

fn create(indexes: impl IntoIterator<Item = Document>) -> Document {
    let indexes: Vec<Document> = indexes.into_iter().collect();
    doc! { "createIndexes": "c", "indexes": indexes }
}

fn names(server: &mut TestServer) -> Vec<String> {
    let listed = server.batch(doc! { "listIndexes": "c" });
    listed.iter().map(|it| it.get_str("name").unwrap().to_owned()).collect()
}

#[test]
fn create_indexes_creates_collection_and_ignores_existing_index() {
    let mut server = TestServer::new();
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    assert_eq!(
        server.ok(create([index.clone()])),
        doc! {
            "numIndexesBefore": 1,
            "numIndexesAfter": 2,
            "createdCollectionAutomatically": true,
            "commitQuorum": "votingMembers",
        }
    );
    assert_eq!(
        server.ok(create([index.clone()])),
        doc! {
            "numIndexesBefore": 2,
            "numIndexesAfter": 2,
            "commitQuorum": "votingMembers",
            "note": "all indexes already exist",
        }
    );
    assert_eq!(
        server.batch(doc! { "listIndexes": "c" }),
        [
            doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
            doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" },
        ]
    );
    let renamed = doc! { "key": { "a": 1 }, "name": "other" };
    assert_eq!(
        server.expect_error(create([renamed])),
        (85, "Index already exists with a different name: a_1".into())
    );
    assert_eq!(server.expect_error(create([doc! { "key": { "b": 1 }, "name": "a_1" }])).0, 86);
    assert_eq!(
        server.ok(create([doc! { "key": { "_id": 1 }, "name": "_id_" }])).get_str("note").unwrap(),
        "all indexes already exist"
    );
}

#[test]
fn failed_index_build_builds_no_index() {
    let mut server = TestServer::with([doc! { "u": 1 }, doc! { "u": 1 }]);
    let good = doc! { "key": { "a": 1 }, "name": "a_1" };
    let unique = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true };
    let (code, message) = server.expect_error(create([good, unique]));
    assert_eq!(code, 11000);
    assert!(message.starts_with("Index build failed: "), "{message}");
    assert_eq!(names(&mut server), ["_id_"]);
}

#[test]
fn create_indexes_rejects_invalid_specifications() {
    let mut server = TestServer::with(numbers(1));
    let mut rejected = |command| server.expect_error(command);
    assert_eq!(rejected(create([])), (2, "Must specify at least one index to create".into()));
    assert_eq!(
        rejected(doc! { "createIndexes": "c" }),
        (40414, "BSON field 'createIndexes.indexes' is missing but a required field".into())
    );
    assert_eq!(
        rejected(doc! { "createIndexes": "c", "indexes": [5] }),
        (
            14,
            "BSON field 'createIndexes.indexes.0' is the wrong type 'int', expected type 'object'"
                .into()
        )
    );
    assert_eq!(rejected(create([doc! { "key": { "e": 0 }, "name": "x" }])).0, 67);
    assert_eq!(rejected(create([doc! { "key": { "e": 1 } }])).0, 9);
    let twice = doc! { "key": { "b": 1 }, "name": "b_1" };
    assert_eq!(rejected(create([twice.clone(), twice])).0, 68);
    let mut command = create([doc! { "key": { "q": 1 }, "name": "q" }]);
    command.insert("commitQuorum", "foo");
    assert_eq!(rejected(command).0, 79);
}

#[test]
fn drop_indexes_accepts_name_key_list_and_wildcard() {
    let mut server = TestServer::with(numbers(1));
    let index = |name: &str| doc! { "key": { name: 1 }, "name": format!("{name}_1") };
    server.ok(create(["a", "b", "c", "d", "e"].map(index)));
    let drop = |index: bson::Bson| doc! { "dropIndexes": "c", "index": index };
    assert_eq!(
        server.expect_error(drop("nix".into())),
        (27, "index not found with name [nix]".into())
    );
    assert_eq!(server.expect_error(drop("_id_".into())), (72, "cannot drop _id index".into()));
    assert_eq!(
        server.expect_error(drop(doc! { "nix": 1 }.into())),
        (27, "can't find index with key: { nix: 1 }".into())
    );
    assert_eq!(server.expect_error(drop(vec!["b_1", "nix"].into())).0, 27);
    assert_eq!(server.expect_error(drop(5.into())).0, 14);
    assert_eq!(server.ok(drop("a_1".into())), doc! { "nIndexesWas": 6 });
    server.ok(drop(doc! { "b": 1.0 }.into()));
    server.ok(drop(vec!["c_1", "d_1"].into()));
    assert_eq!(names(&mut server), ["_id_", "e_1"]);
    assert_eq!(
        server.ok(drop("*".into())),
        doc! { "nIndexesWas": 2, "msg": "non-_id indexes dropped for collection" }
    );
    assert_eq!(
        server.expect_error(doc! { "dropIndexes": "nope", "index": "*" }),
        (26, "ns not found d.nope".into())
    );
    assert_eq!(
        server.expect_error(doc! { "listIndexes": "nope" }),
        (26, "ns does not exist: d.nope".into())
    );
}
