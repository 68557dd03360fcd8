//! `hello`: single replies, awaitable and streaming protocol.

use steadfast_wire::{Compressor, MsgFlags, ZstdLevel};

use super::*;

#[tokio::test]
async fn hello_lists_members_and_primary() {
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
async fn standalone_hello_is_writable_primary() {
    let server = Deployment::standalone().start();
    let reply = connect(&server, 0).await.run(hello()).await;
    assert!(reply.get_bool("isWritablePrimary").unwrap());
    assert!(!reply.contains_key("setName") && !reply.contains_key("$clusterTime"));
    assert_eq!(server.primary(), Some(0));
}

#[tokio::test]
async fn legacy_hello_gets_legacy_reply() {
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
async fn common_compressors_are_negotiated_and_used() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let mut offer = hello();
    offer.insert("compression", ["zstd", "lzma", "snappy"].as_slice());
    let reply = client.run(offer).await;
    let agreed: Vec<_> = reply.get_array("compression").unwrap().to_vec();
    assert_eq!(agreed, ["zstd", "snappy"].map(bson::Bson::from));
    client
        .send_with(insert(1), MsgFlags::empty(), Some(Compressor::Zstd(ZstdLevel::DEFAULT)))
        .await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.compressor, Some(Compressor::Zstd(ZstdLevel::DEFAULT)));
    assert!(is_ok(&reply.document));
}

#[tokio::test]
async fn awaitable_hello_reports_new_primary_at_once() {
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
async fn awaitable_hello_replies_after_max_await_time() {
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
async fn invalid_awaitable_hello_is_rejected() {
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
async fn client_metadata_can_be_sent_once() {
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

/// Fields of 8.2 that follow those of the role.
const COMMON_FIELDS: &str = "maxBsonObjectSize maxMessageSizeBytes maxWriteBatchSize localTime \
                      logicalSessionTimeoutMinutes connectionId";

#[tokio::test]
async fn hello_has_fields_of_server_in_order() {
    let of_member =
        "topologyVersion hosts setName setVersion isWritablePrimary secondary primary me";
    let wire = "minWireVersion maxWireVersion readOnly ok";
    let times = "$clusterTime operationTime";
    let standalone = Deployment::standalone().version("8.2").start();
    let set = Deployment::replica_set(2).version("8.2").start();
    let cluster = Deployment::sharded(&["alfa"]).version("8.2").start();
    let shard = cluster.shard("alfa").members()[0].address();
    let expected = [
        (
            standalone.member(0).address(),
            format!("isWritablePrimary topologyVersion {COMMON_FIELDS} {wire}"),
        ),
        (
            set.member(0).address(),
            format!("{of_member} electionId lastWrite {COMMON_FIELDS} {wire} {times}"),
        ),
        (set.member(1).address(), format!("{of_member} lastWrite {COMMON_FIELDS} {wire} {times}")),
        (
            cluster.member(0).address(),
            format!(
                "isWritablePrimary msg topologyVersion {COMMON_FIELDS} maxWireVersion minWireVersion ok \
                 {times}"
            ),
        ),
        (
            shard,
            format!(
                "{of_member} electionId lastWrite isImplicitDefaultMajorityWC {COMMON_FIELDS} {wire} \
                 {times}"
            ),
        ),
    ];
    for (address, fields) in expected {
        let reply = connect_to(address).await.run(hello()).await;
        assert_eq!(reply.keys().map(String::as_str).collect::<Vec<_>>().join(" "), fields);
    }
}

#[tokio::test]
async fn local_time_and_last_write_use_member_clock() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let set = Deployment::replica_set(3).start();
    set.faults().clock_skew(1, HOUR);
    let time = async |member, path: &str| {
        let reply = connect(&set, member).await.run(hello()).await;
        let document = match path {
            "localTime" => &reply,
            _ => reply.get_document("lastWrite").unwrap(),
        };
        document.get_datetime(path).unwrap().timestamp_millis()
    };
    let ahead = time(1, "localTime").await - time(0, "localTime").await;
    assert!((3_590_000..3_610_000).contains(&ahead), "{ahead}");
    let before = time(0, "lastWriteDate").await;
    set.faults().elect(1).unwrap();
    assert!(is_ok(&connect(&set, 1).await.run(insert(1)).await));
    set.wait_for_replication().await;
    // A secondary without clock skew shows the times of the primary's entries.
    assert!(time(0, "lastWriteDate").await - before >= 3_590_000);
    assert_eq!(time(0, "majorityWriteDate").await, time(1, "majorityWriteDate").await);
    let reply = connect(&set, 1).await.run(hello()).await;
    assert_eq!(reply.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000002");
    let written = reply.get_document("lastWrite").unwrap().get_document("opTime").unwrap();
    assert_eq!(written.get_i64("t").unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn mongos_uses_clock_of_deployment() {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let cluster = Deployment::sharded(&["alfa"]).start();
    let mut client = connect(&cluster, 0).await;
    let local_time = |reply: Document| reply.get_datetime("localTime").unwrap().timestamp_millis();
    let before = local_time(client.run(hello()).await);
    tokio::time::advance(DAY).await;
    let after = local_time(client.run(hello()).await);
    assert!(after - before >= 24 * 3_600_000, "{}", after - before);
}

#[tokio::test]
async fn hello_arguments_are_validated() {
    let set = Deployment::replica_set(1).version("8.2").start();
    let cluster = Deployment::sharded(&["alfa"]).version("8.2").start();
    let process = bson::oid::ObjectId::new();
    let version = |counter: i64| doc! { "processId": process, "counter": counter };
    let cases = [
        (doc! { "hello": 1, "client": 5 }, 14, 14),
        (doc! { "hello": 1, "compression": "zlib" }, 14, 14),
        (doc! { "isMaster": 1, "apiVersion": "1", "apiStrict": true }, 323, 323),
        (doc! { "hello": 1, "maxAwaitTimeMS": 1 }, 31368, 51760),
        (doc! { "hello": 1, "topologyVersion": version(1) }, 31368, 51760),
        (doc! { "hello": 1, "topologyVersion": version(-1), "maxAwaitTimeMS": 1 }, 31372, 51758),
        (doc! { "hello": 1, "topologyVersion": version(1), "maxAwaitTimeMS": -1 }, 2, 2),
    ];
    for (mut command, of_member, of_mongos) in cases {
        command.insert("$db", "admin");
        for (deployment, expected) in [(&set, of_member), (&cluster, of_mongos)] {
            let reply = connect(deployment, 0).await.run(command.clone()).await;
            assert_eq!(code(&reply), expected, "{command}: {reply}");
            assert!(reply.contains_key("$clusterTime"), "{command}: {reply}");
        }
    }
    let reply = connect(&set, 0).await.run(doc! { "hello": 1, "helloOk": 1, "$db": "admin" }).await;
    assert!(reply.get_bool("helloOk").unwrap());
}
