//! Transactions: their states, conflicts, commands that they do not allow, several shards.

use bson::{Document, doc};

use super::{Scenario, abort, begin, commit, documents, retryable, within};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        states(),
        wrong_fields(),
        not_allowed(),
        conflicts(),
        catalogs(),
        failures(),
        concerns(),
        over_two_shards(),
        recovery(),
    ]
}

fn insert(id: i32) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id }] }
}

fn set(id: i32, x: i32) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$set": { "x": x } } }] }
}

fn states() -> Scenario {
    Scenario::new("states of transactions")
        .step("create", doc! { "create": "c" })
        .step("begin", begin("@lsid", 1, insert(1)))
        .step("second statement", within("@lsid", 1, insert(2)))
        .step("seen inside", within("@lsid", 1, documents("c")))
        .step("not seen outside", documents("c"))
        .step("commit", commit("@lsid", 1))
        .step("commit again", commit("@lsid", 1))
        .step("abort after commit", abort("@lsid", 1))
        .step("statement after commit", within("@lsid", 1, insert(3)))
        .step("read after commit", within("@lsid", 1, documents("c")))
        .step("begin the committed one again", begin("@lsid", 1, insert(3)))
        .step("begin 2", begin("@lsid", 2, insert(4)))
        .step("begin 2 twice", begin("@lsid", 2, insert(5)))
        .step("statement of 2 after it began twice", within("@lsid", 2, insert(5)))
        .step("abort 2", abort("@lsid", 2))
        .step("abort 2 again", abort("@lsid", 2))
        .step("commit 2 after abort", commit("@lsid", 2))
        .step("statement of 2 after abort", within("@lsid", 2, insert(5)))
        .step("begin 2 after abort", begin("@lsid", 2, insert(5)))
        .step("older number", begin("@lsid", 1, insert(5)))
        .step("commit an older number", commit("@lsid", 1))
        .step("commit an unknown number", commit("@lsid", 9))
        .step("commit of an unknown session", commit("@lsid2", 1))
        .step("abort of an unknown session", abort("@lsid3", 1))
        .step("statement of an unknown session", within("@lsid4", 1, insert(6)))
        .step("begin 11", begin("@lsid", 11, insert(7)))
        .step("begin 12 while 11 is open", begin("@lsid", 12, insert(8)))
        .step("commit 11 after 12 began", commit("@lsid", 11))
        .step("commit 12", commit("@lsid", 12))
        .step("retryable write with the number of a transaction", retryable("@lsid", 12, insert(9)))
        .step("retryable write 13", retryable("@lsid", 13, insert(9)))
        .step("begin with the number of a retryable write", begin("@lsid", 13, insert(10)))
        .step("statement with the number of a retryable write", within("@lsid", 13, insert(10)))
        .step("commit with the number of a retryable write", commit("@lsid", 13))
        .step("begin 14 with a read", begin("@lsid", 14, documents("c")))
        .step("commit what only read", commit("@lsid", 14))
        .step("commit what only read again", commit("@lsid", 14))
        .step("begin 15", begin("@lsid", 15, insert(11)))
        .step("end the session", doc! { "endSessions": ["@lsid"], "$db": "admin" })
        .step("statement after the end", within("@lsid", 15, insert(12)))
        .step("commit after the end", commit("@lsid", 15))
        .step("stored", documents("c"))
}

