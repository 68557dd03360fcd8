//! Backoff between attempts, with the clock paused and fixed jitter.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::time::Duration;

use bson::doc;

use self::common::{Clock, Recorder, Role, Server, Step};
use crate::{
    Client,
    event::{command::CommandEvent, retry::RetryEvent},
    options::ClientOptions,
};

const MS: Duration = Duration::from_millis(1);

/// Creates a server that rejects every insert as overloaded.
fn overloaded_server() -> Server {
    Server::with_handler(Role::Primary, |request| {
        let refused = doc! {
            "ok": 0, "code": 462, "codeName": "IngressRequestRateLimitExceeded",
            "errmsg": "rate exceeded", "errorLabels": ["SystemOverloadedError", "RetryableError"],
        };
        (request.name == "insert").then_some(vec![Step::Reply(refused)])
    })
}

#[tokio::test]
async fn backoff_is_100_200_400_800_and_1600_milliseconds_before_jitter() {
    let server = overloaded_server();
    let (commands, retries) = (Recorder::new(), Recorder::new());
    let mut options = ClientOptions::parse(server.uri("")).await.unwrap();
    options.command_event_handler = Some(commands.handler());
    options.retry_event_handler = Some(retries.handler());
    let client = Client::with_jitter(options, || 1.0).unwrap();
    let started = || {
        let started = |event: &CommandEvent| matches!(event, CommandEvent::Started(event) if event.command_name == "insert");
        commands.seen().iter().filter(|event| started(event)).count()
    };

    let clock = Clock::stopped();
    let books = client.database("db").collection::<bson::Document>("books");
    let insert = tokio::spawn(async move { books.insert_one(doc! {}).await });
    for (attempt, wait) in (1..).zip([100, 200, 400, 800, 1600].map(|millis| millis * MS)) {
        retries.wait_for(attempt, |_| true).await;
        match retries.seen().last() {
            Some(RetryEvent::Scheduled(event)) => assert_eq!(event.backoff, wait),
            other => panic!("{other:?}"),
        }
        assert_eq!(started(), attempt);
        clock.pass(wait - 2 * MS).await;
        assert_eq!(started(), attempt, "not before the wait of {wait:?} is over");
        clock.pass(MS).await;
        assert_eq!(started(), attempt + 1, "when the wait of {wait:?} is over");
    }
    let error = insert.await.unwrap().expect_err("the server sheds all load");
    let waits: Vec<_> = error.attempts().iter().map(|attempt| attempt.backoff).collect();
    assert_eq!(waits, [0, 100, 200, 400, 800, 1600].map(|millis| millis * MS));
    assert_eq!(client.metrics().backoff, 3100 * MS);
}

#[tokio::test]
async fn backoff_past_the_deadline_consumes_no_token() {
    // pitfall 32
    let server = overloaded_server();
    let options = ClientOptions::parse(server.uri("")).await.unwrap();
    let client = Client::with_jitter(options, || 1.0).unwrap();
    let books = client.database("db").collection::<bson::Document>("books");
    // The clock is paused, so that only the backoff can pass the deadline.
    let _clock = Clock::stopped();
    for timeout in [50, 100] {
        let insert = books.insert_one(doc! {}).timeout(timeout * MS);
        let error = insert.await.expect_err("the server sheds all load");
        assert_eq!((error.code(), error.is_timeout()), (Some(462), false), "{error:?}");
        assert_eq!(error.attempts().len(), 1, "{error:?}");
        assert_eq!(client.metrics().retry_tokens, 1000.0);
    }
}
