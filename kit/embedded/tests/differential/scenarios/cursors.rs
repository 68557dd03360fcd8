//! Cursors, sessions, unknown commands and fields, and the stable API.

use bson::{Document, doc};

use super::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![cursors(), sessions(), commands(), stable_api()]
}

fn with(mut command: Document, fields: Document) -> Document {
    command.extend(fields);
    command
}

fn cursors() -> Scenario {
    let documents: Vec<_> = (0..10).map(|id| doc! { "_id": id }).collect();
    let more = || doc! { "getMore": "@cursor", "collection": "c", "batchSize": 2 };
    let find = || doc! { "find": "c", "sort": { "_id": 1 }, "batchSize": 2 };
    Scenario::new("cursors")
        .step("insert", doc! { "insert": "c", "documents": documents })
        .step("find", find())
        .keep("cursor", "cursor.id")
        .step("getMore", more())
        .step("on another connection", more())
        .on("b")
        .step("of another collection", doc! { "getMore": "@cursor", "collection": "d" })
        .step("in a session", with(more(), doc! { "lsid": "@lsid1" }))
        .step("negative batchSize", with(more(), doc! { "batchSize": -1 }))
        .step("maxTimeMS on a plain cursor", with(more(), doc! { "maxTimeMS": 1000 }))
        .step("unknown field", with(more(), doc! { "what": 1 }))
        .step("kill", doc! { "killCursors": "c", "cursors": ["@cursor", 12_345_i64] })
        .step("kill again", doc! { "killCursors": "c", "cursors": ["@cursor"] })
        .step("killed", more())
        .step("unknown id", doc! { "getMore": 12_345_i64, "collection": "c" })
        .step("id of another type", doc! { "getMore": 1, "collection": "c" })
        .step("no collection", doc! { "getMore": 12_345_i64 })
        .step("kill none", doc! { "killCursors": "c", "cursors": [] })
        .step("kill what is no id", doc! { "killCursors": "c", "cursors": ["x"] })
        .step("find in a session", with(find(), doc! { "lsid": "@lsid2" }))
        .keep("cursor", "cursor.id")
        .step("without the session", more())
        .step("in another session", with(more(), doc! { "lsid": "@lsid3" }))
        .step("in its session", with(more(), doc! { "lsid": "@lsid2" }))
        .step("in its session with a number", {
            with(more(), doc! { "lsid": "@lsid2", "txnNumber": 1_i64, "autocommit": false })
        })
        .step("kill of another collection", doc! { "killCursors": "d", "cursors": ["@cursor"] })
        .step("kill its session", doc! { "killSessions": ["@lsid2"], "$db": "admin" })
        .step("after its session", with(more(), doc! { "lsid": "@lsid2" }))
        .step("singleBatch", with(find(), doc! { "singleBatch": true }))
        .step("batchSize 0", with(find(), doc! { "batchSize": 0 }))
        .step("limit", with(find(), doc! { "limit": 3, "batchSize": 3 }))
        .step("negative limit", with(find(), doc! { "limit": -3 }))
        .step("negative skip", with(find(), doc! { "skip": -3 }))
        .step("aggregate", {
            doc! { "aggregate": "c", "pipeline": [{ "$sort": { "_id": 1 } }], "cursor": { "batchSize": 3 } }
        })
        .keep("cursor", "cursor.id")
        .step("getMore of aggregate", more())
        .step("to the end", with(more(), doc! { "batchSize": 100 }))
        .step("after the end", more())
        .step("aggregate without cursor", doc! { "aggregate": "c", "pipeline": [] })
        .step("aggregate with an unknown stage", {
            doc! { "aggregate": "c", "pipeline": [{ "$what": {} }], "cursor": {} }
        })
        .step("aggregate with an unknown field", {
            doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "what": 1 }
        })
        .step("tailable on what is not capped", doc! { "find": "c", "tailable": true })
        .step("find in nothing", doc! { "find": "nothing" })
        .step("aggregate over nothing", doc! { "aggregate": "nothing", "pipeline": [], "cursor": {} })
        .step("listIndexes of nothing", doc! { "listIndexes": "nothing" })
        .step("hint of no index", with(find(), doc! { "hint": "what" }))
        .step("let", with(find(), doc! { "filter": { "$expr": { "$eq": ["$_id", "$$id"] } }, "let": { "id": 3 } }))
        .step("undefined variable", with(find(), doc! { "filter": { "$expr": { "$eq": ["$_id", "$$id"] } } }))
        .step("explain", doc! { "explain": { "find": "c" }, "verbosity": "what" })
}