fn wrong_fields() -> Scenario {
    let with = |fields: Document| {
        let mut command = insert(1);
        command.extend(fields);
        command
    };
    let lsid = "@lsid";
    Scenario::new("wrong fields of transactions")
        .step("create", doc! { "create": "c" })
        .step("startTransaction alone", with(doc! { "startTransaction": true }))
        .step("startTransaction without autocommit", {
            with(doc! { "lsid": lsid, "txnNumber": 1_i64, "startTransaction": true })
        })
        .step("autocommit true", {
            with(doc! { "lsid": lsid, "txnNumber": 1_i64, "startTransaction": true, "autocommit": true })
        })
        .step("startTransaction false", {
            with(doc! { "lsid": lsid, "txnNumber": 1_i64, "startTransaction": false, "autocommit": false })
        })
        .step("autocommit without a number", with(doc! { "lsid": lsid, "autocommit": false }))
        .step("autocommit without a session", with(doc! { "txnNumber": 1_i64, "autocommit": false }))
        .step("commit outside of a transaction", doc! { "commitTransaction": 1, "$db": "admin" })
        .step("commit with a session only", doc! { "commitTransaction": 1, "lsid": lsid, "$db": "admin" })
        .step("commit without autocommit", {
            retryable(lsid, 1, doc! { "commitTransaction": 1, "$db": "admin" })
        })
        .step("commit that begins", begin(lsid, 1, doc! { "commitTransaction": 1, "$db": "admin" }))
        .step("abort that begins", begin(lsid, 1, doc! { "abortTransaction": 1, "$db": "admin" }))
        .step("commit in another database", within(lsid, 1, doc! { "commitTransaction": 1 }))
        .step("commit with an unknown field", {
            let mut command = commit(lsid, 1);
            command.insert("what", 1);
            command
        })
        .step("stmtId", {
            begin("@lsid2", 1, with(doc! { "stmtId": 3 }))
        })
        .step("abort", abort("@lsid2", 1))
}

fn not_allowed() -> Scenario {
    let mut scenario =
        Scenario::new("commands not allowed in transactions").step("insert", insert(1));
    let rows: [(&'static str, Document); 17] = [
        ("count", doc! { "count": "c" }),
        ("listCollections", doc! { "listCollections": 1 }),
        ("ping", doc! { "ping": 1 }),
        ("hello", doc! { "hello": 1 }),
        ("drop", doc! { "drop": "c" }),
        ("dropIndexes", doc! { "dropIndexes": "c", "index": "*" }),
        ("renameCollection", doc! { "renameCollection": "@db.c", "to": "@db.d", "$db": "admin" }),
        ("explain", doc! { "explain": { "find": "c" } }),
        ("collStats", doc! { "collStats": "c" }),
        ("$out", doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {} }),
        ("$merge", doc! { "aggregate": "c", "pipeline": [{ "$merge": "d" }], "cursor": {} }),
        (
            "$changeStream",
            doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
        ),
        (
            "$currentOp",
            doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {}, "$db": "admin" },
        ),
        ("distinct", doc! { "distinct": "c", "key": "_id" }),
        ("find in config", doc! { "find": "c", "$db": "config" }),
        ("insert into local", doc! { "insert": "c", "documents": [{}], "$db": "local" }),
        ("unknown command", doc! { "what": 1 }),
    ];
    for (number, (label, command)) in (1..).zip(rows) {
        scenario = scenario.step(label, begin("@lsid", number, command));
    }
    scenario
        .step("begin", begin("@lsid", 50, insert(2)))
        .step("count later", within("@lsid", 50, doc! { "count": "c" }))
        .step("statement after count", within("@lsid", 50, insert(3)))
        .step("commit after count", commit("@lsid", 50))
        .step("begin with a cursor", begin("@lsid", 51, doc! { "find": "c", "batchSize": 0 }))
        .keep("cursor", "cursor.id")
        .step("getMore outside", doc! { "getMore": "@cursor", "collection": "c" })
        .step("killCursors inside", {
            within("@lsid", 51, doc! { "killCursors": "c", "cursors": ["@cursor"] })
        })
        .step("commit 51", commit("@lsid", 51))
        .step("begin with another cursor", begin("@lsid", 52, doc! { "find": "c", "batchSize": 0 }))
        .keep("cursor", "cursor.id")
        .step("getMore in the transaction", {
            within("@lsid", 52, doc! { "getMore": "@cursor", "collection": "c" })
        })
        .step("unacknowledged write", {
            let mut command = insert(20);
            command.insert("writeConcern", doc! { "w": 0 });
            within("@lsid", 52, command)
        })
        .step("abort 52", abort("@lsid", 52))
        .step("stored", documents("c"))
}

