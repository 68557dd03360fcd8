//! Command events: each started event has one succeeded or failed event, and secrets are redacted.

use super::*;

#[tokio::test]
async fn a_dropped_command_has_a_failed_event() {
    // pitfall 38
    let (server, gate) = slow_server(Role::Standalone);
    let (client, events) = client_with_commands(&server.uri("")).await;
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    slow.abort();
    assert!(slow.await.unwrap_err().is_cancelled());
    let [CommandEvent::Started(started), CommandEvent::Failed(failed)] = &events.seen()[..] else {
        panic!("one started, one failed: {:?}", events.seen());
    };
    assert_eq!(started.request_id, failed.request_id);
    assert_eq!(started.operation_id, failed.operation_id);
    assert_message_contains(&failed.failure, &["dropped", &server.address()]);
    gate.open();
}

#[tokio::test]
async fn every_started_event_has_one_succeeded_or_failed_event() {
    // pitfall 38
    let server = Server::with_handler(Role::Standalone, |request| match request.name.as_str() {
        "hangUp" => Some(vec![Step::HangUp]),
        "garbage" => Some(vec![Step::RawBytes(vec![0xff; 32])]),
        "refused" => Some(vec![Step::Reply(doc! { "ok": 0, "code": 2, "errmsg": "no" })]),
        "silent" => Some(Vec::new()),
        _ => None,
    });
    let (client, events) = client_with_commands(&server.uri("")).await;
    for name in ["ping", "hangUp", "garbage", "refused"] {
        assert_eq!(run(&client, name).await.is_ok(), name == "ping", "{name}");
    }
    assert_eq!(ends(&events), 4);
    let (impatient, events) = client_with_commands(&server.uri("socketTimeoutMS=300")).await;
    run(&impatient, "silent").await.unwrap_err();
    assert_eq!(ends(&events), 1);
}

/// Returns the number of commands that have ended. Checks that each has exactly one started event.
#[track_caller]
fn ends(events: &Recorder<CommandEvent>) -> usize {
    let mut open = BTreeSet::new();
    let mut ended = 0;
    for event in events.seen() {
        match event {
            CommandEvent::Started(event) => assert!(open.insert(event.request_id)),
            CommandEvent::Succeeded(event) => {
                assert!(open.remove(&event.request_id));
                ended += 1;
            }
            CommandEvent::Failed(event) => {
                assert!(open.remove(&event.request_id));
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    ended
}

#[tokio::test]
async fn events_of_auth_commands_are_redacted() {
    // pitfall 40
    let server = Server::with_handler(Role::Standalone, |request| match request.name.as_str() {
        "updateUser" => {
            let leak = doc! { "ok": 0, "code": 2, "errmsg": "bad pwd hunter2", "pwd": "hunter2" };
            Some(vec![Step::Reply(leak)])
        }
        _ if request.is_hello() => None,
        _ => Some(vec![Step::Reply(doc! { "ok": 1, "payload": "hunter2" })]),
    });
    let (client, events) = client_with_commands(&server.uri("")).await;
    let secrets = [
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    ];
    let admin = client.database("admin");
    for name in secrets {
        let _ = bounded(admin.run_command(doc! { name: 1, "pwd": "hunter2" })).await;
    }
    let hello = doc! { "hello": 1, "speculativeAuthenticate": { "payload": "hunter2" } };
    let _ = bounded(admin.run_command(hello)).await;
    assert_eq!(events.seen().len(), 2 * (secrets.len() + 1));
    for event in events.seen() {
        match &event {
            CommandEvent::Started(event) => assert!(event.command.is_empty(), "{event:?}"),
            CommandEvent::Succeeded(event) => assert!(event.reply.is_empty(), "{event:?}"),
            CommandEvent::Failed(event) => {
                assert_eq!(event.command_name, "updateUser");
                assert_eq!(event.failure.code(), Some(2), "the code may be shown");
            }
            other => panic!("{other:?}"),
        }
        assert!(!format!("{event:?}").contains("hunter2"), "{event:?}");
    }
}

#[tokio::test]
async fn a_handler_that_panicked_receives_later_events() {
    let server = Server::lenient(Role::Standalone);
    let recorder = Recorder::<CmapEvent>::new();
    let record = recorder.handler();
    let mut options = ClientOptions::parse(server.uri("")).await.unwrap();
    options.cmap_event_handler = Some(steadfast::event::EventHandler::callback(move |event| {
        let steadfast::event::EventHandler::Callback(record) = &record else { unreachable!() };
        let panics = is_checkout_started(&event);
        record(event);
        assert!(!panics, "a handler of the application's own panics");
    }));
    let client = Client::with_options(options).unwrap();
    let panicked = start(&client, "ping").await;
    assert!(panicked.is_err(), "the panic is the application's");
    let again = start(&client, "ping").await;
    assert!(again.is_err());
    assert_eq!(recorder.seen().iter().filter(|event| is_checkout_started(event)).count(), 2);
}
