//! Read concerns, write concerns, time limits, snapshots.

use bson::{Bson, Document, Timestamp, doc};

use super::{Scenario, Target, documents};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![write_concerns(), read_concerns(), snapshots(), time_limits(), secondaries()]
}

fn with(mut command: Document, name: &str, value: impl Into<Bson>) -> Document {
    command.insert(name, value);
    command
}

fn write_concerns() -> Scenario {
    let insert = |id: i32, concern: Document| {
        doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": concern }
    };
    Scenario::new("write concerns")
        .step("majority", insert(1, doc! { "w": "majority" }))
        .step("w 1", insert(2, doc! { "w": 1 }))
        .step("w 100", insert(3, doc! { "w": 100 }))
        .step("w 51", insert(4, doc! { "w": 51 }))
        .step("unknown tag", insert(5, doc! { "w": "unknownTag" }))
        .step("negative w", insert(6, doc! { "w": -1 }))
        .step("w of another type", insert(7, doc! { "w": true }))
        .step("w 1 with journal", insert(8, doc! { "w": 1, "j": true }))
        .step("w 0 with journal", insert(9, doc! { "w": 0, "j": true }))
        .step("unknown field", insert(10, doc! { "w": 1, "what": 1 }))
        .step("empty", insert(11, doc! {}))
        .step("wtimeout of another type", insert(12, doc! { "w": 1, "wtimeout": "x" }))
        .step("of another type", with(insert(13, doc! {}), "writeConcern", 1))
        .step("w 100 with duplicate key", insert(1, doc! { "w": 100 }))
        .step("unknown tag with duplicate key", insert(1, doc! { "w": "unknownTag" }))
        .step("w 10 of update", {
            let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "x": 1 } } };
            doc! { "update": "c", "updates": [update], "writeConcern": { "w": 10 } }
        })
        .step("w 10 of delete that finds nothing", {
            doc! { "delete": "c", "deletes": [{ "q": { "_id": 99 }, "limit": 1 }], "writeConcern": { "w": 10 } }
        })
        .step("w 10 of findAndModify", {
            doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "x": 2 }, "writeConcern": { "w": 10 } }
        })
        .step("w 10 of findAndModify that finds nothing", {
            doc! { "findAndModify": "c", "query": { "_id": 99 }, "update": { "x": 2 }, "writeConcern": { "w": 10 } }
        })
        .step("w 10 of create", doc! { "create": "d", "writeConcern": { "w": 10 } })
        .step("w 10 of create again", doc! { "create": "d", "writeConcern": { "w": 10 } })
        .step("w 10 of drop", doc! { "drop": "d", "writeConcern": { "w": 10 } })
        .step("w 10 of drop of none", doc! { "drop": "d", "writeConcern": { "w": 10 } })
        .step("w 10 of createIndexes", {
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }], "writeConcern": { "w": 10 } }
        })
        .step("w 10 of bulkWrite", {
            let ops = vec![doc! { "insert": 0, "document": { "_id": 50 } }];
            doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "writeConcern": { "w": 10 }, "$db": "admin" }
        })
        .step("w 10 of $out", {
            doc! { "aggregate": "c", "pipeline": [{ "$out": "o" }], "cursor": {}, "writeConcern": { "w": 10 } }
        })
        .step("of find", with(documents("c"), "writeConcern", doc! { "w": 1 }))
        .step("of ping", doc! { "ping": 1, "writeConcern": { "w": 1 } })
        .step("retryable with w 10", {
            super::retryable("@lsid", 1, insert(60, doc! { "w": 10 }))
        })
        .step("retryable with w 10, repeated", {
            super::retryable("@lsid", 1, insert(60, doc! { "w": 10 }))
        })
        .step("stored", documents("c"))
}