fn conflicts() -> Scenario {
    Scenario::new("conflicts of transactions")
        .step("insert", doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] })
        .step("first begins", begin("@lsid1", 1, set(1, 1)))
        .step("second begins", begin("@lsid2", 1, set(2, 2)))
        .on("b")
        .step("second conflicts", within("@lsid2", 1, set(1, 2)))
        .on("b")
        .step("second goes on", within("@lsid2", 1, set(2, 3)))
        .on("b")
        .step("second commits", commit("@lsid2", 1))
        .on("b")
        .step("second aborts", abort("@lsid2", 1))
        .on("b")
        .step("second begins with findAndModify", {
            begin("@lsid2", 2, doc! { "findAndModify": "c", "query": { "_id": 1 }, "remove": true })
        })
        .on("b")
        .step("second begins with bulkWrite", {
            let ops = vec![doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "x": 9 } } }];
            begin("@lsid2", 3, doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "$db": "admin" })
        })
        .on("b")
        .step("second begins with two inserts", {
            begin("@lsid2", 4, doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }, { "q": { "_id": 1 }, "limit": 1 }] })
        })
        .on("b")
        .step("snapshot begins", begin("@lsid3", 1, documents("c")))
        .on("b")
        .step("first commits", commit("@lsid1", 1))
        .step("snapshot reads", within("@lsid3", 1, documents("c")))
        .on("b")
        .step("snapshot writes what changed", within("@lsid3", 1, set(1, 3)))
        .on("b")
        .step("snapshot aborts", abort("@lsid3", 1))
        .on("b")
        .step("insert begins", begin("@lsid1", 2, insert(9)))
        .step("other insert of the same key", begin("@lsid2", 5, insert(9)))
        .on("b")
        .step("insert commits", commit("@lsid1", 2))
        .step("stored", documents("c"))
}

fn catalogs() -> Scenario {
    Scenario::new("catalogs and transactions")
        .step("create", doc! { "create": "c" })
        .step("snapshot begins", begin("@lsid1", 1, documents("c")))
        .step("create later", doc! { "insert": "later", "documents": [{ "_id": 1 }] })
        .on("b")
        .step("read what was created later", within("@lsid1", 1, documents("later")))
        .step("write what was created later", {
            within("@lsid1", 1, doc! { "insert": "later", "documents": [{ "_id": 2 }] })
        })
        .step("abort", abort("@lsid1", 1))
        .step("create in a transaction", begin("@lsid1", 2, doc! { "create": "made" }))
        .step("createIndexes in a transaction", {
            within("@lsid1", 2, doc! { "createIndexes": "made", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        })
        .step("insert there", within("@lsid1", 2, doc! { "insert": "made", "documents": [{ "_id": 1 }] }))
        .step("commit", commit("@lsid1", 2))
        .step("create what is there", begin("@lsid1", 3, doc! { "create": "made" }))
        .step("abort 3", abort("@lsid1", 3))
        .step("implicit creation", begin("@lsid1", 4, doc! { "insert": "implicit", "documents": [{ "_id": 1 }] }))
        .step("commit 4", commit("@lsid1", 4))
        .step("upsert creates", {
            let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "x": 1 } }, "upsert": true };
            begin("@lsid1", 5, doc! { "update": "upserted", "updates": [update] })
        })
        .step("commit 5", commit("@lsid1", 5))
        .step("index on what has documents", {
            begin("@lsid1", 6, doc! { "createIndexes": "implicit", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        })
        .step("abort 6", abort("@lsid1", 6))
        .step("index that is there", {
            begin("@lsid1", 7, doc! { "createIndexes": "made", "indexes": [{ "key": { "a": 1 }, "name": "a" }] })
        })
        .step("commit 7", commit("@lsid1", 7))
        .step("insert into a view", doc! { "create": "view", "viewOn": "c" })
        .step("view in a transaction", {
            begin("@lsid1", 8, doc! { "insert": "view", "documents": [{ "_id": 1 }] })
        })
        .step("collections", {
            doc! { "listCollections": 1, "nameOnly": true, "filter": { "name": { "$in": ["made", "implicit", "upserted"] } } }
        })
}

fn failures() -> Scenario {
    Scenario::new("failures in transactions")
        .step("insert", doc! { "insert": "c", "documents": [{ "_id": 1 }] })
        .step("duplicate key", begin("@lsid", 1, insert(1)))
        .step("commit after duplicate key", commit("@lsid", 1))
        .step("begin", begin("@lsid", 2, insert(2)))
        .step("duplicate key later", within("@lsid", 2, insert(1)))
        .step("statement after it", within("@lsid", 2, insert(3)))
        .step("abort after it", abort("@lsid", 2))
        .step("bulkWrite with duplicate key", {
            let ops = vec![
                doc! { "insert": 0, "document": { "_id": 10 } },
                doc! { "insert": 0, "document": { "_id": 1 } },
            ];
            begin(
                "@lsid",
                3,
                doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "$db": "admin" },
            )
        })
        .step("commit after bulkWrite", commit("@lsid", 3))
        .step("bad filter", begin("@lsid", 4, doc! { "find": "c", "filter": { "$what": 1 } }))
        .step("commit after bad filter", commit("@lsid", 4))
        .step("unknown field", begin("@lsid", 5, doc! { "find": "c", "what": 1 }))
        .step("commit after unknown field", commit("@lsid", 5))
        .step("begin 6", begin("@lsid", 6, insert(6)))
        .step("set 112", {
            super::fail_once(doc! { "failCommands": ["insert"], "errorCode": 112 })
        })
        .step("failed with 112", within("@lsid", 6, insert(7)))
        .step("set 91", {
            super::fail_once(doc! { "failCommands": ["commitTransaction"], "errorCode": 91 })
        })
        .step("commit failed with 91", commit("@lsid", 6))
        .step("set 251", {
            super::fail_once(doc! { "failCommands": ["commitTransaction"], "errorCode": 251 })
        })
        .step("commit failed with 251", commit("@lsid", 6))
        .step("set write concern error 91", {
            let error = doc! { "code": 91, "errmsg": "made" };
            super::fail_once(
                doc! { "failCommands": ["commitTransaction"], "writeConcernError": error },
            )
        })
        .step("commit with write concern error 91", commit("@lsid", 6))
        .step("set write concern error 64", {
            let error = doc! { "code": 64, "errmsg": "made" };
            super::fail_once(
                doc! { "failCommands": ["commitTransaction"], "writeConcernError": error },
            )
        })
        .step("commit with write concern error 64", commit("@lsid", 6))
        .step(
            "set 50 for find",
            super::fail_once(doc! { "failCommands": ["find"], "errorCode": 50 }),
        )
        .step("find failed with 50", begin("@lsid", 7, documents("c")))
        .step("off", super::fail_no_more())
        .step("commit after find failed", commit("@lsid", 7))
        .step("stored", documents("c"))
}