fn sessions() -> Scenario {
    Scenario::new("sessions")
        .step("startSession", doc! { "startSession": 1, "$db": "admin" })
        .step("endSessions", doc! { "endSessions": ["@lsid1"], "$db": "admin" })
        .step("endSessions of none", doc! { "endSessions": [], "$db": "admin" })
        .step("endSessions of what is none", doc! { "endSessions": [1], "$db": "admin" })
        .step("refreshSessions", doc! { "refreshSessions": ["@lsid1"], "$db": "admin" })
        .step("killSessions", doc! { "killSessions": ["@lsid1"], "$db": "admin" })
        .step(
            "killAllSessions",
            doc! { "killAllSessions": [{ "user": "a", "db": "b" }], "$db": "admin" },
        )
        .step("insert after the end", {
            doc! { "insert": "c", "documents": [{ "_id": 1 }], "lsid": "@lsid1" }
        })
        .step("ping in a session", doc! { "ping": 1, "lsid": "@lsid1" })
        .step(
            "hello in a session with a number",
            doc! { "ping": 1, "lsid": "@lsid1", "txnNumber": 1_i64 },
        )
        .step(
            "buildInfo in a session",
            doc! { "listCollections": 1, "lsid": "@lsid1", "nameOnly": true },
        )
}

fn commands() -> Scenario {
    let insert = |more: Document| with(doc! { "insert": "c", "documents": [{ "_id": 1 }] }, more);
    Scenario::new("commands")
        .step("unknown command", doc! { "what": 1 })
        .step("unknown field of find", doc! { "find": "c", "what": 1 })
        .step("unknown field of insert", insert(doc! { "what": 1 }))
        .step("unknown field of update", {
            doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 1 } }, "what": 1 }] }
        })
        .step("unknown field of delete", doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }], "what": 1 })
        .step("unknown field of findAndModify", doc! { "findAndModify": "c", "remove": true, "what": 1 })
        .step("unknown field of count", doc! { "count": "c", "what": 1 })
        .step("unknown field of distinct", doc! { "distinct": "c", "key": "x", "what": 1 })
        .step("unknown field of create", doc! { "create": "c", "what": 1 })
        .step("unknown field of createIndexes", {
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "what": 1 }] }
        })
        .step("unknown field of drop", doc! { "drop": "c", "what": 1 })
        .step("empty database", doc! { "ping": 1, "$db": "" })
        .step("bad database", doc! { "ping": 1, "$db": "a b" })
        .step("database with a dot", doc! { "find": "c", "$db": "a.b" })
        .step("database of another type", doc! { "ping": 1, "$db": 1 })
        .step("empty collection", doc! { "find": "" })
        .step("collection with $", doc! { "insert": "a$b", "documents": [{}] })
        .step("collection of another type", doc! { "find": 1 })
        .step("long collection", doc! { "create": "x".repeat(300) })
        .step("system collection", doc! { "insert": "system.what", "documents": [{}] })
        .step("admin only", doc! { "listDatabases": 1 })
        .step("no documents", doc! { "insert": "c" })
        .step("documents of another type", doc! { "insert": "c", "documents": 1 })
        .step("no updates", doc! { "update": "c", "updates": [] })
        .step("no deletes", doc! { "delete": "c", "deletes": [] })
        .step("no limit", doc! { "delete": "c", "deletes": [{ "q": {} }] })
        .step("no q", doc! { "update": "c", "updates": [{ "u": {} }] })
        .step("findAndModify of nothing", doc! { "findAndModify": "c" })
        .step("findAndModify of both", doc! { "findAndModify": "c", "remove": true, "update": {} })
        .step("findAndModify removes the new", doc! { "findAndModify": "c", "remove": true, "new": true })
        .step("multi replacement", doc! { "update": "c", "updates": [{ "q": {}, "u": { "x": 1 }, "multi": true }] })
        .step("bad _id", doc! { "insert": "c", "documents": [{ "_id": [1] }] })
        .step("dollar field", doc! { "insert": "c", "documents": [{ "_id": 5, "$x": 1 }] })
        .step("create", doc! { "create": "made" })
        .step("create again", doc! { "create": "made" })
        .step("create with other options", doc! { "create": "made", "capped": true, "size": 1000 })
        .step("drop", doc! { "drop": "made" })
        .step("drop of none", doc! { "drop": "made" })
        .step("dropIndexes of none", doc! { "dropIndexes": "made", "index": "*" })
        .step("dropIndexes of _id", {
            doc! { "dropIndexes": "c", "index": "_id_" }
        })
        .step("insert", insert(doc! {}))
        .step("createIndexes", doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        .step("createIndexes again", doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        .step("createIndexes with other options", {
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "unique": true }] }
        })
        .step("createIndexes with another name", {
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "b" }] }
        })
        .step("createIndexes without a name", doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 } }] })
        .step("createIndexes of none", doc! { "createIndexes": "c", "indexes": [] })
        .step("rename to what is there", doc! { "insert": "d", "documents": [{ "_id": 1 }] })
        .step("renameCollection", doc! { "renameCollection": "@db.c", "to": "@db.d", "$db": "admin" })
        .step("renameCollection of none", doc! { "renameCollection": "@db.x", "to": "@db.y", "$db": "admin" })
        .step("renameCollection with dropTarget", {
            doc! { "renameCollection": "@db.c", "to": "@db.d", "dropTarget": true, "$db": "admin" }
        })
        .step("collMod of none", doc! { "collMod": "what" })
        .step("validator", doc! { "create": "v", "validator": { "x": { "$gt": 0 } } })
        .step("fails validation", doc! { "insert": "v", "documents": [{ "_id": 1, "x": 0 }] })
        .step("bypasses validation", {
            doc! { "insert": "v", "documents": [{ "_id": 1, "x": 0 }], "bypassDocumentValidation": true }
        })
        .step("update fails validation", doc! { "update": "v", "updates": [{ "q": {}, "u": { "$set": { "x": -1 } } }] })
        .step("dropDatabase", doc! { "dropDatabase": 1 })
        .step("dropDatabase of none", doc! { "dropDatabase": 1 })
}

