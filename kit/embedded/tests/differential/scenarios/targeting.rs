//! Writes through a mongos: statements with and without the shard key, changes of the shard key.

use bson::{Document, doc};

use super::{Scenario, begin, commit, documents, retryable};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        updates(),
        deletes(),
        find_and_modify(),
        changed_shard_keys(),
        inserts(),
        bulk_writes(),
        pipelines_that_write(),
    ]
}

fn fill() -> Document {
    let documents: Vec<_> = (-3..3).map(|k| doc! { "_id": k, "k": k, "x": 0 }).collect();
    doc! { "insert": "s", "documents": documents }
}

fn update(statement: Document) -> Document {
    doc! { "update": "s", "updates": [statement] }
}

fn updates() -> Scenario {
    let set = || doc! { "$inc": { "x": 1 } };
    Scenario::new("targeted updates")
        .with_sharded_collection()
        .step("fill", fill())
        .step("by shard key", update(doc! { "q": { "k": 1 }, "u": set() }))
        .step("by _id", update(doc! { "q": { "_id": 1 }, "u": set() }))
        .step("by _id, retryable", retryable("@lsid", 1, update(doc! { "q": { "_id": 1 }, "u": set() })))
        .step("by _id, repeated", retryable("@lsid", 1, update(doc! { "q": { "_id": 1 }, "u": set() })))
        .step("by neither", update(doc! { "q": { "x": 2 }, "u": set() }))
        .step("by neither, retryable", retryable("@lsid", 2, update(doc! { "q": { "x": 3 }, "u": set() })))
        .step("by neither, repeated", retryable("@lsid", 2, update(doc! { "q": { "x": 3 }, "u": set() })))
        .step("by neither, nothing found", update(doc! { "q": { "x": 99 }, "u": set() }))
        .step("multi", update(doc! { "q": { "x": { "$gte": 0 } }, "u": set(), "multi": true }))
        .step("multi by range", update(doc! { "q": { "k": { "$lt": 0 } }, "u": set(), "multi": true }))
        .step("multi, retryable", {
            retryable("@lsid", 3, update(doc! { "q": {}, "u": set(), "multi": true }))
        })
        .step("upsert by shard key", update(doc! { "q": { "k": 10 }, "u": { "$set": { "_id": 10 } }, "upsert": true }))
        .step("upsert by _id", update(doc! { "q": { "_id": 11 }, "u": set(), "upsert": true }))
        .step("upsert by neither", {
            update(doc! { "q": { "x": 98 }, "u": { "$set": { "_id": 12 } }, "upsert": true })
        })
        .step("upsert by neither, retryable", {
            let statement = doc! { "q": { "x": 97 }, "u": { "$set": { "_id": 13 } }, "upsert": true };
            retryable("@lsid", 4, update(statement))
        })
        .step("multi upsert", {
            update(doc! { "q": { "x": 96 }, "u": { "$set": { "_id": 14 } }, "upsert": true, "multi": true })
        })
        .step("multi upsert by shard key", {
            update(doc! { "q": { "k": 15 }, "u": { "$set": { "_id": 15 } }, "upsert": true, "multi": true })
        })
        .step("replacement by shard key", update(doc! { "q": { "k": 2 }, "u": { "k": 2, "y": 1 } }))
        .step("replacement by _id", update(doc! { "q": { "_id": -2 }, "u": { "k": -2, "y": 1 } }))
        .step("replacement without shard key", update(doc! { "q": { "k": -1 }, "u": { "y": 1 } }))
        .step("pipeline by shard key", update(doc! { "q": { "k": 1 }, "u": [{ "$set": { "y": 2 } }] }))
        .step("two statements, one fails", {
            let statements = vec![
                doc! { "q": { "k": 1 }, "u": { "$inc": { "_id": 1 } } },
                doc! { "q": { "k": -3 }, "u": { "$inc": { "x": 1 } } },
            ];
            doc! { "update": "s", "updates": statements }
        })
        .step("two statements, one fails, unordered", {
            let statements = vec![
                doc! { "q": { "k": 1 }, "u": { "$inc": { "_id": 1 } } },
                doc! { "q": { "k": -3 }, "u": { "$inc": { "x": 1 } } },
            ];
            doc! { "update": "s", "updates": statements, "ordered": false }
        })
        .step("sorted", update(doc! { "q": { "x": { "$gt": 0 } }, "u": { "$set": { "z": 1 } }, "sort": { "_id": -1 } }))
        .step("sorted multi", {
            update(doc! { "q": {}, "u": { "$set": { "z": 1 } }, "sort": { "_id": -1 }, "multi": true })
        })
        .step("stored", documents("s"))
}

