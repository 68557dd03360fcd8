//! Change streams: events, images of documents, resume tokens, errors.

use bson::{Document, Timestamp, doc};

use super::{Scenario, begin, commit, within};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![events(), expanded_events(), images(), starts(), errors(), of_databases(), of_shards()]
}

fn watch(collection: &str, options: Document) -> Document {
    doc! { "aggregate": collection, "pipeline": [{ "$changeStream": options }], "cursor": {} }
}

fn insert(id: i32) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id, "x": 0 }] }
}

fn update(id: i32, change: Document) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": change }] }
}

fn events() -> Scenario {
    Scenario::new("events")
        .prepare("create", doc! { "create": "c" })
        .step("watch", watch("c", doc! {}))
        .keep("cursor", "cursor.id")
        .step("insert", insert(1))
        .step(
            "update",
            update(1, doc! { "$set": { "x": 1, "a": [1, 2, 3], "b.c": 1 }, "$unset": { "y": 1 } }),
        )
        .step("update of an array", update(1, doc! { "$set": { "a.0": 9 }, "$unset": { "b": 1 } }))
        .step("truncation of an array", update(1, doc! { "$pop": { "a": 1 } }))
        .step("update of nothing", update(1, doc! { "$set": { "x": 1 } }))
        .step("replacement", update(1, doc! { "z": 1 }))
        .step("retryable insert", super::retryable("@lsid", 1, insert(2)))
        .step("transaction", begin("@lsid", 2, insert(3)))
        .step("second statement", within("@lsid", 2, insert(4)))
        .step("commit", commit("@lsid", 2))
        .step("delete", doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] })
        .step(
            "index",
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        )
        .events("events", "c", 9)
        .step("rename", doc! { "renameCollection": "@db.c", "to": "@db.d", "$db": "admin" })
        .events("rename and invalidate", "c", 2)
        .keep("invalidate", "cursor.nextBatch.1._id")
        .step("getMore after invalidate", doc! { "getMore": "@cursor", "collection": "c" })
        .step("resumeAfter invalidate", watch("c", doc! { "resumeAfter": "@invalidate" }))
        .step("startAfter invalidate", watch("c", doc! { "startAfter": "@invalidate" }))
        .keep("cursor", "cursor.id")
        .step("insert after invalidate", insert(10))
        .events("events after invalidate", "c", 1)
        .step("drop", doc! { "drop": "c" })
        .events("drop and invalidate", "c", 2)
}

fn expanded_events() -> Scenario {
    Scenario::new("expanded events")
        .prepare("create another", doc! { "create": "other" })
        .step("watch", watch("c", doc! { "showExpandedEvents": true }))
        .keep("cursor", "cursor.id")
        .step("create", doc! { "create": "c" })
        .step("createIndexes", doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        .step("insert", insert(1))
        .step("update", update(1, doc! { "$set": { "x": 1, "0.1": 2 } }))
        .step("collMod", doc! { "collMod": "c", "index": { "name": "a", "hidden": true } })
        .step("dropIndexes", doc! { "dropIndexes": "c", "index": "a" })
        .step("index on documents", doc! { "createIndexes": "c", "indexes": [{ "key": { "x": 1 }, "name": "x" }] })
        .events("events", "c", 7)
        .step("rename", doc! { "renameCollection": "@db.c", "to": "@db.other", "dropTarget": true, "$db": "admin" })
        .events("rename event", "c", 2)
}

fn images() -> Scenario {
    let open = watch;
    let watch = |after: &str, before: &str| {
        open("c", doc! { "fullDocument": after, "fullDocumentBeforeChange": before })
    };
    Scenario::new("images")
        .step("create", doc! { "create": "c" })
        .step("insert", insert(1))
        .keep("time", "operationTime")
        .step("lookup", watch("updateLookup", "off"))
        .keep("cursor", "cursor.id")
        .step("update", update(1, doc! { "$set": { "x": 1 } }))
        .events("event with lookup", "c", 1)
        .step("update without images", update(1, doc! { "$set": { "x": 2 } }))
        .keep("time", "operationTime")
        .step("required before, not kept", {
            open(
                "c",
                doc! { "fullDocumentBeforeChange": "required", "startAtOperationTime": "@time" },
            )
        })
        .keep("cursor", "cursor.id")
        .step("required after, not kept", {
            open("c", doc! { "fullDocument": "required", "startAtOperationTime": "@time" })
        })
        .step("when available, not kept", {
            let options = doc! {
                "fullDocument": "whenAvailable",
                "fullDocumentBeforeChange": "whenAvailable",
                "startAtOperationTime": "@time",
            };
            open("c", options)
        })
        .keep("cursor", "cursor.id")
        .events("event when available, not kept", "c", 1)
        .step(
            "keep images",
            doc! { "collMod": "c", "changeStreamPreAndPostImages": { "enabled": true } },
        )
        .step("both required", watch("required", "required"))
        .keep("cursor", "cursor.id")
        .step("update with images", update(1, doc! { "$set": { "x": 3 } }))
        .step("replacement with images", update(1, doc! { "y": 3 }))
        .step("delete with images", doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] })
        .events("events with images", "c", 3)
        .step("bad fullDocument", watch("what", "off"))
        .step("bad fullDocumentBeforeChange", watch("default", "what"))
        .step("fullDocument of another type", open("c", doc! { "fullDocument": 1 }))
}

