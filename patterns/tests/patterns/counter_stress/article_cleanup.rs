//! Cleanup of the article, when the article runs it: after the end of the day, without writers.

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    options::ClientOptions,
};
use steadfast_embedded::Deployment;

use super::strategies::{ArticleCounter, CountingStrategy as _};
use crate::counter::with_real_servers;

const DAY: &str = "2016-06-28";

/// Returns the count and the number of pending tokens.
async fn state(counters: &Collection<Document>) -> (Option<i64>, usize) {
    let day = counters.find_one(doc! { "_id": DAY }).await.unwrap().expect("it was begun");
    let counted = match day.get("counter") {
        Some(Bson::Int32(counted)) => Some(i64::from(*counted)),
        Some(Bson::Int64(counted)) => Some(*counted),
        _ => None,
    };
    (counted, day.get_array("pending").map_or(0, Vec::len))
}

/// Counts nine events. Three clients crash between the steps, three lose the reply to step one and three the
/// reply to step two, and repeat it. The cleanup loses a message, too, and is repeated.
async fn count_a_day(uri: &str, cleanup_fault: Reaction) {
    let proxy = Proxy::builder(uri).start().await.unwrap();
    let mut options = ClientOptions::parse(proxy.uri()).await.unwrap();
    options.retry_writes = Some(false);
    let client = Client::with_options(options).unwrap();
    let name = format!("end_of_day_{}", ObjectId::new());
    let counters = client.database("patterns").collection::<Document>(&name);
    let strategy = ArticleCounter::over(counters.clone());
    let lose_next = |fault: Reaction| drop(proxy.add(Rule::new(fault).command("update").times(1)));
    for event in 0..9 {
        let token = ObjectId::new();
        if event % 3 == 1 {
            lose_next(Reaction::lose_reply());
            strategy.step_one(DAY, token).await.unwrap_err();
        }
        strategy.step_one(DAY, token).await.unwrap();
        if event % 3 == 0 {
            continue;
        }
        if event % 3 == 2 {
            lose_next(Reaction::lose_reply());
            strategy.step_two(DAY, token).await.unwrap_err();
        }
        strategy.step_two(DAY, token).await.unwrap();
    }
    assert_eq!(state(&counters).await, (Some(6), 3), "the tokens of crashed clients are pending");

    lose_next(cleanup_fault);
    assert!(strategy.clean_up().await.is_err());
    strategy.clean_up().await.unwrap();
    assert_eq!(state(&counters).await, (Some(9), 0));
    assert_eq!(strategy.clean_up().await.unwrap().finished, 0, "nothing is left to clean up");
    assert_eq!(state(&counters).await, (Some(9), 0));
}

#[tokio::test]
async fn cleanup_after_the_end_of_the_day_counts_right() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        for fault in [Reaction::lose_reply(), Reaction::cut_request()] {
            count_a_day(&uri, fault).await;
        }
    }
}
