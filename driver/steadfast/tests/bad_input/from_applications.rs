//! Invalid input from applications: connection strings, hosts, names, sizes, times.

use std::time::Duration;

use steadfast::{
    Client,
    bson::{Document, doc},
    options::ClientOptions,
};

use super::{
    LIMITS, assert_message_contains,
    common::{Clock, Role, Server, Step, bounded},
    first_error, ping,
};

#[tokio::test]
async fn malformed_connection_strings_are_rejected_with_the_reason() {
    let cases = [
        ("", "mongodb://"),
        ("http://localhost", "mongodb://"),
        ("mongodb://", "host"),
        ("mongodb://a:b@c:d@localhost", "@"),
        ("mongodb://localhost:0", "port"),
        ("mongodb://localhost:65536", "port"),
        ("mongodb://localhost:port", "port"),
        ("mongodb://localhost/a%20b", "database name"),
        ("mongodb://localhost/?w", "name=value"),
        ("mongodb://localhost/?directConnection=true&loadBalanced=true", "cannot be combined"),
        ("mongodb://a,b/?directConnection=true", "directConnection"),
        ("mongodb://localhost/?authMechanism=MAGIC", "authentication mechanism"),
        ("mongodb+srv://one.example.org,two.example.org", "exactly one DNS name"),
        ("mongodb+srv://cluster.example.org:27017", "port"),
        ("mongodb://%ZZ@localhost", "%"),
        ("mongodb://localhost/?maxPoolSize=1&minPoolSize=2", "minPoolSize"),
    ];
    for (uri, cause) in cases {
        let error = Client::with_uri_str(uri).await.expect_err(uri);
        assert!(error.is_invalid_argument(), "{uri}: {error:?}");
        assert!(error.to_string().contains(cause), "{uri}: {cause:?} is missing in: {error}");
        assert!(!error.to_string().contains("a:b"), "a password is shown: {error}");
    }
}

#[tokio::test]
async fn error_names_a_host_that_does_not_exist() {
    // A label of 64 letters is invalid, so no DNS server is queried.
    let host = format!("{}.invalid", "n".repeat(64));
    let uri = format!("mongodb://{host}:27017/?{LIMITS}");
    let error = first_error(&uri, &Clock::stopped(), async {}).await;
    assert!(error.is_server_selection_error());
    assert_message_contains(
        &error,
        &["cannot resolve the host", &host, "serverSelectionTimeoutMS"],
    );
}

#[tokio::test]
async fn error_names_a_port_without_a_listener() {
    // The bound socket reserves the port.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = reserved.local_addr().unwrap().to_string();
    let uri = format!("mongodb://{address}/?{LIMITS}");
    let error = first_error(&uri, &Clock::stopped(), async {}).await;
    assert!(error.is_server_selection_error());
    assert_message_contains(
        &error,
        &["cannot connect to", "refused", &address, "serverSelectionTimeoutMS"],
    );
}

