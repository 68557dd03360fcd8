//! Real servers behind the proxy: session record, failover, TLS.

use std::time::Duration;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use bson::doc;
use testbed::{Mongod, Options, ReplicaSet, TestCa};
use tokio::time::timeout;

use crate::client::{RawClient, TEST_TIMEOUT, insert, ping};

#[tokio::test]
async fn retry_after_a_lost_reply_is_not_executed_again() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    proxy.add(Rule::new(Reaction::lose_reply()).command("insert").times(1));
    RawClient::of(&proxy).await.run(insert(1, 10)).await.unwrap_err();
    let reply = RawClient::of(&proxy).await.run(insert(1, 10)).await.unwrap();
    assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
    let ledger = proxy.ledger();
    let [write] = ledger.writes_of("insert", "shop.orders")[..] else { panic!("one write") };
    assert_eq!((write.deliveries, write.acknowledged), (2, 2));
    assert_eq!((write.executions, write.from_record, write.statements_executed), (1, 1, 1));

    // Without a transaction number, the repeated insert is executed twice.
    proxy.clear_ledger();
    let mut naive = insert(2, 10);
    naive.remove("txnNumber");
    naive.remove("lsid");
    naive.get_array_mut("documents").unwrap()[0] = doc! { "naive": true }.into();
    proxy.add(Rule::new(Reaction::lose_reply()).command("insert").times(1));
    RawClient::of(&proxy).await.run(naive.clone()).await.unwrap_err();
    RawClient::of(&proxy).await.run(naive).await.unwrap();
    assert_eq!(proxy.ledger().count("insert", "shop.orders").executions, 2);
    let count = doc! { "count": "orders", "query": { "naive": true }, "$db": "shop" };
    assert_eq!(RawClient::of(&proxy).await.run(count).await.unwrap().get_i32("n").unwrap(), 2);
}

#[tokio::test]
async fn failover_exposes_no_real_addresses() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(3, Options::new()).unwrap();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let fronts: Vec<_> = proxy.members().iter().map(|(front, _)| front.to_string()).collect();
    assert_eq!(fronts.len(), 3);
    let primary = || async {
        let hello =
            RawClient::of(&proxy).await.run(doc! { "hello": 1, "$db": "admin" }).await.unwrap();
        let hosts = hello.get_array("hosts").unwrap();
        let all = hosts.iter().filter_map(bson::Bson::as_str);
        let mut all: Vec<_> = all.map(str::to_owned).collect();
        all.sort();
        let mut expected = fronts.clone();
        expected.sort();
        assert_eq!(all, expected);
        hello.get_str("primary").ok().map(str::to_owned)
    };
    for round in 0..2 {
        if round > 0 {
            set.step_down().unwrap();
            set.wait_until_complete().unwrap();
        }
        let known = timeout(TEST_TIMEOUT, async {
            loop {
                match primary().await {
                    Some(known) => return known,
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        assert!(fronts.contains(&known.await.expect("there is a primary in the end")));
    }
    let status = doc! { "replSetGetStatus": 1, "$db": "admin" };
    let status = RawClient::of(&proxy).await.run(status).await.unwrap();
    let real = set.addresses()[0].to_string();
    assert!(!status.to_string().contains(&real), "{status}");
}

#[tokio::test]
async fn proxy_connects_to_servers_with_tls() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let server = Mongod::standalone(Options::new().tls(&ca)).unwrap();
    let address = server.address();
    let uri = format!("mongodb://{address}/?tls=true&tlsCAFile={}", ca.ca_file().display());
    let proxy = Proxy::builder(uri).start().await.unwrap();
    proxy.add(Rule::new(Reaction::cut_reply_after(20)).command("ping").times(1));
    let mut client = RawClient::of(&proxy).await;
    client.send(ping()).await;
    assert_eq!(client.rest().await.0.len(), 20);
    RawClient::of(&proxy).await.run(ping()).await.unwrap();
    assert_eq!(proxy.uri(), format!("mongodb://{}/?directConnection=true", proxy.members()[0].0));

    // A certificate of an unknown authority is rejected.
    let distrusted = Proxy::builder(format!("mongodb://{address}/?tls=true")).start().await;
    distrusted.unwrap_err();
    let trusting = format!("mongodb://{address}/?tls=true&tlsAllowInvalidCertificates=true");
    Proxy::builder(trusting).start().await.unwrap();
}
