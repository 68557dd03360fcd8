//! The article's clean-up at the time that the article says: after the end of the day, when nobody counts any more.

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    options::ClientOptions,
};
use steadfast_embedded::Deployment;

use super::ways::{SweptByDay, Way as _};
use crate::counting::with_real_servers;

const DAY: &str = "2016-06-28";

/// The count, and the pending tokens.
async fn state(counters: &Collection<Document>) -> (Option<i64>, usize) {
    let day = counters.find_one(doc! { "_id": DAY }).await.unwrap().expect("it was begun");
    let counted = match day.get("counter") {
        Some(Bson::Int32(counted)) => Some(i64::from(*counted)),
        Some(Bson::Int64(counted)) => Some(*counted),
        _ => None,
    };
    (counted, day.get_array("pending").map_or(0, Vec::len))
}

/// Nine events: three of the applications die between the steps, three lose the reply of step one and three that
/// of step two, and repeat it. Then the clean-up loses a message, too, and is repeated.
async fn count_a_day(uri: &str, fault_of_the_clean_up: Reaction) {
    let proxy = Proxy::builder(uri).start().await.unwrap();
    let mut options = ClientOptions::parse(proxy.uri()).await.unwrap();
    options.retry_writes = Some(false);
    let client = Client::with_options(options).unwrap();
    let name = format!("end_of_day_{}", ObjectId::new());
    let counters = client.database("patterns").collection::<Document>(&name);
    let way = SweptByDay::over(counters.clone());
    let lose_next = |fault: Reaction| drop(proxy.add(Rule::new(fault).command("update").times(1)));
    for event in 0..9 {
        let token = ObjectId::new();
        if event % 3 == 1 {
            lose_next(Reaction::lose_reply());
            way.step_one(DAY, token).await.unwrap_err();
        }
        way.step_one(DAY, token).await.unwrap();
        if event % 3 == 0 {
            continue;
        }
        if event % 3 == 2 {
            lose_next(Reaction::lose_reply());
            way.step_two(DAY, token).await.unwrap_err();
        }
        way.step_two(DAY, token).await.unwrap();
    }
    assert_eq!(state(&counters).await, (Some(6), 3), "those of the dead are pending");

    lose_next(fault_of_the_clean_up);
    assert!(way.clean_up().await.is_err());
    way.clean_up().await.unwrap();
    assert_eq!(state(&counters).await, (Some(9), 0));
    assert_eq!(way.clean_up().await.unwrap().finished, 0, "there is nothing left to do");
    assert_eq!(state(&counters).await, (Some(9), 0));
}

#[tokio::test]
async fn the_articles_clean_up_after_the_end_of_the_day_counts_right() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        for fault in [Reaction::lose_reply(), Reaction::cut_request()] {
            count_a_day(&uri, fault).await;
        }
    }
}