fn starts() -> Scenario {
    Scenario::new("starts of change streams")
        .prepare("create", doc! { "create": "c" })
        .step("watch", watch("c", doc! {}))
        .keep("cursor", "cursor.id")
        .keep("first", "cursor.postBatchResumeToken")
        .step("insert 1", insert(1))
        .keep("time", "operationTime")
        .step("insert 2", insert(2))
        .step("insert 3", insert(3))
        .events("three", "c", 3)
        .keep("token", "cursor.nextBatch.0._id")
        .step("resumeAfter", watch("c", doc! { "resumeAfter": "@token" }))
        .keep("cursor", "cursor.id")
        .step("startAfter", watch("c", doc! { "startAfter": "@token" }))
        .step("startAtOperationTime", watch("c", doc! { "startAtOperationTime": "@time" }))
        .step("resumeAfter the first", watch("c", doc! { "resumeAfter": "@first" }))
        .step("small batch", {
            let mut command = watch("c", doc! { "startAtOperationTime": "@time" });
            command.insert("cursor", doc! { "batchSize": 1 });
            command
        })
        .step("filtered", {
            let pipeline = vec![
                doc! { "$changeStream": { "startAtOperationTime": "@time" } },
                doc! { "$match": { "documentKey._id": 3 } },
                doc! { "$project": { "documentKey": 1 } },
            ];
            doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }
        })
        .step("both tokens", watch("c", doc! { "resumeAfter": "@token", "startAfter": "@token" }))
        .step(
            "token and time",
            watch("c", doc! { "resumeAfter": "@token", "startAtOperationTime": "@time" }),
        )
        .step("token of no stream", watch("c", doc! { "resumeAfter": { "_data": "00" } }))
        .step("token of letters", watch("c", doc! { "resumeAfter": { "_data": "what" } }))
        .step("token without data", watch("c", doc! { "resumeAfter": { "x": 1 } }))
        .step("empty token", watch("c", doc! { "resumeAfter": {} }))
        .step("token of another type", watch("c", doc! { "resumeAfter": "what" }))
        .step("token data of another type", watch("c", doc! { "resumeAfter": { "_data": 1 } }))
        .step("token elsewhere", watch("d", doc! { "resumeAfter": "@token" }))
        .step("time in the future", {
            watch(
                "c",
                doc! { "startAtOperationTime": Timestamp { time: 4_000_000_000, increment: 1 } },
            )
        })
        .step("time long ago", {
            watch("c", doc! { "startAtOperationTime": Timestamp { time: 1, increment: 1 } })
        })
        .step("time of another type", watch("c", doc! { "startAtOperationTime": 1 }))
}