fn deletes() -> Scenario {
    let delete =
        |q: Document, limit: i32| doc! { "delete": "s", "deletes": [{ "q": q, "limit": limit }] };
    Scenario::new("targeted deletes")
        .with_sharded_collection()
        .step("fill", fill())
        .step("by shard key", delete(doc! { "k": 1 }, 1))
        .step("by _id", delete(doc! { "_id": 2 }, 1))
        .step("by _id, nothing found", delete(doc! { "_id": 2 }, 1))
        .step("by _id, retryable", retryable("@lsid", 1, delete(doc! { "_id": -1 }, 1)))
        .step("by _id, repeated", retryable("@lsid", 1, delete(doc! { "_id": -1 }, 1)))
        .step("by neither", delete(doc! { "x": 0, "_id": { "$lt": -2 } }, 1))
        .step("by neither, retryable", {
            retryable("@lsid", 2, delete(doc! { "x": 0, "_id": { "$lt": 0 } }, 1))
        })
        .step("by neither, repeated", {
            retryable("@lsid", 2, delete(doc! { "x": 0, "_id": { "$lt": 0 } }, 1))
        })
        .step("all", delete(doc! {}, 0))
        .step("bad limit", delete(doc! {}, 2))
        .step("stored", documents("s"))
}

fn find_and_modify() -> Scenario {
    let command = |query: Document, arguments: Document| {
        let mut command = doc! { "findAndModify": "s", "query": query };
        command.extend(arguments);
        command
    };
    let increment = || doc! { "update": { "$inc": { "x": 1 } }, "new": true };
    Scenario::new("targeted findAndModify")
        .with_sharded_collection()
        .step("fill", fill())
        .step("by shard key", command(doc! { "k": 1 }, increment()))
        .step("by _id", command(doc! { "_id": -1 }, increment()))
        .step("by neither", command(doc! { "x": 0, "_id": 2 }, increment()))
        .step(
            "by neither, sorted",
            command(doc! { "x": 0 }, {
                let mut arguments = increment();
                arguments.insert("sort", doc! { "_id": -1 });
                arguments
            }),
        )
        .step("by neither, retryable", {
            retryable("@lsid", 1, command(doc! { "x": 0, "_id": -2 }, increment()))
        })
        .step("by neither, repeated", {
            retryable("@lsid", 1, command(doc! { "x": 0, "_id": -2 }, increment()))
        })
        .step("nothing found", command(doc! { "x": 99 }, increment()))
        .step(
            "remove by neither",
            command(doc! { "x": 0 }, doc! { "remove": true, "sort": { "_id": 1 } }),
        )
        .step("upsert by neither", {
            command(
                doc! { "x": 77 },
                doc! { "update": { "$set": { "_id": 77 } }, "upsert": true, "new": true },
            )
        })
        .step("upsert by shard key", {
            command(doc! { "k": 78 }, doc! { "update": { "$set": { "_id": 78 } }, "upsert": true })
        })
        .step(
            "in a transaction",
            begin("@lsid", 2, command(doc! { "x": { "$gt": 0 }, "_id": 1 }, increment())),
        )
        .step("commit", commit("@lsid", 2))
        .step("stored", documents("s"))
}

