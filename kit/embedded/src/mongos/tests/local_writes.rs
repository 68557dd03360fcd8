//! Distributed local writes: each datacenter's messages are on its shard.

use bson::{Bson, doc};

use super::cluster::{V6_0, V8_0, batch, ids, message, zoned};

#[tokio::test(start_paused = true)]
async fn zones_place_messages_in_their_datacenter() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 123), message(2, "bravo", 456), message(3, "bravo", 789)])
        .await;
    assert_eq!(ids(&it.on("alfa")), [1]);
    assert_eq!(ids(&it.on("bravo")), [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn read_without_shard_key_merges_both_shards() {
    let it = zoned(V8_0).await;
    let all = (1..=10).map(|id| message(id, if id % 2 == 0 { "alfa" } else { "bravo" }, id));
    it.insert(all.collect()).await;
    let reply = it
        .ok(doc! {
            "find": "messages", "filter": {}, "sort": { "userid": -1 }, "skip": 2, "limit": 5,
            "projection": { "message_id": 1 }, "batchSize": 2,
        })
        .await;
    assert_eq!(ids(&batch(&reply)), [8, 7]);
    assert_eq!(batch(&reply)[0], doc! { "_id": 8, "message_id": 8 });
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let reply = it.ok(doc! { "getMore": id, "collection": "messages" }).await;
    assert_eq!(ids(&batch(&reply)), [6, 5, 4]);
    let reply = it.ok(doc! { "count": "messages", "query": { "userid": { "$gt": 3 } } }).await;
    assert_eq!(reply.get_i32("n").unwrap(), 7);
    let reply = it.ok(doc! { "distinct": "messages", "key": "datacenter" }).await;
    assert_eq!(reply.get_array("values").unwrap(), &[Bson::from("alfa"), Bson::from("bravo")]);
}

#[tokio::test(start_paused = true)]
async fn pipeline_groups_documents_of_both_shards() {
    let it = zoned(V8_0).await;
    it.insert((1..=6).map(|id| message(id, if id < 3 { "alfa" } else { "bravo" }, 1)).collect())
        .await;
    let reply = it
        .ok(doc! {
            "aggregate": "messages",
            "pipeline": [
                { "$match": { "userid": 1 } },
                { "$group": { "_id": "$datacenter", "count": { "$sum": 1 } } },
                { "$sort": { "_id": 1 } },
            ],
            "cursor": {},
        })
        .await;
    let expected = [doc! { "_id": "alfa", "count": 2 }, doc! { "_id": "bravo", "count": 4 }];
    assert_eq!(batch(&reply), expected);
}

#[tokio::test(start_paused = true)]
async fn ordered_batch_over_two_shards_stops_at_first_error() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(3, "bravo", 1)]).await;
    let documents: Vec<_> = [(1, "alfa"), (2, "bravo"), (3, "bravo"), (4, "alfa")]
        .map(|(id, datacenter)| message(id, datacenter, 1))
        .to_vec();
    let insert = doc! { "insert": "messages", "documents": documents };
    let reply = it.run(it.retryable(insert.clone())).await;
    let errors = reply.get_array("writeErrors").unwrap();
    let error = errors[0].as_document().unwrap();
    assert_eq!((error.get_i32("index").unwrap(), error.get_i32("code").unwrap()), (2, 11000));
    assert_eq!(reply.get_i32("n").unwrap(), 2);
    assert_eq!((ids(&it.on("alfa")), ids(&it.on("bravo"))), (vec![1], vec![3, 2]));
}

#[tokio::test(start_paused = true)]
async fn unordered_batch_continues_after_error() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(2, "bravo", 1)]).await;
    let documents: Vec<_> = [(1, "alfa"), (2, "bravo"), (3, "bravo"), (4, "alfa")]
        .map(|(id, datacenter)| message(id, datacenter, 1))
        .to_vec();
    let insert = doc! { "insert": "messages", "documents": documents, "ordered": false };
    let reply = it.run(it.retryable(insert)).await;
    let errors = reply.get_array("writeErrors").unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].as_document().unwrap().get_i32("index").unwrap(), 1);
    assert_eq!(reply.get_i32("n").unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn config_database_shows_catalog() {
    let it = zoned(V8_0).await;
    let on_config = |body| it.run_on(&it.mongos, "config", body);
    let reply = on_config(doc! { "find": "chunks", "filter": { "shard": "bravo" } }).await;
    assert!(batch(&reply).iter().any(|chunk| {
        chunk.get_document("min").unwrap().get_str("datacenter").is_ok_and(|it| it == "bravo")
    }));
    let reply = on_config(doc! { "find": "tags", "filter": {}, "sort": { "tag": -1 } }).await;
    assert_eq!(batch(&reply)[0].get_str("tag").unwrap(), "bravo");
    let reply = on_config(doc! { "count": "shards" }).await;
    assert_eq!(reply.get_i32("n").unwrap(), 2);
    let reply = on_config(doc! { "find": "databases", "filter": { "_id": "log" } }).await;
    assert_eq!(batch(&reply)[0].get_str("primary").unwrap(), "alfa");
}

#[tokio::test(start_paused = true)]
async fn hello_of_mongos_has_isdbgrid() {
    let it = zoned(V6_0).await;
    let hello = it.mongos.hello();
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), V6_0);
    assert!(!hello.contains_key("setName"));
    assert_eq!(it.admin(doc! { "isdbgrid": 1 }).await.get_i32("isdbgrid").unwrap(), 1);
    it.admin(doc! { "ping": 1 }).await;
    let reply = it.run(doc! { "noSuch": 1 }).await;
    assert_eq!(reply.get_i32("code").unwrap(), 59);
}