fn errors() -> Scenario {
    let pipeline =
        |stages: Vec<Document>| doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    Scenario::new("errors of change streams")
        .prepare("create", doc! { "create": "c" })
        .step("not first", pipeline(vec![doc! { "$match": {} }, doc! { "$changeStream": {} }]))
        .step("$group", pipeline(vec![doc! { "$changeStream": {} }, doc! { "$group": { "_id": 1 } }]))
        .step("$out", pipeline(vec![doc! { "$changeStream": {} }, doc! { "$out": "d" }]))
        .step("unknown option", watch("c", doc! { "what": 1 }))
        .step("option of another type", watch("c", doc! { "showExpandedEvents": 1 }))
        .step("read concern local", {
            let mut command = watch("c", doc! {});
            command.insert("readConcern", doc! { "level": "local" });
            command
        })
        .step("read concern majority", {
            let mut command = watch("c", doc! {});
            command.insert("readConcern", doc! { "level": "majority" });
            command
        })
        .step("on admin", {
            let mut command = watch("c", doc! {});
            command.insert("$db", "admin");
            command
        })
        .step("on a system collection", watch("system.what", doc! {}))
        .step("all changes elsewhere", watch("c", doc! { "allChangesForCluster": true }))
        .step("view", doc! { "create": "v", "viewOn": "c" })
        .step("on a view", watch("v", doc! {}))
        .step("_id changed", pipeline(vec![doc! { "$changeStream": {} }, doc! { "$project": { "_id": 0 } }]))
        .keep("cursor", "cursor.id")
        .step("insert", insert(1))
        .events("event without _id", "c", 1)
        .step("getMore after the error", doc! { "getMore": "@cursor", "collection": "c" })
        .step("on what is not there", watch("nothing", doc! {}))
        .step("$changeStreamSplitLargeEvent", {
            pipeline(vec![doc! { "$changeStream": {} }, doc! { "$changeStreamSplitLargeEvent": {} }])
        })
        .step("explained", doc! { "explain": { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} }, "verbosity": "what" })
}

fn of_databases() -> Scenario {
    Scenario::new("change streams of databases")
        .prepare("create the first", doc! { "create": "first" })
        .step("watch", {
            doc! { "aggregate": 1, "pipeline": [{ "$changeStream": { "showExpandedEvents": true } }], "cursor": {} }
        })
        .keep("cursor", "cursor.id")
        .step("create", doc! { "create": "c" })
        .step("create a view", doc! { "create": "v", "viewOn": "c" })
        .step("insert", insert(1))
        .step("implicit creation", doc! { "insert": "d", "documents": [{ "_id": 1 }] })
        .step("rename", doc! { "renameCollection": "@db.d", "to": "@db.e", "$db": "admin" })
        .step("drop", doc! { "drop": "c" })
        .events("events", "$cmd.aggregate", 7)
        // One collection is left, because those of a database are dropped in no particular order.
        .step("drop the first", doc! { "drop": "first" })
        .step("dropDatabase", doc! { "dropDatabase": 1 })
        .events("dropDatabase event", "$cmd.aggregate", 5)
}

fn of_shards() -> Scenario {
    let document = |k: i32| doc! { "_id": k, "k": k };
    Scenario::new("change streams of shards")
        .with_sharded_collection()
        .step("watch", watch("s", doc! { "showExpandedEvents": true }))
        .keep("cursor", "cursor.id")
        .step("insert 1", doc! { "insert": "s", "documents": [document(1)] })
        .step("insert 2", doc! { "insert": "s", "documents": [document(-1)] })
        .step("update", doc! { "update": "s", "updates": [{ "q": { "k": 1 }, "u": { "$set": { "x": 1 } } }] })
        .step("moved", super::retryable("@lsid", 1, {
            doc! { "update": "s", "updates": [{ "q": { "k": 1 }, "u": { "$set": { "k": -5 } } }] }
        }))
        .step("transaction", begin("@lsid", 2, doc! { "insert": "s", "documents": [document(7), document(-7)] }))
        .step("commit", commit("@lsid", 2))
        .step("delete", doc! { "delete": "s", "deletes": [{ "q": { "k": -1 }, "limit": 1 }] })
        .events("events", "s", 8)
        .step("createIndexes", doc! { "createIndexes": "s", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        .events("createIndexes event", "s", 2)
        .step("refine", {
            doc! { "createIndexes": "s", "indexes": [{ "key": { "k": 1, "_id": 1 }, "name": "k_id" }] }
        })
        .step("refineCollectionShardKey", {
            doc! { "refineCollectionShardKey": "@db.s", "key": { "k": 1, "_id": 1 }, "$db": "admin" }
        })
        .step("drop", doc! { "drop": "s" })
        .events("drop events", "s", 5)
}