fn changed_shard_keys() -> Scenario {
    let change =
        |from: i32, to: i32| update(doc! { "q": { "k": from }, "u": { "$set": { "k": to } } });
    Scenario::new("changed shard keys")
        .with_sharded_collection()
        .step("fill", fill())
        .step("same shard, plain", change(1, 5))
        .step("same shard, retryable", retryable("@lsid", 1, change(5, 1)))
        .step("other shard, plain", change(1, -10))
        .step("other shard, retryable", retryable("@lsid", 2, change(1, -10)))
        .step("other shard, repeated", retryable("@lsid", 2, change(1, -10)))
        .step("other shard, in a transaction", begin("@lsid", 3, change(2, -20)))
        .step("commit", commit("@lsid", 3))
        .step("multi", update(doc! { "q": { "k": 0 }, "u": { "$set": { "k": -30 } }, "multi": true }))
        .step("by _id, retryable", {
            retryable("@lsid", 4, update(doc! { "q": { "_id": 0 }, "u": { "$set": { "k": -30 } } }))
        })
        .step("replacement, retryable", {
            retryable("@lsid", 5, update(doc! { "q": { "k": -1 }, "u": { "k": 40 } }))
        })
        .step("findAndModify, plain", {
            doc! { "findAndModify": "s", "query": { "k": -2 }, "update": { "$set": { "k": 50 } }, "new": true }
        })
        .step("findAndModify, retryable", retryable("@lsid", 6, {
            doc! { "findAndModify": "s", "query": { "k": -2 }, "update": { "$set": { "k": 50 } }, "new": true }
        }))
        .step("findAndModify, repeated", retryable("@lsid", 6, {
            doc! { "findAndModify": "s", "query": { "k": -2 }, "update": { "$set": { "k": 50 } }, "new": true }
        }))
        .step("upsert to the other shard, retryable", retryable("@lsid", 7, {
            update(doc! { "q": { "k": 60 }, "u": { "$set": { "_id": 60, "k": -60 } }, "upsert": true })
        }))
        .step("bulkWrite, retryable", retryable("@lsid", 8, {
            let ops = vec![doc! { "update": 0, "filter": { "k": -3 }, "updateMods": { "$set": { "k": 70 } } }];
            doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.s" }], "$db": "admin" }
        }))
        .step("two statements, retryable", retryable("@lsid", 9, {
            let statements = vec![
                doc! { "q": { "k": -10 }, "u": { "$set": { "k": 80 } } },
                doc! { "q": { "k": -20 }, "u": { "$set": { "k": 81 } } },
            ];
            doc! { "update": "s", "updates": statements }
        }))
        .step("to an array", update(doc! { "q": { "k": 40 }, "u": { "$set": { "k": [1] } } }))
        .step("unset", update(doc! { "q": { "k": 40 }, "u": { "$unset": { "k": 1 } } }))
        .step("stored", documents("s"))
}

fn inserts() -> Scenario {
    let insert = |documents: Vec<Document>, ordered: bool| {
        doc! { "insert": "s", "documents": documents, "ordered": ordered }
    };
    Scenario::new("targeted inserts")
        .with_sharded_collection()
        .step("no shard key", insert(vec![doc! { "_id": 1 }], true))
        .step("array", insert(vec![doc! { "_id": 2, "k": [1] }], true))
        .step("null", insert(vec![doc! { "_id": 3, "k": null }], true))
        .step("nested", insert(vec![doc! { "_id": 4, "k": { "a": 1 } }], true))
        .step(
            "both shards",
            insert((-2..2).map(|k| doc! { "_id": k * 10, "k": k }).collect(), true),
        )
        .step("the same _id on both shards", {
            insert(vec![doc! { "_id": 50, "k": -1 }, doc! { "_id": 50, "k": 1 }], true)
        })
        .step("errors on both, ordered", {
            insert(
                vec![
                    doc! { "_id": 60, "k": 1 },
                    doc! { "_id": -20, "k": -2 },
                    doc! { "_id": 61, "k": 1 },
                    doc! { "_id": 10, "k": 1 },
                ],
                true,
            )
        })
        .step("errors on both, unordered", {
            insert(
                vec![
                    doc! { "_id": 62, "k": 1 },
                    doc! { "_id": -20, "k": -2 },
                    doc! { "_id": 63, "k": 1 },
                    doc! { "_id": 10, "k": 1 },
                ],
                false,
            )
        })
        .step("array among others, unordered", {
            insert(
                vec![
                    doc! { "_id": 64, "k": 1 },
                    doc! { "_id": 65, "k": [1] },
                    doc! { "_id": 66, "k": -1 },
                ],
                false,
            )
        })
        .step(
            "retryable over both",
            retryable("@lsid", 1, {
                insert(vec![doc! { "_id": 70, "k": -1 }, doc! { "_id": 71, "k": 1 }], true)
            }),
        )
        .step(
            "retryable over both, repeated",
            retryable("@lsid", 1, {
                insert(vec![doc! { "_id": 70, "k": -1 }, doc! { "_id": 71, "k": 1 }], true)
            }),
        )
        .step("into config", doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "config" })
        .step("stored", documents("s"))
}