#[tokio::test(start_paused = true)]
async fn unsharded_collection_is_on_primary_shard() {
    let it = zoned(V8_0).await;
    it.ok(doc! { "insert": "plain", "documents": [{ "_id": 1 }] }).await;
    let reply =
        it.run_on(&it.mongos, "other", doc! { "insert": "plain", "documents": [{ "_id": 2 }] });
    assert_eq!(reply.await.get_i32("n").unwrap(), 1);
    let primaries =
        it.run_on(&it.mongos, "config", doc! { "find": "databases", "filter": {} }).await;
    let primaries: Vec<_> =
        batch(&primaries).iter().map(|it| it.get_str("primary").unwrap().to_owned()).collect();
    assert_eq!(primaries, ["alfa", "bravo"], "databases are spread");
    let reply = it.admin(doc! { "listDatabases": 1, "nameOnly": true }).await;
    let names: Vec<_> = reply.get_array("databases").unwrap().iter().collect();
    assert_eq!(names.len(), 2, "{reply}");
}

#[tokio::test(start_paused = true)]
async fn drop_drops_collection_on_all_shards() {
    let it = zoned(V8_0).await;
    it.insert(vec![message(1, "alfa", 1), message(2, "bravo", 1)]).await;
    it.ok(doc! { "drop": "messages" }).await;
    assert!(it.on("alfa").is_empty() && it.on("bravo").is_empty());
    it.insert(vec![message(1, "bravo", 1)]).await;
    assert_eq!(ids(&it.on("alfa")), [1], "it is an ordinary collection now");
}

#[tokio::test(start_paused = true)]
async fn lookup_and_out_work_across_shards() {
    let it = zoned(V8_0).await;
    it.insert((1..=4).map(|id| message(id, if id < 3 { "alfa" } else { "bravo" }, id)).collect())
        .await;
    it.ok(doc! { "insert": "users", "documents": [{ "_id": 1, "name": "$x" }, { "_id": 4 }] })
        .await;
    let look_up = doc! { "$lookup": {
        "from": "messages", "localField": "_id", "foreignField": "userid", "as": "messages",
    } };
    let stages = vec![look_up, doc! { "$sort": { "_id": 1 } }];
    let reply = it.ok(doc! { "aggregate": "users", "pipeline": stages, "cursor": {} }).await;
    let found: Vec<_> =
        batch(&reply).iter().map(|it| it.get_array("messages").unwrap().len()).collect();
    assert_eq!(found, [1, 1]);
    let stages = vec![doc! { "$match": { "userid": { "$gte": 2 } } }, doc! { "$out": "copies" }];
    it.ok(doc! { "aggregate": "messages", "pipeline": stages, "cursor": {} }).await;
    let reply = it.ok(doc! { "find": "copies", "filter": {}, "sort": { "_id": 1 } }).await;
    assert_eq!(ids(&batch(&reply)), [2, 3, 4]);
    let stages = vec![doc! { "$merge": "messages" }];
    let reply = it.run(doc! { "aggregate": "copies", "pipeline": stages, "cursor": {} }).await;
    assert_eq!(reply.get_i32("code").unwrap(), 115, "into a sharded collection: rejected");
}

#[tokio::test(start_paused = true)]
async fn view_on_sharded_collection_reads_both_shards() {
    let it = zoned(V8_0).await;
    it.insert((1..=4).map(|id| message(id, if id < 3 { "alfa" } else { "bravo" }, id)).collect())
        .await;
    let pipeline = vec![doc! { "$match": { "userid": { "$gt": 1 } } }];
    it.ok(doc! { "create": "recent", "viewOn": "messages", "pipeline": pipeline }).await;
    let reply = it.ok(doc! { "find": "recent", "filter": {}, "sort": { "_id": -1 } }).await;
    assert_eq!(ids(&batch(&reply)), [4, 3, 2]);
    assert_eq!(it.ok(doc! { "count": "recent" }).await.get_i32("n").unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn bulk_write_spans_collections_and_shards() {
    let it = zoned(V8_0).await;
    let bulk = it.retryable(doc! {
        "bulkWrite": 1,
        "ops": [
            { "insert": 0, "document": message(1, "alfa", 1) },
            { "insert": 0, "document": message(2, "bravo", 2) },
            { "update": 0, "filter": { "datacenter": "bravo", "userid": 2 },
              "updateMods": { "$inc": { "count": 1 } } },
            { "insert": 1, "document": { "_id": 9 } },
            { "delete": 0, "filter": { "datacenter": "alfa", "userid": 1 } },
        ],
        "nsInfo": [{ "ns": "log.messages" }, { "ns": "log.plain" }],
    });
    for _ in 0..2 {
        let reply = it.admin(bulk.clone()).await;
        let count = |field| reply.get_i32(field).unwrap();
        assert_eq!(count("nErrors"), 0, "{reply}");
        assert_eq!((count("nInserted"), count("nModified"), count("nDeleted")), (3, 1, 1));
    }
    assert_eq!(it.on("bravo")[0].get_i32("count").unwrap(), 1);
    assert!(it.on("alfa").is_empty());
}
