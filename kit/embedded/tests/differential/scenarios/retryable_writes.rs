//! Retryable writes: repeated statements, numbers, error labels.

use bson::{Document, doc};

use super::{Scenario, documents, fail_no_more, fail_once, retryable};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        repeated_inserts(),
        repeated_updates(),
        repeated_deletes(),
        repeated_find_and_modify(),
        repeated_bulk_write(),
        numbers(),
        errors(),
        failed_commands(),
        failed_write_concerns(),
        failed_on_a_shard(),
    ]
}

fn insert(ids: &[i32]) -> Document {
    let documents: Vec<_> = ids.iter().map(|id| doc! { "_id": *id }).collect();
    doc! { "insert": "c", "documents": documents }
}

fn increment(id: i32) -> Document {
    doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } }
}

fn repeated_inserts() -> Scenario {
    Scenario::new("repeated inserts")
        .step("insert", retryable("@lsid", 1, insert(&[1, 2])))
        .step("the same", retryable("@lsid", 1, insert(&[1, 2])))
        .step("fewer statements", retryable("@lsid", 1, insert(&[1])))
        .step("more statements", retryable("@lsid", 1, insert(&[1, 2, 3])))
        .step("other documents", retryable("@lsid", 1, insert(&[7, 8, 9])))
        .step(
            "another command",
            retryable("@lsid", 1, doc! { "update": "c", "updates": [increment(1)] }),
        )
        .step("given stmtIds", {
            let mut command = insert(&[20, 21]);
            command.insert("stmtIds", vec![5, 6]);
            retryable("@lsid", 2, command)
        })
        .step("one stmtId is repeated", {
            let mut command = insert(&[21, 22]);
            command.insert("stmtIds", vec![6, 7]);
            retryable("@lsid", 2, command)
        })
        .step("stored", documents("c"))
}

fn repeated_updates() -> Scenario {
    let upsert = |id: i32| doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } }, "upsert": true };
    let updates = |updates: Vec<Document>| doc! { "update": "c", "updates": updates };
    Scenario::new("repeated updates")
        .step("insert", insert(&[1, 2]))
        .step("updates", retryable("@lsid", 1, updates(vec![increment(1), increment(2)])))
        .step("the same", retryable("@lsid", 1, updates(vec![increment(1), increment(2)])))
        .step("other statements", retryable("@lsid", 1, updates(vec![increment(2), increment(1)])))
        .step("an upsert", retryable("@lsid", 2, updates(vec![upsert(3)])))
        .step("the upsert again", retryable("@lsid", 2, updates(vec![upsert(3)])))
        .step("upsert and update", retryable("@lsid", 3, updates(vec![upsert(4), increment(4)])))
        .step(
            "upsert and update again",
            retryable("@lsid", 3, updates(vec![upsert(4), increment(4)])),
        )
        .step("nothing found", retryable("@lsid", 4, updates(vec![increment(99)])))
        .step("nothing found again", retryable("@lsid", 4, updates(vec![increment(99)])))
        .step("a replacement", {
            let update = doc! { "q": { "_id": 1 }, "u": { "x": 1 } };
            retryable("@lsid", 5, updates(vec![update]))
        })
        .step("the replacement again", {
            let update = doc! { "q": { "_id": 1 }, "u": { "x": 1 } };
            retryable("@lsid", 5, updates(vec![update]))
        })
        .step("a multi-document update", {
            let update = doc! { "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true };
            retryable("@lsid", 6, updates(vec![update]))
        })
        .step("stored", documents("c"))
}

fn repeated_deletes() -> Scenario {
    let delete = |id: i32| doc! { "q": { "_id": id }, "limit": 1 };
    let deletes = |deletes: Vec<Document>| doc! { "delete": "c", "deletes": deletes };
    Scenario::new("repeated deletes")
        .step("insert", insert(&[1, 2, 3, 4]))
        .step("deletes", retryable("@lsid", 1, deletes(vec![delete(1), delete(2)])))
        .step("the same", retryable("@lsid", 1, deletes(vec![delete(1), delete(2)])))
        .step("one more", retryable("@lsid", 1, deletes(vec![delete(1), delete(2), delete(3)])))
        .step("nothing found", retryable("@lsid", 2, deletes(vec![delete(99)])))
        .step("all", retryable("@lsid", 3, deletes(vec![doc! { "q": {}, "limit": 0 }])))
        .step("a probe that matches nothing", {
            let probe = || doc! { "q": { "$alwaysFalse": 1 }, "limit": 1 };
            let mut command = deletes(vec![probe(), probe(), probe(), probe()]);
            command.insert("ordered", false);
            retryable("@lsid", 1, command)
        })
        .step("stored", documents("c"))
}