fn read_concerns() -> Scenario {
    let find = |concern: Document| with(documents("c"), "readConcern", concern);
    let future = Timestamp { time: 4_000_000_000, increment: 1 };
    Scenario::new("read concerns")
        .step("insert", doc! { "insert": "c", "documents": [{ "_id": 1 }] })
        .keep("time", "operationTime")
        .step("local", find(doc! { "level": "local" }))
        .step("available", find(doc! { "level": "available" }))
        .step("majority", find(doc! { "level": "majority" }))
        .step("linearizable", find(doc! { "level": "linearizable" }))
        .step("unknown", find(doc! { "level": "what" }))
        .step("of another type", find(doc! { "level": 1 }))
        .step("no document", with(documents("c"), "readConcern", 1))
        .step("unknown field", find(doc! { "level": "local", "what": 1 }))
        .step("afterClusterTime", find(doc! { "level": "local", "afterClusterTime": "@time" }))
        .step("afterClusterTime in the future", find(doc! { "afterClusterTime": future }))
        .step("afterClusterTime of 0", find(doc! { "afterClusterTime": Timestamp { time: 0, increment: 0 } }))
        .step("afterClusterTime of another type", find(doc! { "afterClusterTime": 1 }))
        .step("afterClusterTime, linearizable", find(doc! { "level": "linearizable", "afterClusterTime": "@time" }))
        .step("afterClusterTime, available", find(doc! { "level": "available", "afterClusterTime": "@time" }))
        .step("atClusterTime, local", find(doc! { "level": "local", "atClusterTime": "@time" }))
        .step("atClusterTime in the future", find(doc! { "level": "snapshot", "atClusterTime": future }))
        .step("atClusterTime of 0", {
            find(doc! { "level": "snapshot", "atClusterTime": Timestamp { time: 0, increment: 0 } })
        })
        .step("both times", {
            find(doc! { "level": "snapshot", "atClusterTime": "@time", "afterClusterTime": "@time" })
        })
        .step("of insert", {
            doc! { "insert": "c", "documents": [{ "_id": 2 }], "readConcern": { "level": "local" } }
        })
        .step("of insert, majority", {
            doc! { "insert": "c", "documents": [{ "_id": 3 }], "readConcern": { "level": "majority" } }
        })
        .step("of insert, afterClusterTime", {
            doc! { "insert": "c", "documents": [{ "_id": 4 }], "readConcern": { "afterClusterTime": "@time" } }
        })
        .step("of findAndModify, majority", {
            doc! { "findAndModify": "c", "remove": true, "query": { "_id": 9 }, "readConcern": { "level": "majority" } }
        })
        .step("of count, snapshot", doc! { "count": "c", "readConcern": { "level": "snapshot" } })
        .step("of create, majority", doc! { "create": "d", "readConcern": { "level": "majority" } })
        .step("of ping, local", doc! { "ping": 1, "readConcern": { "level": "local" } })
        .step("of $out, linearizable", {
            let pipeline = vec![doc! { "$out": "o" }];
            doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {}, "readConcern": { "level": "linearizable" } }
        })
        .step("bad $clusterTime", doc! { "ping": 1, "$clusterTime": 1 })
}

