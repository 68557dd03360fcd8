//! Change streams over several shards, on the embedded sharded cluster: the events of all shards in order, resumed
//! during failovers of shards and after the death of a mongos.

use std::{sync::Arc, time::Duration};

use futures_util::TryStreamExt;
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc},
    change_stream::{
        ChangeStream,
        event::{ChangeStreamEvent, OperationType},
    },
    options::FullDocumentType,
};
use steadfast_embedded::Deployment;

use crate::bounded;

type OrderStream = ChangeStream<ChangeStreamEvent<Document>>;

/// Cluster with two shards and two mongos. The shard key of `shop.orders` is the name of the shard.
async fn cluster() -> Deployment {
    let cluster = Deployment::sharded(&["alfa", "bravo"])
        .version("8.2")
        .mongos_count(2)
        .without_balancer()
        .election_timeout(Duration::from_millis(100))
        .start();
    let admin = Client::with_uri_str(cluster.uri()).await.unwrap().database("admin");
    for shard in ["alfa", "bravo"] {
        admin.run_command(doc! { "addShardToZone": shard, "zone": shard }).await.unwrap();
        let range = doc! {
            "updateZoneKeyRange": "shop.orders", "zone": shard,
            "min": { "shard": shard, "_id": Bson::MinKey },
            "max": { "shard": shard, "_id": Bson::MaxKey },
        };
        admin.run_command(range).await.unwrap();
    }
    let key = doc! { "shard": 1, "_id": 1 };
    admin.run_command(doc! { "shardCollection": "shop.orders", "key": key }).await.unwrap();
    cluster
}

async fn orders(cluster: &Deployment) -> Collection<Document> {
    let client = Client::with_uri_str(cluster.uri()).await.unwrap();
    client.database("shop").collection("orders")
}

fn order(id: i32) -> Document {
    doc! { "_id": id, "shard": if id % 3 == 0 { "alfa" } else { "bravo" } }
}

async fn next(stream: &mut OrderStream) -> ChangeStreamEvent<Document> {
    stream.try_next().await.unwrap().expect("the stream is open")
}

fn id(event: &ChangeStreamEvent<Document>) -> i32 {
    event.document_key.as_ref().unwrap().get_i32("_id").unwrap()
}

#[tokio::test]
async fn change_streams_watch_a_sharded_collection_its_database_and_the_cluster() {
    bounded(async {
        let cluster = cluster().await;
        let orders = orders(&cluster).await;
        let client = orders.client().clone();
        let mut streams = [
            orders.watch().full_document(FullDocumentType::UpdateLookup).await.unwrap(),
            client.database("shop").watch().await.unwrap().with_type(),
            client.watch().await.unwrap().with_type(),
        ];
        for number in 0..9 {
            orders.insert_one(order(number)).await.unwrap();
        }
        orders.update_one(order(4), doc! { "$set": { "paid": true } }).await.unwrap();
        for (place, stream) in streams.iter_mut().enumerate() {
            for number in 0..9 {
                assert_eq!(id(&next(stream).await), number);
            }
            let update = next(stream).await;
            assert_eq!(update.document_key, Some(doc! { "shard": "bravo", "_id": 4 }));
            let paid = update.full_document.map(|order| order.get_bool("paid").unwrap());
            assert_eq!(paid, (place == 0).then_some(true));
        }
        orders.drop().await.unwrap();
        for stream in &mut streams {
            assert_eq!(next(stream).await.operation_type, OperationType::Drop);
        }
        assert_eq!(next(&mut streams[0]).await.operation_type, OperationType::Invalidate);
        assert!(streams[0].try_next().await.unwrap().is_none());
    })
    .await;
}

/// While orders are inserted, primaries of shards fail and one mongos dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_stream_over_two_shards_has_one_event_per_write_while_servers_fail() {
    const WRITES: i32 = 300;
    bounded(async {
        let cluster = Arc::new(cluster().await);
        let orders = orders(&cluster).await;
        let mut stream = orders.watch().await.unwrap();
        let writer = {
            let (orders, cluster) = (orders.clone(), Arc::clone(&cluster));
            tokio::spawn(async move {
                for number in 0..WRITES {
                    write(&orders, number).await;
                    fail(&cluster, number).await;
                }
            })
        };
        let mut received = Vec::new();
        while received.len() < usize::try_from(WRITES).unwrap() {
            match stream.try_next().await {
                Ok(event) => received.push(id(&event.expect("the stream is open"))),
                // The driver resumes the stream once; the application may resume it, too.
                Err(_) => stream = resume(&orders, &stream).await,
            }
        }
        writer.await.unwrap();
        assert_eq!(received, (0..WRITES).collect::<Vec<_>>());
    })
    .await;
}

async fn write(orders: &Collection<Document>, number: i32) {
    loop {
        match orders.insert_one(order(number)).await {
            Ok(_) => return,
            Err(error) if error.is_duplicate_key_error() => return,
            Err(_) => {}
        }
    }
}

async fn resume(orders: &Collection<Document>, lost: &OrderStream) -> OrderStream {
    loop {
        if let Ok(stream) = orders.watch().resume_after(lost.resume_token()).await {
            return stream;
        }
    }
}

/// Injects the failure that follows this write.
async fn fail(cluster: &Deployment, number: i32) {
    match number {
        60 | 180 => {
            let shard = cluster.shard(if number == 60 { "alfa" } else { "bravo" });
            let primary = shard.primary().unwrap();
            shard.faults().kill(primary);
            shard.wait_for_primary().await;
            shard.faults().restart(primary);
        }
        120 => cluster.faults().kill(0),
        150 => cluster.faults().restart(0),
        210 => cluster.faults().kill(1),
        240 => cluster.faults().restart(1),
        _ => {}
    }
}
