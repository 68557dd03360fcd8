//! The `bulkWrite` command: counts, rows, validation.

use bson::{Bson, Document, doc};

use super::{Scenario, documents};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![counts(), rows(), validation()]
}

fn bulk(ops: Vec<Document>, more: Document) -> Document {
    let mut command = doc! {
        "bulkWrite": 1,
        "ops": ops,
        "nsInfo": [{ "ns": "@db.c" }, { "ns": "@db.d" }],
        "$db": "admin",
    };
    command.extend(more);
    command
}

fn insert(namespace: i32, id: i32) -> Document {
    doc! { "insert": namespace, "document": { "_id": id } }
}

fn counts() -> Scenario {
    Scenario::new("counts of bulkWrite")
        .step("mixed namespaces", bulk(vec![insert(0, 1), insert(1, 1), insert(0, 2)], doc! {}))
        .step("all kinds", {
            let ops = vec![
                insert(0, 3),
                doc! { "update": 0, "filter": { "_id": 3 }, "updateMods": { "$set": { "x": 1 } } },
                doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "x": 1 } }, "multi": true },
                doc! { "update": 0, "filter": { "_id": 9 }, "updateMods": { "$set": { "x": 1 } }, "upsert": true },
                doc! { "update": 0, "filter": { "_id": 8 }, "updateMods": { "y": 1 }, "upsert": true },
                doc! { "delete": 0, "filter": { "_id": 1 } },
                doc! { "delete": 1, "filter": {}, "multi": true },
            ];
            bulk(ops, doc! {})
        })
        .step("all kinds, errorsOnly", {
            let ops = vec![
                doc! { "update": 0, "filter": { "_id": 3 }, "updateMods": { "$set": { "x": 2 } } },
                doc! { "update": 0, "filter": { "_id": 7 }, "updateMods": { "$set": { "x": 1 } }, "upsert": true },
            ];
            bulk(ops, doc! { "errorsOnly": true })
        })
        .step("let", {
            let filter = doc! { "$expr": { "$eq": ["$_id", "$$id"] } };
            let ops = vec![doc! { "update": 0, "filter": filter, "updateMods": [{ "$set": { "by": "$$id" } }] }];
            bulk(ops, doc! { "let": { "id": 3 } })
        })
        .step("constants", {
            let op = doc! {
                "update": 0,
                "filter": { "_id": 3 },
                "updateMods": [{ "$set": { "by": "$$it" } }],
                "constants": { "it": 5 },
            };
            bulk(vec![op], doc! {})
        })
        .step("array", doc! { "insert": "c", "documents": [{ "_id": 20, "a": [1, 5, 9] }] })
        .step("arrayFilters", {
            let op = doc! {
                "update": 0,
                "filter": { "_id": 20 },
                "updateMods": { "$set": { "a.$[big]": 0 } },
                "arrayFilters": [{ "big": { "$gt": 4 } }],
            };
            bulk(vec![op], doc! {})
        })
        .step("arrayFilters not used", {
            let op = doc! {
                "update": 0,
                "filter": { "_id": 20 },
                "updateMods": { "$set": { "b": 0 } },
                "arrayFilters": [{ "big": { "$gt": 4 } }],
            };
            bulk(vec![op], doc! {})
        })
        .step("sort", {
            let op = doc! { "update": 0, "filter": {}, "sort": { "_id": -1 }, "updateMods": { "$set": { "last": 1 } } };
            bulk(vec![op], doc! {})
        })
        .step("hint of no index", {
            let op = doc! { "delete": 0, "filter": {}, "hint": "what" };
            bulk(vec![op], doc! {})
        })
        .step("collation", {
            let op = doc! { "delete": 0, "filter": { "s": "A" }, "collation": { "locale": "en", "strength": 2 } };
            bulk(vec![op], doc! {})
        })
        .step("comment", bulk(vec![insert(0, 30)], doc! { "comment": "why" }))
        .step("stored", documents("c"))
}

