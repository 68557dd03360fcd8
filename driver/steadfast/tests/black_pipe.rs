//! The reply to an insert is lost, the driver retries, and the order exists once.
#![allow(missing_docs)]

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc},
    error::Result,
};

/// The application under test.
async fn place_order(orders: &Collection<Document>, item: &str) -> Result<Bson> {
    Ok(orders.insert_one(doc! { "item": item }).await?.inserted_id)
}

#[tokio::test]
async fn lost_reply_creates_one_order() {
    testbed::require!(V6_0);
    let servers = testbed::ReplicaSet::start(1, testbed::Options::new()).unwrap();
    let proxy = Proxy::builder(servers.uri()).start().await.unwrap();
    let client = Client::with_uri_str(proxy.uri()).await.unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    proxy.add(Rule::new(Reaction::lose_reply()).command("insert").times(1));

    let order = place_order(&orders, "kettle").await.unwrap();

    let ledger = proxy.ledger();
    let [write] = ledger.writes_of("insert", "shop.orders")[..] else { panic!("one write") };
    assert_eq!(write.deliveries, 2, "the server received it twice");
    assert_eq!(write.executions, 1, "the server executed it once");
    let found = orders.find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(found.get("_id"), Some(&order));
    assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 1);
}