fn repeated_find_and_modify() -> Scenario {
    let command = |arguments: Document| {
        let mut command = doc! { "findAndModify": "c", "query": { "_id": 1 } };
        command.extend(arguments);
        command
    };
    let increment = || doc! { "update": { "$inc": { "n": 1 } } };
    let with = |mut arguments: Document, name: &str| {
        arguments.insert(name, true);
        arguments
    };
    Scenario::new("repeated findAndModify")
        .step("insert", doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }] })
        .step("update", retryable("@lsid", 1, command(increment())))
        .step("update again", retryable("@lsid", 1, command(increment())))
        .step("update again, new", retryable("@lsid", 1, command(with(increment(), "new"))))
        .step("update again as remove", retryable("@lsid", 1, command(doc! { "remove": true })))
        .step("update again, upsert", retryable("@lsid", 1, command(with(increment(), "upsert"))))
        .step("new", retryable("@lsid", 2, command(with(increment(), "new"))))
        .step("new again", retryable("@lsid", 2, command(with(increment(), "new"))))
        .step("new again without new", retryable("@lsid", 2, command(increment())))
        .step("new again with other fields", {
            let mut arguments = with(increment(), "new");
            arguments.insert("fields", doc! { "_id": 1 });
            retryable("@lsid", 2, command(arguments))
        })
        .step("remove", retryable("@lsid", 3, command(doc! { "remove": true })))
        .step("remove again", retryable("@lsid", 3, command(doc! { "remove": true })))
        .step("remove again as update", retryable("@lsid", 3, command(increment())))
        .step("nothing found", retryable("@lsid", 4, command(increment())))
        .step("nothing found again", retryable("@lsid", 4, command(increment())))
        .step("upsert", retryable("@lsid", 5, command(with(increment(), "upsert"))))
        .step("upsert again", retryable("@lsid", 5, command(with(increment(), "upsert"))))
        .step("upsert again, new", {
            retryable("@lsid", 5, command(with(with(increment(), "upsert"), "new")))
        })
        .step("upsert again as update", retryable("@lsid", 5, command(increment())))
        .step("stored", documents("c"))
}

fn repeated_bulk_write() -> Scenario {
    let bulk = |ops: Vec<Document>| {
        doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "$db": "admin" }
    };
    let ops = || {
        vec![
            doc! { "insert": 0, "document": { "_id": 1 } },
            doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "x": 1 } } },
            doc! {
                "update": 0,
                "filter": { "_id": 2 },
                "updateMods": { "$set": { "x": 1 } },
                "upsert": true,
            },
            doc! { "delete": 0, "filter": { "_id": 1 } },
        ]
    };
    let errors_only = |ops| {
        let mut command = bulk(ops);
        command.insert("errorsOnly", true);
        command
    };
    Scenario::new("repeated bulkWrite")
        .step("bulkWrite", retryable("@lsid", 1, bulk(ops())))
        .step("the same", retryable("@lsid", 1, bulk(ops())))
        .step("the same, errorsOnly", retryable("@lsid", 1, errors_only(ops())))
        .step("one more", {
            let mut ops = ops();
            ops.push(doc! { "insert": 0, "document": { "_id": 9 } });
            retryable("@lsid", 1, bulk(ops))
        })
        .step("a multi-document update", {
            let update = doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "y": 1 } }, "multi": true };
            retryable("@lsid", 2, bulk(vec![update]))
        })
        .step("stored", documents("c"))
}

