//! Commands about sharding, and commands on sharded collections whose replies name shards.

use bson::{Document, doc};

use super::{Scenario, Target};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![shard_collection(), sharded_collection()]
}

fn shard(namespace: &str, key: Document) -> Document {
    doc! { "shardCollection": namespace, "key": key, "$db": "admin" }
}

fn shard_collection() -> Scenario {
    Scenario::new("shardCollection")
        .only_on(Target::ShardedCollection)
        .step("no key", doc! { "shardCollection": "@db.c", "$db": "admin" })
        .step("empty key", shard("@db.c", doc! {}))
        .step("bad direction", shard("@db.c", doc! { "k": -1 }))
        .step("bad type", shard("@db.c", doc! { "k": "what" }))
        .step("two hashed", shard("@db.c", doc! { "a": "hashed", "b": "hashed" }))
        .step("hashed and unique", {
            let mut command = shard("@db.c", doc! { "a": "hashed" });
            command.insert("unique", true);
            command
        })
        .step("no collection", shard("@db", doc! { "k": 1 }))
        .step("not admin", {
            let mut command = shard("@db.c", doc! { "k": 1 });
            command.remove("$db");
            command
        })
        .step("config", shard("config.c", doc! { "k": 1 }))
        .step("unknown field", {
            let mut command = shard("@db.c", doc! { "k": 1 });
            command.insert("what", 1);
            command
        })
        .step("insert", doc! { "insert": "full", "documents": [{ "_id": 1, "k": 1 }] })
        .step("no index", shard("@db.full", doc! { "k": 1 }))
        .step(
            "index",
            doc! { "createIndexes": "full", "indexes": [{ "key": { "k": 1 }, "name": "k" }] },
        )
        .step("index is there", shard("@db.full", doc! { "k": 1 }))
        .step("the same again", shard("@db.full", doc! { "k": 1 }))
        .step("another key", shard("@db.full", doc! { "_id": 1 }))
        .step("unique on another key", {
            let index = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
            doc! { "createIndexes": "full", "indexes": [index] }
        })
        .step("unique with the shard key", {
            let index = doc! { "key": { "k": 1, "u": 1 }, "name": "ku", "unique": true };
            doc! { "createIndexes": "full", "indexes": [index] }
        })
        .step("drop the shard key's index", doc! { "dropIndexes": "full", "index": "k" })
        .step("other unique index first", {
            let index = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
            doc! { "createIndexes": "other", "indexes": [index] }
        })
        .step("shard what has a unique index", shard("@db.other", doc! { "k": 1 }))
        .step("view", doc! { "create": "view", "viewOn": "c" })
        .step("shard a view", shard("@db.view", doc! { "k": 1 }))
        .step("unique", {
            let mut command = shard("@db.unique", doc! { "k": 1 });
            command.insert("unique", true);
            command
        })
        .step(
            "insert into unique",
            doc! { "insert": "unique", "documents": [{ "_id": 1, "k": 1 }] },
        )
        .step(
            "duplicate in unique",
            doc! { "insert": "unique", "documents": [{ "_id": 2, "k": 1 }] },
        )
        .step("hashed", shard("@db.hashed", doc! { "_id": "hashed" }))
        .step(
            "insert into hashed",
            doc! { "insert": "hashed", "documents": [{ "_id": 1 }, { "_id": 2 }] },
        )
        .step("split of an unsharded collection", {
            doc! { "split": "@db.c", "middle": { "k": 1 }, "$db": "admin" }
        })
        .step("enableSharding again", doc! { "enableSharding": "@db", "$db": "admin" })
        .step("enableSharding elsewhere", {
            doc! { "enableSharding": "@db", "primaryShard": "shard1", "$db": "admin" }
        })
        .step("enableSharding on an unknown shard", {
            doc! { "enableSharding": "@db_new", "primaryShard": "what", "$db": "admin" }
        })
}

fn sharded_collection() -> Scenario {
    Scenario::new("sharded collection")
        .with_sharded_collection()
        .step(
            "insert",
            doc! { "insert": "s", "documents": [{ "_id": 1, "k": 1 }, { "_id": 2, "k": -1 }] },
        )
        .step("count", doc! { "count": "s" })
        .step("distinct", doc! { "distinct": "s", "key": "k" })
        .step(
            "createIndexes",
            doc! { "createIndexes": "s", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        )
        .step(
            "createIndexes again",
            doc! { "createIndexes": "s", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        )
        .step(
            "createIndexes in conflict",
            doc! { "createIndexes": "s", "indexes": [{ "key": { "b": 1 }, "name": "a" }] },
        )
        .step("dropIndexes", doc! { "dropIndexes": "s", "index": "a" })
        .step("dropIndexes of none", doc! { "dropIndexes": "s", "index": "what" })
        .step("listIndexes", doc! { "listIndexes": "s" })
        .step("collMod", doc! { "collMod": "s", "validator": { "x": { "$exists": false } } })
        .step(
            "document that fails validation",
            doc! { "insert": "s", "documents": [{ "_id": 9, "k": 1, "x": 1 }] },
        )
        .step("create what is there", doc! { "create": "s" })
        .step(
            "create what is there with other options",
            doc! { "create": "s", "capped": true, "size": 1000 },
        )
        .step("rename", doc! { "renameCollection": "@db.s", "to": "@db.r", "$db": "admin" })
        .step("rename back", doc! { "renameCollection": "@db.r", "to": "@db.s", "$db": "admin" })
        .step(
            "rename of none",
            doc! { "renameCollection": "@db.what", "to": "@db.r", "$db": "admin" },
        )
        .step("drop", doc! { "drop": "s" })
        .step("drop again", doc! { "drop": "s" })
        .step("dropDatabase", doc! { "dropDatabase": 1 })
        .step("dropDatabase again", doc! { "dropDatabase": 1 })
}