#[tokio::test]
async fn invalid_database_and_collection_names_are_never_sent() {
    // pitfall 41
    let server = Server::lenient(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    for name in ["", "a\0b", "\0", "a.b", "a/b", "a b", "$cmd", "a\"b"] {
        let database = client.database(name);
        let people = database.collection::<Document>("people");
        for error in [
            bounded(database.run_command(doc! { "ping": 1 })).await.expect_err(name),
            bounded(database.drop()).await.expect_err(name),
            bounded(database.list_collection_names()).await.expect_err(name),
            bounded(people.insert_one(doc! { "a": 1 })).await.expect_err(name),
            bounded(people.find_one(doc! {})).await.expect_err(name),
        ] {
            assert!(error.is_invalid_argument(), "{name:?}: {error:?}");
        }
    }
    for name in ["", "a\0b", "\0"] {
        let people = client.database("db").collection::<Document>(name);
        for error in [
            bounded(people.insert_one(doc! { "a": 1 })).await.expect_err(name),
            bounded(people.insert_many([doc! { "a": 1 }])).await.map(drop).expect_err(name),
            bounded(people.find(doc! {})).await.map(drop).expect_err(name),
            bounded(people.aggregate([])).await.map(drop).expect_err(name),
            bounded(people.update_one(doc! {}, doc! { "$set": { "a": 1 } })).await.expect_err(name),
            bounded(people.delete_many(doc! {})).await.expect_err(name),
            bounded(people.find_one_and_delete(doc! {})).await.map(drop).expect_err(name),
            bounded(people.distinct("a", doc! {})).await.map(drop).expect_err(name),
            bounded(people.count_documents(doc! {})).await.map(drop).expect_err(name),
            bounded(people.drop()).await.expect_err(name),
        ] {
            assert!(error.is_invalid_argument(), "{name:?}: {error:?}");
        }
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test]
async fn keys_with_a_nul_are_never_sent() {
    // pitfall 41
    let server = Server::lenient(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let database = client.database("db");
    let people = database.collection::<Document>("people");
    let bad = || doc! { "good": { "ba\0d": 1 } };
    for error in [
        bounded(people.insert_one(bad())).await.expect_err("insert_one"),
        bounded(people.insert_many([bad()])).await.expect_err("insert_many"),
        bounded(people.find(bad())).await.map(drop).expect_err("find"),
        bounded(people.update_one(doc! {}, doc! { "$set": bad() })).await.expect_err("update"),
        bounded(people.replace_one(doc! {}, bad())).await.expect_err("replace"),
        bounded(people.delete_one(bad())).await.expect_err("delete"),
        bounded(people.aggregate([doc! { "$match": bad() }])).await.map(drop).expect_err("agg"),
        bounded(database.run_command(doc! { "pi\0ng": 1 })).await.expect_err("run_command"),
    ] {
        let text = error.to_string().to_lowercase();
        assert!(text.contains("nul") || text.contains("\\0"), "{error:?}");
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test]
async fn too_large_documents_and_messages_are_rejected_before_sending() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let limits = doc! { "maxBsonObjectSize": 1000, "maxMessageSizeBytes": 5000 };
        request.is_hello().then(|| vec![Step::Hello(limits)])
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let database = client.database("db");
    let people = database.collection::<Document>("people");
    let large = |size| doc! { "text": "x".repeat(size) };
    let error = bounded(people.insert_many([doc! {}, large(2000)])).await.expect_err("a document");
    assert!(error.is_invalid_argument(), "{error:?}");
    assert_message_contains(&error, &["document 1", "bytes long", "1000"]);
    let command = doc! { "ping": 1, "text": "x".repeat(6000) };
    for error in [
        bounded(people.insert_one(large(6000))).await.expect_err("insert_one"),
        bounded(people.find_one(large(6000))).await.expect_err("find_one"),
        bounded(database.run_command(command)).await.expect_err("run_command"),
    ] {
        assert!(error.is_invalid_argument(), "{error:?}");
        assert_message_contains(&error, &["the message is", "bytes long", "5000"]);
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
    // The connection remains usable.
    ping(&client).await.unwrap();
    assert_eq!(server.log().opened, 2, "one of the monitor, one of operations");
}

#[tokio::test]
async fn huge_timeouts_do_not_overflow() {
    let server = Server::lenient(Role::Standalone);
    let mut options = ClientOptions::parse(server.uri("")).await.unwrap();
    options.server_selection_timeout = Some(Duration::MAX);
    options.connect_timeout = Some(Duration::MAX);
    options.socket_timeout = Some(Duration::MAX);
    options.heartbeat_freq = Some(Duration::MAX);
    options.max_idle_time = Some(Duration::MAX);
    options.wait_queue_timeout = Some(Duration::MAX);
    options.local_threshold = Some(Duration::MAX);
    let client = Client::with_options(options).unwrap();
    ping(&client).await.unwrap();
    ping(&client).await.unwrap();
}