fn rows() -> Scenario {
    Scenario::new("rows of bulkWrite")
        .step("first", bulk(vec![insert(0, 1)], doc! {}))
        .step("duplicate, ordered", bulk(vec![insert(0, 2), insert(0, 1), insert(0, 3)], doc! {}))
        .step("duplicate, unordered", {
            bulk(vec![insert(0, 4), insert(0, 1), insert(0, 5), insert(0, 1)], doc! { "ordered": false })
        })
        .step("duplicate, ordered, errorsOnly", {
            bulk(vec![insert(0, 6), insert(0, 1), insert(0, 7)], doc! { "errorsOnly": true })
        })
        .step("duplicate, unordered, errorsOnly", {
            bulk(vec![insert(0, 8), insert(0, 1), insert(0, 9)], doc! { "ordered": false, "errorsOnly": true })
        })
        .step("update fails", {
            let ops = vec![
                doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "_id": 2 } } },
                doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$what": { "_id": 2 } } },
                doc! { "delete": 0, "filter": { "$what": 1 } },
            ];
            bulk(ops, doc! { "ordered": false })
        })
        .step("small batches", {
            bulk(vec![insert(0, 20), insert(0, 21), insert(0, 22)], doc! { "cursor": { "batchSize": 1 } })
        })
        .keep("cursor", "cursor.id")
        .step("more rows", {
            doc! { "getMore": "@cursor", "collection": "$cmd.bulkWrite", "$db": "admin" }
        })
        .step("stored", documents("c"))
}

fn validation() -> Scenario {
    let raw = |fields: Document| {
        let mut command = doc! { "bulkWrite": 1 };
        command.extend(fields);
        command.insert("$db", "admin");
        command
    };
    let infos = || Bson::from(vec![doc! { "ns": "@db.c" }]);
    Scenario::new("validation of bulkWrite")
        .step("not admin", {
            doc! { "bulkWrite": 1, "ops": [insert(0, 1)], "nsInfo": infos() }
        })
        .step("empty ops", raw(doc! { "ops": [], "nsInfo": infos() }))
        .step("no ops", raw(doc! { "nsInfo": infos() }))
        .step("no nsInfo", raw(doc! { "ops": [insert(0, 1)] }))
        .step("empty nsInfo", raw(doc! { "ops": [insert(0, 1)], "nsInfo": [] }))
        .step("index out of range", raw(doc! { "ops": [insert(1, 1)], "nsInfo": infos() }))
        .step("negative index", raw(doc! { "ops": [insert(-1, 1)], "nsInfo": infos() }))
        .step("index of another type", {
            raw(doc! { "ops": [{ "insert": "c", "document": {} }], "nsInfo": infos() })
        })
        .step(
            "unknown op",
            raw(doc! { "ops": [{ "upsert": 0, "document": {} }], "nsInfo": infos() }),
        )
        .step("unknown field", raw(doc! { "ops": [insert(0, 1)], "nsInfo": infos(), "what": 1 }))
        .step("unknown field of an op", {
            raw(doc! { "ops": [{ "insert": 0, "document": {}, "what": 1 }], "nsInfo": infos() })
        })
        .step("no document", raw(doc! { "ops": [{ "insert": 0 }], "nsInfo": infos() }))
        .step(
            "no filter",
            raw(doc! { "ops": [{ "update": 0, "updateMods": { "x": 1 } }], "nsInfo": infos() }),
        )
        .step(
            "no updateMods",
            raw(doc! { "ops": [{ "update": 0, "filter": {} }], "nsInfo": infos() }),
        )
        .step("bad namespace", raw(doc! { "ops": [insert(0, 1)], "nsInfo": [{ "ns": "c" }] }))
        .step("unused bad namespace", {
            raw(doc! { "ops": [insert(0, 1)], "nsInfo": [{ "ns": "@db.c" }, { "ns": "d" }] })
        })
        .step("duplicate namespace", {
            raw(doc! { "ops": [insert(0, 2)], "nsInfo": [{ "ns": "@db.c" }, { "ns": "@db.c" }] })
        })
        .step("multi replacement", {
            let op = doc! { "update": 0, "filter": {}, "updateMods": { "x": 1 }, "multi": true };
            raw(doc! { "ops": [op], "nsInfo": infos() })
        })
        .step("multi with sort", {
            let op = doc! {
                "update": 0,
                "filter": {},
                "sort": { "x": 1 },
                "updateMods": { "$set": { "x": 1 } },
                "multi": true,
            };
            raw(doc! { "ops": [op], "nsInfo": infos() })
        })
        .step("too many", {
            let ops: Vec<_> =
                (0..100_001).map(|_| doc! { "delete": 0, "filter": { "_id": 0 } }).collect();
            raw(doc! { "ops": ops, "nsInfo": infos() })
        })
        .step("unacknowledged with errorsOnly false", {
            raw(doc! { "ops": [insert(0, 3)], "nsInfo": infos(), "writeConcern": { "w": 0 } })
        })
        .step("stmtIds without a number", {
            raw(doc! { "ops": [insert(0, 4)], "nsInfo": infos(), "stmtIds": [1] })
        })
        .step("too many insert statements", {
            let documents: Vec<_> = (0..100_001).map(|_| doc! {}).collect();
            doc! { "insert": "c", "documents": documents }
        })
        .step("stored", documents("c"))
}