fn bulk_writes() -> Scenario {
    let bulk = |ops: Vec<Document>, more: Document| {
        let mut command = doc! {
            "bulkWrite": 1,
            "ops": ops,
            "nsInfo": [{ "ns": "@db.s" }, { "ns": "@db.c" }],
            "$db": "admin",
        };
        command.extend(more);
        command
    };
    let insert = |namespace: i32, id: i32, k: i32| {
        doc! { "insert": namespace, "document": { "_id": id, "k": k } }
    };
    Scenario::new("bulkWrite over two shards")
        .with_sharded_collection()
        .step("inserts", {
            bulk(vec![insert(0, 1, 1), insert(0, 2, -1), insert(1, 3, 1), insert(0, 4, 2)], doc! {})
        })
        .step("errors, ordered", {
            bulk(vec![insert(0, 5, 1), insert(0, 2, -1), insert(0, 6, 1)], doc! {})
        })
        .step("errors, unordered", {
            bulk(vec![insert(0, 7, 1), insert(0, 2, -1), insert(0, 1, 1), insert(0, 8, -1)], doc! { "ordered": false })
        })
        .step("errors, unordered, errorsOnly", {
            bulk(vec![insert(0, 9, 1), insert(0, 2, -1), insert(0, 10, -1)], doc! { "ordered": false, "errorsOnly": true })
        })
        .step("only errors", bulk(vec![insert(0, 2, -1)], doc! { "ordered": false }))
        .step("errorsOnly without errors", bulk(vec![insert(0, 11, 1), insert(0, 12, -1)], doc! { "errorsOnly": true }))
        .step("updates and deletes", {
            let ops = vec![
                doc! { "update": 0, "filter": { "k": 1 }, "updateMods": { "$set": { "x": 1 } } },
                doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "x": 2 } }, "multi": true },
                doc! { "update": 0, "filter": { "k": 20 }, "updateMods": { "$set": { "_id": 20 } }, "upsert": true },
                doc! { "delete": 0, "filter": { "k": -1, "_id": 2 } },
                doc! { "delete": 0, "filter": { "_id": { "$gt": 10 } }, "multi": true },
            ];
            bulk(ops, doc! {})
        })
        .step("by _id", {
            let ops = vec![
                doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "y": 1 } } },
                doc! { "delete": 0, "filter": { "_id": 4 } },
            ];
            bulk(ops, doc! {})
        })
        .step("retryable", {
            retryable("@lsid", 1, bulk(vec![insert(0, 30, 1), insert(0, 31, -1)], doc! {}))
        })
        .step("repeated", {
            retryable("@lsid", 1, bulk(vec![insert(0, 30, 1), insert(0, 31, -1)], doc! {}))
        })
        .step("in a transaction", {
            begin("@lsid", 2, bulk(vec![insert(0, 40, 1), insert(0, 41, -1)], doc! {}))
        })
        .step("commit", commit("@lsid", 2))
        .step("bad document", {
            bulk(vec![insert(0, 50, 1), doc! { "insert": 0, "document": { "_id": 51, "k": [1] } }, insert(0, 52, -1)], doc! {})
        })
        .step("stored", documents("s"))
}

fn pipelines_that_write() -> Scenario {
    let aggregate = |stage: Document| {
        doc! { "aggregate": "s", "pipeline": [{ "$match": {} }, stage], "cursor": {} }
    };
    Scenario::new("pipelines that write")
        .with_sharded_collection()
        .step("fill", fill())
        .step("$out", aggregate(doc! { "$out": "out" }))
        .step("what $out wrote", documents("out"))
        .step("$out to itself", aggregate(doc! { "$out": "s" }))
        .step("$merge", aggregate(doc! { "$merge": "merged" }))
        .step("what $merge wrote", documents("merged"))
        .step("$merge on another field", aggregate(doc! { "$merge": { "into": "merged", "on": "x" } }))
        .step("$merge that fails", {
            // The documents of one shard, because either shard can be first to fail.
            let merge = doc! { "$merge": { "into": "merged", "whenMatched": "fail" } };
            doc! { "aggregate": "s", "pipeline": [{ "$match": { "k": -3 } }, merge], "cursor": {} }
        })
        .step("$merge that discards", {
            aggregate(doc! { "$merge": { "into": "merged", "whenNotMatched": "discard" } })
        })
        .step("$out in the middle", {
            doc! { "aggregate": "s", "pipeline": [{ "$out": "a" }, { "$match": {} }], "cursor": {} }
        })
        .step("count by group", {
            let group = doc! { "$group": { "_id": "$x", "n": { "$sum": 1 } } };
            doc! { "aggregate": "s", "pipeline": [group], "cursor": {} }
        })
        .step("$lookup", {
            let lookup = doc! { "$lookup": { "from": "s", "localField": "k", "foreignField": "k", "as": "same" } };
            doc! { "aggregate": "s", "pipeline": [{ "$sort": { "_id": 1 } }, { "$limit": 1 }, lookup], "cursor": {} }
        })
}