fn numbers() -> Scenario {
    let with = |name: &str, value: bson::Bson| {
        let mut command = insert(&[50]);
        command.insert(name, value);
        command
    };
    Scenario::new("numbers of retryable writes")
        .step("a number", retryable("@lsid", 5, insert(&[1])))
        .step("an older number", retryable("@lsid", 4, insert(&[2])))
        .step("an older number of findAndModify", {
            retryable("@lsid", 4, doc! { "findAndModify": "c", "query": {}, "remove": true })
        })
        .step("without lsid", with("txnNumber", 1_i64.into()))
        .step("lsid without a number", with("lsid", "@lsid".into()))
        .step("a number of another type", {
            let mut command = with("txnNumber", 6.into());
            command.insert("lsid", "@lsid");
            command
        })
        .step("a negative number", retryable("@lsid", -1, insert(&[3])))
        .step("lsid without id", with("lsid", doc! {}.into()))
        .step("lsid of another type", with("lsid", 1.into()))
        .step("lsid with an unknown field", {
            let id = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] };
            with("lsid", doc! { "id": id, "what": 1 }.into())
        })
        .step("a read with a number", retryable("@lsid", 7, documents("c")))
        .step("create with a number", retryable("@lsid", 7, doc! { "create": "d" }))
        .step("ping with a number", retryable("@lsid", 7, doc! { "ping": 1 }))
        .step("aggregate with $out and a number", {
            let out = doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {} };
            retryable("@lsid", 7, out)
        })
        .unacknowledged("unacknowledged with a number", {
            let mut command = retryable("@lsid2", 1, insert(&[30]));
            command.insert("writeConcern", doc! { "w": 0 });
            command
        })
        .step("after unacknowledged", retryable("@lsid2", 1, insert(&[31])))
        .step("stored", documents("c"))
}

fn errors() -> Scenario {
    Scenario::new("errors of retryable writes")
        .step("duplicate key", retryable("@lsid", 1, insert(&[1, 1, 2])))
        .step("duplicate key again", retryable("@lsid", 1, insert(&[1, 1, 2])))
        .step("duplicate key, unordered", {
            let mut command = insert(&[1, 3, 1]);
            command.insert("ordered", false);
            retryable("@lsid", 2, command)
        })
        .step("duplicate key, unordered, again", {
            let mut command = insert(&[1, 3, 1]);
            command.insert("ordered", false);
            retryable("@lsid", 2, command)
        })
        .step("changed _id", {
            let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "_id": 9 } } };
            retryable("@lsid", 3, doc! { "update": "c", "updates": [update] })
        })
        .step("bad operator", {
            let update = doc! { "q": { "_id": 1 }, "u": { "$what": { "_id": 9 } } };
            retryable("@lsid", 4, doc! { "update": "c", "updates": [update] })
        })
        .step("upsert with duplicate key", {
            retryable(
                "@lsid",
                5,
                doc! { "findAndModify": "c", "query": { "_id": 1, "x": 9 },
                "update": { "$set": { "x": 9 } }, "upsert": true },
            )
        })
        .step("no statements", retryable("@lsid", 6, doc! { "insert": "c", "documents": [] }))
        .step("stored", documents("c"))
}

/// Fails the next insert in a certain way, inserts, and inserts again.
fn failing(scenario: Scenario, rows: &[(&'static str, &'static str, Document)]) -> Scenario {
    let mut scenario = scenario;
    for (number, (set, label, data)) in rows.iter().enumerate() {
        let mut full = doc! { "failCommands": ["insert"] };
        full.extend(data.clone());
        let id = i32::try_from(number).expect("few rows");
        scenario = scenario
            .step(set, fail_once(full))
            .step(label, retryable("@lsid", i64::from(id), insert(&[id])));
    }
    scenario.step("off", fail_no_more()).step("stored", documents("c"))
}