fn snapshots() -> Scenario {
    let find = |concern: Document| with(documents("c"), "readConcern", concern);
    Scenario::new("snapshots")
        .step("insert", {
            doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": "majority" } }
        })
        .step("in a session", with(find(doc! { "level": "snapshot" }), "lsid", "@lsid"))
        .keep("time", "cursor.atClusterTime")
        .step("without a session", find(doc! { "level": "snapshot" }))
        .step("insert later", {
            doc! { "insert": "c", "documents": [{ "_id": 2 }], "writeConcern": { "w": "majority" } }
        })
        .step("at the earlier time", {
            with(find(doc! { "level": "snapshot", "atClusterTime": "@time" }), "lsid", "@lsid")
        })
        .step("aggregate at the earlier time", {
            let concern = doc! { "level": "snapshot", "atClusterTime": "@time" };
            doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "readConcern": concern, "lsid": "@lsid" }
        })
        .step("distinct at the earlier time", {
            let concern = doc! { "level": "snapshot", "atClusterTime": "@time" };
            doc! { "distinct": "c", "key": "_id", "readConcern": concern, "lsid": "@lsid" }
        })
        .step("first batch", {
            let concern = doc! { "level": "snapshot", "atClusterTime": "@time" };
            doc! { "find": "c", "batchSize": 0, "readConcern": concern, "lsid": "@lsid" }
        })
        .keep("cursor", "cursor.id")
        .step("second batch", doc! { "getMore": "@cursor", "collection": "c", "lsid": "@lsid" })
        .step("insert with snapshot", {
            doc! { "insert": "c", "documents": [{ "_id": 3 }], "readConcern": { "level": "snapshot" } }
        })
        .step("listCollections with snapshot", {
            doc! { "listCollections": 1, "readConcern": { "level": "snapshot" }, "lsid": "@lsid" }
        })
        .step("of nothing", {
            doc! { "find": "nothing", "readConcern": { "level": "snapshot" }, "lsid": "@lsid" }
        })
}

fn time_limits() -> Scenario {
    Scenario::new("time limits")
        .step("insert", doc! { "insert": "c", "documents": [{ "_id": 1 }], "maxTimeMS": 10_000 })
        .step("negative", with(documents("c"), "maxTimeMS", -1))
        .step("too large", with(documents("c"), "maxTimeMS", 3_000_000_000_i64))
        .step("of another type", with(documents("c"), "maxTimeMS", "x"))
        .step("not whole", with(documents("c"), "maxTimeMS", 1.5))
        .step("zero", with(documents("c"), "maxTimeMS", 0))
        .step("ping", doc! { "ping": 1, "maxTimeMS": 1000 })
        .step("set blocked", {
            super::fail_once(doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 20, "errorCode": 50 })
        })
        .step("blocked and failed", with(documents("c"), "maxTimeMS", 10_000))
        .step("off", super::fail_no_more())
        .step("maxTimeMSOpOnly", with(documents("c"), "maxTimeMSOpOnly", 1000))
}

fn secondaries() -> Scenario {
    Scenario::new("secondaries")
        .only_on(Target::ReplicaSet)
        .step(
            "insert",
            doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 3 } },
        )
        .step("insert on a secondary", doc! { "insert": "c", "documents": [{ "_id": 2 }] })
        .on("secondary")
        .step("retryable insert on a secondary", {
            super::retryable("@lsid", 1, doc! { "insert": "c", "documents": [{ "_id": 2 }] })
        })
        .on("secondary")
        .step("find on a secondary", documents("c"))
        .on("secondary")
        .step("find with a read preference", {
            with(documents("c"), "$readPreference", doc! { "mode": "secondaryPreferred" })
        })
        .on("secondary")
        .step(
            "find with primary",
            with(documents("c"), "$readPreference", doc! { "mode": "primary" }),
        )
        .on("secondary")
        .step("linearizable on a secondary", {
            let find = with(documents("c"), "readConcern", doc! { "level": "linearizable" });
            with(find, "$readPreference", doc! { "mode": "secondaryPreferred" })
        })
        .on("secondary")
        .step("begin on a secondary", super::begin("@lsid", 2, documents("c")))
        .on("secondary")
        .step(
            "bad read preference",
            with(documents("c"), "$readPreference", doc! { "mode": "what" }),
        )
        .step(
            "bad tags",
            with(
                documents("c"),
                "$readPreference",
                doc! { "mode": "primary", "tags": [{ "a": "b" }] },
            ),
        )
        .step("$out on a secondary", {
            doc! {
                "aggregate": "c",
                "pipeline": [{ "$out": "o" }],
                "cursor": {},
                "$readPreference": { "mode": "secondaryPreferred" },
            }
        })
        .on("secondary")
        .step("write concern on a secondary", {
            doc! { "insert": "c", "documents": [{ "_id": 2 }], "writeConcern": { "w": 100 } }
        })
        .on("secondary")
}
