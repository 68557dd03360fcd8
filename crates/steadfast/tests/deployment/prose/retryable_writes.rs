//! The prose tests of retryable writes.
//!
//! Left out: 1, MMAPv1 is gone from all servers that are supported; 4 and 5, they need routers
//! (servers that are played take their place in the tests of retrying, for 1 too); 6, it is of
//! backing off from overloaded servers, which is still to come.

use steadfast::event::EventHandler;

use super::*;

#[tokio::test]
async fn prose_2_a_write_is_tried_again_when_the_pool_is_cleared_while_it_waits() {
    let app_name = "retryable writes, prose 2";
    let watched = Watched::new(app_name, |options| {
        options.max_pool_size = Some(1);
        options.retry_writes = Some(true);
    })
    .await;
    let data = doc! {
        "failCommands": ["insert"], "errorCode": 91, "blockConnection": true, "blockTimeMS": 1_000,
        "errorLabels": ["RetryableWriteError"],
    };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let numbers = watched.collection("writes_prose_2");
    let insert = || numbers.insert_one(doc! {}).into_future();
    check_cleared_pool(&watched, "insert", async { tokio::join!(insert(), insert()).into() }).await;
}

#[tokio::test]
async fn prose_3_a_write_concern_error_is_not_hidden_by_a_retry_that_wrote_nothing() {
    let app_name = "retryable writes, prose 3";
    let data = doc! {
        "failCommands": ["insert"], "errorLabels": ["RetryableWriteError"],
        "writeConcernError": { "code": 91 },
    };
    let point = FailPoint::on_primary(1, data, app_name).await;
    let (commands, on) = (Recorder::new(), point.members.clone());
    let heard = commands.handler();
    let watched = Watched::new(app_name, move |options| {
        options.retry_writes = Some(true);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if is_told_of_shutdown(&event) {
                let data = doc! {
                    "failCommands": ["insert"], "errorCode": 10107,
                    "errorLabels": ["RetryableWriteError", "NoWritesPerformed"],
                };
                fail(&on, app_name, 1, data);
            }
            let EventHandler::Callback(heard) = &heard else { unreachable!() };
            heard(event);
        }));
    })
    .await;
    let numbers = watched.collection("writes_prose_3");
    let error = bounded(numbers.insert_one(doc! {})).await.unwrap_err();
    assert_eq!(error.code(), Some(91), "{error:?}");
    assert!(!error.outcome().is_certainly_not_applied(), "{error:?}");
    let seen = commands.seen();
    let failed = |event: &&CommandEvent| matches!(event, CommandEvent::Failed(it) if it.failure.code() == Some(10107));
    assert_eq!(seen.iter().filter(failed).count(), 1, "the retry was made: {seen:?}");
}

/// Whether an insert was applied by a server that shuts down.
fn is_told_of_shutdown(event: &CommandEvent) -> bool {
    let CommandEvent::Succeeded(event) = event else { return false };
    let code =
        event.reply.get_document("writeConcernError").and_then(|error| error.get_i32("code"));
    event.command_name == "insert" && matches!(code, Ok(91))
}
