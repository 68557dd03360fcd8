//! Replica sets with elections, and mongos.

use bson::Timestamp;
use steadfast_wire::MsgFlags;

use super::*;

async fn greet(server: &Server) -> Document {
    Client::of(server).await.run(doc! { "hello": 1, "$db": "admin" }).await
}

/// An awaitable `hello` with the topology version of `known`.
fn awaiting(known: &Document, max_await: Duration) -> Document {
    let version = known.get_document("topologyVersion").unwrap().clone();
    let max_await = i64::try_from(max_await.as_millis()).unwrap();
    doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": max_await, "$db": "admin" }
}

#[tokio::test]
async fn members_agree_on_the_primary_after_each_election() {
    let set = Deployment::replica_set(3);
    let hosts: Vec<_> = set.members().iter().map(Server::address).collect();
    assert_eq!(set.uri("w=1"), format!("mongodb://{}/?replicaSet=set&w=1", hosts.join(",")));
    let mut elections = Vec::new();
    for primary in [0, 1, 2, 0] {
        set.elect(primary);
        assert_eq!(set.primary(), Some(primary));
        for (n, member) in set.members().iter().enumerate() {
            let hello_reply = greet(member).await;
            assert_eq!(hello_reply.get_bool("isWritablePrimary").unwrap(), n == primary);
            assert_eq!(hello_reply.get_bool("secondary").unwrap(), n != primary);
            assert_eq!(hello_reply.get_str("primary").unwrap(), hosts[primary].as_str());
            assert_eq!(hello_reply.get_str("me").unwrap(), hosts[n].as_str());
            assert_eq!(hello_reply.get_array("hosts").unwrap().len(), 3);
            elections.extend(hello_reply.get_object_id("electionId"));
        }
    }
    assert!(elections.is_sorted() && elections.len() == 4, "{elections:?}");
    set.step_down();
    assert_eq!(set.primary(), None);
    for member in set.members() {
        assert!(!greet(member).await.contains_key("primary"));
    }
}

#[tokio::test]
async fn write_to_a_secondary_gets_not_writable_primary() {
    let set = Deployment::replica_set(2);
    let rejected = Client::of(set.member(1)).await.run(insert_one()).await;
    assert_eq!(rejected.get_i32("code").unwrap(), 10107);
    let hello_reply = greet(set.member(1)).await;
    assert_eq!(rejected.get("topologyVersion"), hello_reply.get("topologyVersion"));
    set.step_down();
    let rejected = Client::of(set.member(0)).await.run(insert_one()).await;
    assert_eq!(rejected.get_i32("code").unwrap(), 10107);

    set.expect(insert("db.things").at(1).then(error(189)));
    let rejected = Client::of(set.member(1)).await.run(insert_one()).await;
    assert_eq!(rejected.get_i32("code").unwrap(), 189);
    set.finish();
}

#[tokio::test]
async fn script_of_a_deployment_matches_members() {
    let set = Deployment::replica_set(2);
    set.expect(insert("db.things"));
    set.member(1).expect(find("db.things"));
    let pending = set.receives(find("db.things").at(0));
    Client::of(set.member(0)).await.run(insert_one()).await;
    let ask = doc! { "find": "things", "$db": "db" };
    Client::of(set.member(1)).await.run(ask.clone()).await;
    let mut client = Client::of(set.member(0)).await;
    client.send(ask).await;
    let request = pending.arrives().await;
    assert_eq!(request.member, 0);
    request.reply_default();
    client.receive().await.unwrap();
    let conversation = set.transcript().to_string();
    assert!(conversation.contains("server 1, connection 1 > find db.things"), "{conversation}");
    set.finish();
}

#[tokio::test]
async fn awaitable_hello_returns_on_election() {
    let set = Deployment::replica_set(2);
    let mut client = Client::of(set.member(1)).await;
    let known = client.run(doc! { "hello": 1, "$db": "admin" }).await;
    client.send(awaiting(&known, Duration::from_secs(600))).await;
    set.member(1).wait_for(|log| log.requests.len() == 2).await;
    set.elect(1);
    let news = client.receive().await.unwrap();
    assert!(!news.more_to_come);
    assert!(news.document.get_bool("isWritablePrimary").unwrap());
    let version = |hello_reply: &Document| {
        hello_reply.get_document("topologyVersion").unwrap().get_i64("counter").unwrap()
    };
    assert!(version(&news.document) > version(&known));
    // A client with an old topology version gets a reply immediately.
    client.run(awaiting(&known, Duration::from_secs(600))).await;
}

#[tokio::test(start_paused = true)]
async fn awaitable_hello_returns_unchanged_after_max_await_time() {
    let set = Deployment::replica_set(1);
    let mut client = Client::of(set.member(0)).await;
    let known = client.run(doc! { "hello": 1, "$db": "admin" }).await;
    let began = tokio::time::Instant::now();
    let again = client.run(awaiting(&known, Duration::from_secs(10))).await;
    assert_eq!(again, known);
    assert!(began.elapsed() >= Duration::from_secs(10));
}

#[tokio::test]
async fn exhaust_hello_streams_every_election() {
    let set = Deployment::replica_set(2);
    let mut client = Client::of(set.member(0)).await;
    let known = client.run(doc! { "hello": 1, "$db": "admin" }).await;
    let ask = awaiting(&known, Duration::from_secs(600));
    let mut last = client.send_with(ask, MsgFlags::EXHAUST_ALLOWED, None).await;
    set.member(0).wait_for(|log| log.requests.len() == 2).await;
    for primary in [1, 0, 1] {
        set.elect(primary);
        let news = client.receive().await.unwrap();
        assert!(news.more_to_come);
        assert_eq!(news.response_to, last, "each reply answers the one before it");
        assert_eq!(news.document.get_bool("isWritablePrimary").unwrap(), primary == 0);
        last = news.id;
    }
    drop(client);
    set.member(0).wait_for(|log| log.open == 0).await;
}

#[tokio::test]
async fn single_server_streams_hello_only_on_request() {
    let silent = Server::lenient(Role::Primary);
    assert!(!greet(&silent).await.contains_key("topologyVersion"));
    let streaming = Server::builder().role(Role::Primary).streaming(true).start();
    assert!(greet(&streaming).await.contains_key("topologyVersion"));
    let mut client = Client::of(&streaming).await;
    let known = greet(&streaming).await;
    client.send(awaiting(&known, Duration::from_secs(600))).await;
    streaming.wait_for(|log| log.requests.len() == 3).await;
    let time = Timestamp { time: 1, increment: 1 };
    streaming.set_hello_fields(doc! { "lastWrite": { "opTime": time } });
    assert!(client.receive().await.unwrap().document.contains_key("lastWrite"));
}

#[tokio::test]
async fn mongos_and_load_balanced_servers_report_their_role() {
    let cluster = Deployment::mongos(2);
    for router in cluster.members() {
        assert_eq!(greet(router).await.get_str("msg").unwrap(), "isdbgrid");
    }
    assert!(!cluster.uri("").contains("replicaSet"));
    let balanced = Server::lenient(Role::LoadBalanced);
    assert!(greet(&balanced).await.contains_key("serviceId"));
}
