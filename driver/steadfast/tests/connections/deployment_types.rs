//! Server types, and connections to them: direct, through mongos, through a Unix domain socket.

use steadfast::event::sdam::SdamEvent;

use super::*;

#[tokio::test]
async fn standalone_primary_and_mongos_execute_commands() {
    for role in [Role::Standalone, Role::Primary, Role::Mongos] {
        let server = Server::lenient(role);
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        run(&client, "ping").await.unwrap_or_else(|error| panic!("{role:?}: {error}"));
        let log = server.log();
        let hello = &log.requests[0];
        assert!(hello.legacy && hello.body.get_bool("helloOk").unwrap(), "{hello:?}");
        assert!(hello.body.get_bool("backpressure").unwrap(), "{hello:?}");
        assert!(hello.body.get_document("client").is_ok(), "{hello:?}");
    }
}

#[tokio::test]
async fn a_direct_connection_uses_a_server_of_any_type() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let secondary = doc! {
            "ismaster": false, "isWritablePrimary": false, "secondary": true,
            "setName": "set", "hosts": ["elsewhere.invalid:1"], "me": "elsewhere.invalid:1",
        };
        request.is_hello().then(|| vec![Step::Hello(secondary)])
    });
    let client = Client::with_uri_str(server.uri("directConnection=true")).await.unwrap();
    run(&client, "ping").await.unwrap();
    let log = server.log();
    let ping = log.named("ping")[0];
    // The read preference allows a secondary to execute the command.
    let preference = ping.body.get_document("$readPreference").expect("a read preference");
    assert_eq!(preference.get_str("mode").unwrap(), "primaryPreferred");
}

/// Error of an operation whose server selection time-out expires after the first heartbeat.
async fn error_once_known(uri: &str, clock: &Clock, limit: Duration) -> Error {
    let heartbeats = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.sdam_event_handler = Some(heartbeats.handler());
    let ping = start(&Client::with_options(options).unwrap(), "ping");
    let answered = |event: &SdamEvent| matches!(event, SdamEvent::ServerHeartbeatSucceeded(_));
    heartbeats.wait_for(1, answered).await;
    clock.pass(limit).await;
    ping.await.unwrap().unwrap_err()
}

#[tokio::test]
async fn error_for_a_wrong_set_name_shows_both_names() {
    let server = Server::lenient(Role::Primary);
    let uri = server.uri("replicaSet=set&directConnection=true");
    run(&Client::with_uri_str(uri).await.unwrap(), "ping").await.unwrap();

    let clock = Clock::stopped();
    let limit = Duration::from_millis(300);
    let uri = server.uri("replicaSet=other&directConnection=true&serverSelectionTimeoutMS=300");
    let error = error_once_known(&uri, &clock, limit).await;
    assert_message_contains(&error, &["\"set\"", "\"other\"", &server.address()]);

    let uri = server.uri("replicaSet=other&serverSelectionTimeoutMS=300");
    let error = error_once_known(&uri, &clock, limit).await;
    assert_message_contains(&error, &["replica set \"other\""]);
}

#[tokio::test]
async fn a_unix_domain_socket_executes_commands() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let path = server.unix_socket().expect("a socket").display().to_string();
    let uri = format!("mongodb://{}/", path.replace('/', "%2F"));
    let client = Client::with_uri_str(uri).await.unwrap();
    let people = client.database("unix").collection::<Document>("people");
    bounded(people.insert_one(doc! { "_id": 1 })).await.unwrap();
    let found = bounded(people.find_one(doc! {})).await.unwrap();
    assert_eq!(found, Some(doc! { "_id": 1 }));

    let error =
        Client::with_uri_str("mongodb://%2Fno%2Fsuch%2Fmongodb.sock/?serverSelectionTimeoutMS=300");
    let error = run(&error.await.unwrap(), "ping").await.unwrap_err();
    assert_message_contains(&error, &["/no/such/mongodb.sock"]);
}