fn concerns() -> Scenario {
    let with = |mut command: Document, name: &str, value: Document| {
        command.insert(name, value);
        command
    };
    let read = |level: &str| with(documents("c"), "readConcern", doc! { "level": level });
    Scenario::new("concerns of transactions")
        .step("insert", insert(1))
        .step("snapshot", begin("@lsid", 1, read("snapshot")))
        .step("read concern later", within("@lsid", 1, read("snapshot")))
        .step(
            "commit with majority",
            with(commit("@lsid", 1), "writeConcern", doc! { "w": "majority" }),
        )
        .step("local", begin("@lsid", 2, read("local")))
        .step("majority", begin("@lsid", 3, read("majority")))
        .step("linearizable", begin("@lsid", 4, read("linearizable")))
        .step("available", begin("@lsid", 5, read("available")))
        .step("write concern on begin", {
            begin("@lsid", 6, with(insert(2), "writeConcern", doc! { "w": 1 }))
        })
        .step("begin 7", begin("@lsid", 7, insert(2)))
        .step(
            "write concern later",
            within("@lsid", 7, with(insert(3), "writeConcern", doc! { "w": 1 })),
        )
        .step("commit with w 100", with(commit("@lsid", 7), "writeConcern", doc! { "w": 100 }))
        .step("begin 8", begin("@lsid", 8, insert(4)))
        .step(
            "commit with an unknown tag",
            with(commit("@lsid", 8), "writeConcern", doc! { "w": "what" }),
        )
        .step("begin 9", begin("@lsid", 9, insert(5)))
        .step("commit with w 0", with(commit("@lsid", 9), "writeConcern", doc! { "w": 0 }))
        .step(
            "commit with a read concern",
            with(commit("@lsid", 9), "readConcern", doc! { "level": "local" }),
        )
        .step(
            "begin with maxTimeMS",
            begin("@lsid", 10, {
                let mut command = insert(6);
                command.insert("maxTimeMS", 5000_i64);
                command
            }),
        )
        .step("commit with maxTimeMS", {
            let mut command = commit("@lsid", 10);
            command.insert("maxTimeMS", 5000_i64);
            command
        })
        .step(
            "read preference secondary",
            begin("@lsid", 11, {
                with(documents("c"), "$readPreference", doc! { "mode": "secondary" })
            }),
        )
        .step("stored", documents("c"))
}