fn stable_api() -> Scenario {
    let api = |command: Document, version: &str, fields: Document| {
        with(command, with(doc! { "apiVersion": version }, fields))
    };
    let strict = || doc! { "apiStrict": true };
    Scenario::new("stable API")
        .step("version 1", api(doc! { "ping": 1 }, "1", doc! {}))
        .step("version 2", api(doc! { "ping": 1 }, "2", doc! {}))
        .step("strict ping", api(doc! { "ping": 1 }, "1", strict()))
        .step("strict, not in version 1", api(doc! { "collStats": "c" }, "1", strict()))
        .step("strict distinct", api(doc! { "distinct": "c", "key": "x" }, "1", strict()))
        .step("not strict distinct", api(doc! { "distinct": "c", "key": "x" }, "1", doc! {}))
        .step("strict unless version", doc! { "ping": 1, "apiStrict": true })
        .step(
            "deprecation errors",
            api(doc! { "ping": 1 }, "1", doc! { "apiDeprecationErrors": true }),
        )
        .step("version of another type", doc! { "ping": 1, "apiVersion": 1 })
        .step("strict of another type", api(doc! { "ping": 1 }, "1", doc! { "apiStrict": "yes" }))
        .step("strict stage", {
            let pipeline = vec![doc! { "$currentOp": {} }];
            api(
                doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {}, "$db": "admin" },
                "1",
                strict(),
            )
        })
        .step("strict bulkWrite", {
            let ops = vec![doc! { "insert": 0, "document": { "_id": 1 } }];
            api(
                doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "$db": "admin" },
                "1",
                strict(),
            )
        })
        .step("getMore without the version", {
            api(doc! { "find": "c", "batchSize": 0 }, "1", doc! {})
        })
        .keep("cursor", "cursor.id")
        .step("without the version", doc! { "getMore": "@cursor", "collection": "c" })
        .step("unknown command", api(doc! { "what": 1 }, "1", strict()))
        .step("strict unknown field", api(doc! { "find": "c", "tailable": true }, "1", strict()))
}