fn failed_commands() -> Scenario {
    let scenario = failing(
        Scenario::new("failed commands"),
        &[
            ("set 91", "91 ShutdownInProgress", doc! { "errorCode": 91 }),
            ("set 10107", "10107 NotWritablePrimary", doc! { "errorCode": 10107 }),
            ("set 189", "189 PrimarySteppedDown", doc! { "errorCode": 189 }),
            ("set 6", "6 HostUnreachable", doc! { "errorCode": 6 }),
            ("set 262", "262 ExceededTimeLimit", doc! { "errorCode": 262 }),
            ("set 8", "8 UnknownError", doc! { "errorCode": 8 }),
            ("set 63", "63 StaleShardVersion, not retryable", doc! { "errorCode": 134 }),
            (
                "set labels",
                "labels of the fail point",
                doc! { "errorCode": 8, "errorLabels": ["Foo", "RetryableWriteError"] },
            ),
            (
                "set no labels",
                "no labels by the fail point",
                doc! { "errorCode": 91, "errorLabels": [] },
            ),
            ("set close", "connection closed", doc! { "closeConnection": true }),
        ],
    );
    scenario
        .step(
            "set 91 for a plain write",
            fail_once(doc! { "failCommands": ["insert"], "errorCode": 91 }),
        )
        .step("plain write", insert(&[100]))
        .step("set 91 with lsid", fail_once(doc! { "failCommands": ["insert"], "errorCode": 91 }))
        .step("write with lsid only", {
            let mut command = insert(&[101]);
            command.insert("lsid", "@lsid");
            command
        })
        .step("set 91 for find", fail_once(doc! { "failCommands": ["find"], "errorCode": 91 }))
        .step("read", documents("c"))
        .step(
            "set 91 for bulkWrite",
            fail_once(doc! { "failCommands": ["bulkWrite"], "errorCode": 91 }),
        )
        .step("bulkWrite", {
            let ops = vec![doc! { "insert": 0, "document": { "_id": 102 } }];
            let command =
                doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "@db.c" }], "$db": "admin" };
            retryable("@lsid", 200, command)
        })
        .step(
            "unknown fail point",
            doc! { "configureFailPoint": "what", "mode": "off", "$db": "admin" },
        )
}

fn failed_write_concerns() -> Scenario {
    let error = |code: i32| doc! { "writeConcernError": { "code": code, "errmsg": "made" } };
    let labelled = |code: i32, labels: &[&str]| {
        let mut data = error(code);
        data.insert("errorLabels", labels);
        data
    };
    failing(
        Scenario::new("failed write concerns"),
        &[
            ("set 64", "64 WriteConcernFailed", error(64)),
            ("set 91", "91 ShutdownInProgress", error(91)),
            ("set 11600", "11600 InterruptedAtShutdown", error(11600)),
            ("set 100", "100 UnsatisfiableWriteConcern", error(100)),
            ("set labels", "labels of the fail point", labelled(64, &["RetryableWriteError"])),
            ("set no labels", "no labels by the fail point", labelled(91, &[])),
        ],
    )
    .step("set 91 for findAndModify", {
        let mut data = error(91);
        data.insert("failCommands", vec!["findAndModify"]);
        fail_once(data)
    })
    .step("findAndModify", {
        retryable(
            "@lsid",
            100,
            doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "x": 1 } } },
        )
    })
    .step("set 91 for a plain write", {
        let mut data = error(91);
        data.insert("failCommands", vec!["insert"]);
        fail_once(data)
    })
    .step("plain write", insert(&[100]))
}

/// Fail points on a shard, writes through a mongos.
fn failed_on_a_shard() -> Scenario {
    let set = |data: Document| {
        let mut full = doc! { "failCommands": ["insert"], "failInternalCommands": true };
        full.extend(data);
        fail_once(full)
    };
    let insert = |k: i32| doc! { "insert": "s", "documents": [{ "_id": k, "k": k }] };
    Scenario::new("failed on a shard")
        .with_sharded_collection()
        .step("insert", insert(1))
        .step("set 100 as write concern error", {
            set(doc! { "writeConcernError": { "code": 100, "errmsg": "made" } })
        })
        .on("shard1")
        .step("write concern error 100", retryable("@lsid", 1, insert(2)))
        .step("set 91 as write concern error", {
            set(doc! { "writeConcernError": { "code": 91, "errmsg": "made" } })
        })
        .on("shard1")
        .step("write concern error 91", retryable("@lsid", 2, insert(3)))
        .step("set 91 as write concern error once more", {
            set(doc! { "writeConcernError": { "code": 91, "errmsg": "made" } })
        })
        .on("shard1")
        .step("write concern error 91 without a number", insert(4))
        .step("set 8", set(doc! { "errorCode": 8 }))
        .on("shard1")
        .step("error 8", retryable("@lsid", 4, insert(5)))
        .step("set 91", set(doc! { "errorCode": 91 }))
        .on("shard1")
        .step("error 91", retryable("@lsid", 5, insert(6)))
        .step("set 8 for one of two shards", set(doc! { "errorCode": 8 }))
        .on("shard1")
        .step("error 8 on one of two shards", {
            let documents = vec![doc! { "_id": 7, "k": 7 }, doc! { "_id": -7, "k": -7 }];
            retryable("@lsid", 6, doc! { "insert": "s", "documents": documents, "ordered": false })
        })
        .step("off", fail_no_more())
        .on("shard1")
        .step("stored", documents("s"))
}