fn over_two_shards() -> Scenario {
    let insert = |k: i32| doc! { "insert": "s", "documents": [{ "_id": k, "k": k }] };
    Scenario::new("transactions over two shards")
        .with_sharded_collection()
        .step("both", doc! { "insert": "s", "documents": [{ "_id": 1, "k": 1 }, { "_id": -1, "k": -1 }] })
        .step("begin on shard1", begin("@lsid", 1, insert(2)))
        .step("then shard0", within("@lsid", 1, insert(-2)))
        .step("read all", within("@lsid", 1, documents("s")))
        .step("commit", commit("@lsid", 1))
        .step("commit again", commit("@lsid", 1))
        .step("begin with both", begin("@lsid", 2, {
            doc! { "insert": "s", "documents": [{ "_id": 3, "k": 3 }, { "_id": -3, "k": -3 }] }
        }))
        .step("abort", abort("@lsid", 2))
        .step("commit after abort", commit("@lsid", 2))
        .step("begin with a read of all", begin("@lsid", 3, documents("s")))
        .step("write to one", within("@lsid", 3, insert(4)))
        .step("commit of one writer", commit("@lsid", 3))
        .step("read only", begin("@lsid", 4, documents("s")))
        .step("commit of no writers", commit("@lsid", 4))
        .step("begin 5", begin("@lsid", 5, insert(5)))
        .step("conflict begins", begin("@lsid2", 1, insert(-6)))
        .step("conflict", within("@lsid2", 1, insert(5)))
        .step("conflict aborts", abort("@lsid2", 1))
        .step("duplicate key on the other shard", within("@lsid", 5, insert(-1)))
        .step("commit 5", commit("@lsid", 5))
        // The shard of the first write to be answered becomes the recovery shard: one shard first.
        .step("begin on one shard", begin("@lsid", 6, insert(-7)))
        .step("update all", within("@lsid", 6, {
            doc! { "update": "s", "updates": [{ "q": {}, "u": { "$set": { "x": 1 } }, "multi": true }] }
        }))
        .step("move a document", within("@lsid", 6, {
            doc! { "update": "s", "updates": [{ "q": { "k": 1 }, "u": { "$set": { "k": -10 } } }] }
        }))
        .step("commit 6", commit("@lsid", 6))
        .step("stored", documents("s"))
}

fn recovery() -> Scenario {
    let insert = |k: i32| doc! { "insert": "s", "documents": [{ "_id": k, "k": k }] };
    let with_token = |mut command: Document| {
        command.insert("recoveryToken", "@token");
        command
    };
    Scenario::new("recovery tokens")
        .with_sharded_collection()
        .step("begin", begin("@lsid", 1, insert(1)))
        .keep("token", "recoveryToken")
        .step("second shard", within("@lsid", 1, insert(-1)))
        .keep("token", "recoveryToken")
        .step("commit through the other mongos too early", with_token(commit("@lsid", 1)))
        .on("mongos1")
        .step("commit", with_token(commit("@lsid", 1)))
        .step("begin 2", begin("@lsid", 2, insert(2)))
        .keep("token", "recoveryToken")
        .step("second shard of 2", within("@lsid", 2, insert(-2)))
        .keep("token", "recoveryToken")
        .step("commit 2", with_token(commit("@lsid", 2)))
        .keep("token", "recoveryToken")
        .step("commit 2 through the other mongos", with_token(commit("@lsid", 2)))
        .on("mongos1")
        .step("commit 2 through the other mongos without a token", commit("@lsid", 2))
        .on("mongos1")
        .step("begin 3 with a read", begin("@lsid", 3, documents("s")))
        .keep("token", "recoveryToken")
        .step("commit 3 with the empty token elsewhere", with_token(commit("@lsid", 3)))
        .on("mongos1")
        .step("abort 3 elsewhere", with_token(abort("@lsid", 3)))
        .on("mongos1")
        .step("commit 3", with_token(commit("@lsid", 3)))
        .step("stored", documents("s"))
}
