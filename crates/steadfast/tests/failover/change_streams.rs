//! A change stream through failovers: every write that is made is told of once, and in order.

use std::{sync::Arc, time::Duration};

use futures_util::TryStreamExt;
use steadfast::{
    Client,
    bson::{Document, doc},
    options::WriteConcern,
};
use testbed::{Options, ReplicaSet};

use crate::{alone, report, storm::Failover};

const WRITES: i32 = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_stream_tells_of_every_write_once_while_primaries_fail() {
    alone(Duration::from_secs(120), async {
        let set = Arc::new(ReplicaSet::start(3, Options::new()).unwrap());
        let client = Client::with_uri_str(set.uri()).await.unwrap();
        let numbers = client.database("failover").collection::<Document>("watched");
        numbers
            .insert_one(doc! { "_id": 0 })
            .write_concern(WriteConcern::majority())
            .await
            .unwrap();
        let mut stream = numbers.watch().await.unwrap();

        let writer = tokio::spawn({
            let (set, numbers) = (Arc::clone(&set), numbers.clone());
            async move {
                for id in 1..=WRITES {
                    let write = numbers.insert_one(doc! { "_id": id });
                    write.write_concern(WriteConcern::majority()).await.unwrap();
                    if id % (WRITES / 4) == 0 && id < WRITES {
                        let failover =
                            if id == WRITES / 2 { Failover::Kill } else { Failover::StepDown };
                        let set = Arc::clone(&set);
                        // It befalls the primary while the writes go on.
                        tokio::task::spawn_blocking(move || failover.befall(&set));
                    }
                }
            }
        });
        let mut told = Vec::new();
        while told.len() < usize::try_from(WRITES).unwrap() {
            let event = stream.try_next().await.unwrap().expect("the stream goes on");
            told.push(event.document_key.unwrap().get_i32("_id").unwrap());
        }
        writer.await.unwrap();
        assert_eq!(told, (1..=WRITES).collect::<Vec<_>>());
        report(&format!(
            "a change stream through three failovers: {WRITES} writes, as many events"
        ));
    })
    .await;
}
