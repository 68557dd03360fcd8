//! Hello: what a server says of itself, once or whenever it changes.

use steadfast_wire::{Compressor, MsgFlags};

use super::*;

#[tokio::test]
async fn members_tell_of_each_other_and_of_the_primary() {
    let set = Deployment::replica_set(3).version("7.0").start();
    let hosts: Vec<_> = set.members().iter().map(|it| it.address().to_string()).collect();
    for member in 0..3 {
        let reply = connect(&set, member).await.run(hello()).await;
        assert_eq!(reply.get_str("setName").unwrap(), "rs0");
        assert_eq!(reply.get_bool("isWritablePrimary").unwrap(), member == 0);
        assert_eq!(reply.get_bool("secondary").unwrap(), member != 0);
        assert_eq!(reply.get_str("primary").unwrap(), hosts[0]);
        assert_eq!(reply.get_str("me").unwrap(), hosts[member]);
        let named = reply.get_array("hosts").unwrap();
        assert_eq!(*named, hosts.iter().map(|host| host.clone().into()).collect::<Vec<_>>());
        assert_eq!(reply.get_i32("maxWireVersion").unwrap(), 21);
        assert_eq!(reply.get_i32("logicalSessionTimeoutMinutes").unwrap(), 30);
        assert!(reply.contains_key("topologyVersion") && reply.contains_key("$clusterTime"));
    }
}

#[tokio::test]
async fn a_standalone_server_is_alone_and_takes_writes() {
    let server = Deployment::standalone().start();
    let reply = connect(&server, 0).await.run(hello()).await;
    assert!(reply.get_bool("isWritablePrimary").unwrap());
    assert!(!reply.contains_key("setName") && !reply.contains_key("$clusterTime"));
    assert_eq!(server.primary(), Some(0));
}

#[tokio::test]
async fn old_clients_are_greeted_in_their_own_words() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let id = client.send_legacy(&doc! { "isMaster": 1, "helloOk": true }).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.response_to, id);
    assert!(reply.document.get_bool("ismaster").unwrap());
    assert!(reply.document.get_bool("helloOk").unwrap());
    assert!(!reply.document.contains_key("isWritablePrimary"));
    client.send_legacy(&doc! { "ping": 1 }).await;
    assert_eq!(code(&client.receive().await.unwrap().document), 352);
}

#[tokio::test]
async fn compressors_that_both_know_are_agreed_on_and_used() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let mut offer = hello();
    offer.insert("compression", ["zstd", "lzma", "snappy"].as_slice());
    let reply = client.run(offer).await;
    let agreed: Vec<_> = reply.get_array("compression").unwrap().to_vec();
    assert_eq!(agreed, ["zstd", "snappy"].map(bson::Bson::from));
    client.send_with(insert(1), MsgFlags::empty(), Some(Compressor::Zstd)).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.compressor, Some(Compressor::Zstd));
    assert!(is_ok(&reply.document));
}

#[tokio::test]
async fn who_watches_is_told_of_a_new_primary_at_once() {
    let set = Deployment::replica_set(3).manual_elections().start();
    let mut client = connect(&set, 1).await;
    let known = client.run(hello()).await;
    let mut watch = hello();
    watch.insert("topologyVersion", known.get_document("topologyVersion").unwrap().clone());
    watch.insert("maxAwaitTimeMS", 3_600_000_i64);
    client.send_with(watch, MsgFlags::EXHAUST_ALLOWED, None).await;
    set.faults().elect(1).unwrap();
    let mut news = client.receive().await.unwrap();
    while !news.document.get_bool("isWritablePrimary").unwrap() {
        assert!(news.more_to_come, "it goes on without being asked: {}", news.document);
        let id = news.id;
        news = client.receive().await.unwrap();
        assert_eq!(news.response_to, id, "each reply is a reply to the one before");
    }
    set.faults().elect(2).unwrap();
    let news = client.receive().await.unwrap().document;
    assert!(!news.get_bool("isWritablePrimary").unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_watches_in_vain_hears_so_when_its_time_is_over() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let known = client.run(hello()).await.get_document("topologyVersion").unwrap().clone();
    let mut watch = hello();
    watch.extend(doc! { "topologyVersion": known.clone(), "maxAwaitTimeMS": 60_000 });
    let began = tokio::time::Instant::now();
    let reply = client.run(watch).await;
    assert_eq!(reply.get_document("topologyVersion").unwrap(), &known);
    assert!(began.elapsed() >= Duration::from_secs(60));
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_refused() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let mut known = client.run(hello()).await.get_document("topologyVersion").unwrap().clone();
    let mut asked = hello();
    asked.insert("maxAwaitTimeMS", 100);
    assert_eq!(code(&client.run(asked.clone()).await), 31368);
    known.insert("counter", 1_000_i64);
    asked.insert("topologyVersion", known);
    assert_eq!(code(&client.run(asked).await), 31382);
}

#[tokio::test]
async fn a_client_introduces_itself_once() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let mut introduction = hello();
    introduction.insert(
        "client",
        doc! { "driver": { "name": "d", "version": "1" }, "os": { "type": "Linux" } },
    );
    assert!(is_ok(&client.run(introduction.clone()).await));
    assert_eq!(code(&client.run(introduction).await), 186);
}
