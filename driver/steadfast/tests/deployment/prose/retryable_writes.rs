//! Prose tests of retryable writes.
//!
//! 4 and 5 require mongos and are in `mongos`. 1 requires the storage engine MMAPv1, which no supported server has.
//! A standalone server sends the same reply, which a proxy relays here.

use testbed::{Version, shared};

use super::*;
use crate::common::{Role, Server, Step};

/// Returns the reply of a real standalone server to an insert with a transaction number.
async fn reply_of_a_standalone(version: Version) -> Document {
    let uri = shared::standalone_of(version).expect("a standalone server").uri();
    let client = Client::with_uri_str(uri).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    let command =
        doc! { "insert": "writes_prose_1", "documents": [{ "_id": 1 }], "txnNumber": 1_i64 };
    let insert = client.database("prose").run_command(command).session(&mut session).await;
    let error = insert.unwrap_err();
    assert!(
        !error.to_string().contains("retryWrites"),
        "run_command is not a retryable write: {error}"
    );
    Document::try_from(&**error.server_response().expect("a reply")).unwrap()
}

#[tokio::test]
async fn prose_1_the_error_of_a_server_without_transaction_numbers_is_explained() {
    for version in Version::ALL {
        let Some(()) = testbed::found_or_skip(testbed::servers(version)) else { continue };
        let reply = reply_of_a_standalone(version).await;
        assert_eq!(reply.get_i32("code").unwrap(), 20, "{reply}");
        let message = reply.get_str("errmsg").unwrap().to_owned();
        assert!(message.starts_with("Transaction numbers"), "{message}");
        let relay = Server::with_handler(Role::Primary, move |request| {
            (request.name == "insert").then(|| vec![Step::Reply(reply.clone())])
        });
        let client = Client::with_uri_str(relay.uri("retryWrites=true")).await.unwrap();
        let numbers = client.database("prose").collection::<Document>("writes_prose_1");
        let error = bounded(numbers.insert_one(doc! { "_id": 1 })).await.unwrap_err();
        let explanation = "This MongoDB deployment does not support retryable writes. \
                           Please add retryWrites=false to your connection string.";
        assert!(error.to_string().contains(explanation), "{version}: {error}");
        assert!(!error.to_string().contains(&message), "{version}: {error}");
        assert_eq!(error.code(), Some(20), "{version}: {error:?}");
        assert_eq!(relay.log().named("insert").len(), 1, "{version}: it is not retried");
    }
}

#[tokio::test]
async fn prose_1_no_txn_number_is_sent_to_a_standalone_server() {
    for version in Version::ALL {
        let Some(()) = testbed::found_or_skip(testbed::servers(version)) else { continue };
        let uri = shared::standalone_of(version).expect("a standalone server").uri();
        let uri = format!("{uri}&retryWrites=true");
        let observed = ProseClient::at(&uri, "retryable writes, prose 1", |_| ()).await;
        bounded(observed.collection("writes_prose_1").insert_one(doc! {})).await.unwrap();
        let seen = observed.commands.seen();
        let numbered = |event: &&CommandEvent| matches!(event, CommandEvent::Started(it) if it.command.contains_key("txnNumber"));
        assert_eq!(
            (observed.started("insert"), seen.iter().filter(numbered).count()),
            (1, 0),
            "{version}"
        );
    }
}

#[tokio::test]
async fn prose_2_a_write_is_retried_when_the_pool_is_cleared_during_checkout() {
    testbed::require!(V6_0);
    let app_name = "retryable writes, prose 2";
    let observed = ProseClient::new(app_name, |options| {
        options.max_pool_size = Some(1);
        options.retry_writes = Some(true);
    })
    .await;
    let data = doc! {
        "failCommands": ["insert"], "errorCode": 91, "blockConnection": true, "blockTimeMS": 1_000,
        "errorLabels": ["RetryableWriteError"],
    };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let numbers = observed.collection("writes_prose_2");
    let insert = || numbers.insert_one(doc! {}).into_future();
    check_cleared_pool(&observed, "insert", async { tokio::join!(insert(), insert()).into() })
        .await;
}

#[tokio::test]
async fn prose_3_a_write_concern_error_is_not_hidden_by_a_retry_that_wrote_nothing() {
    testbed::require!(V6_0);
    let app_name = "retryable writes, prose 3";
    let data = doc! {
        "failCommands": ["insert"], "errorLabels": ["RetryableWriteError"],
        "writeConcernError": { "code": 91 },
    };
    let point = FailPoint::on_primary(1, data, app_name).await;
    let (commands, on) = (Recorder::new(), point.members.clone());
    let heard = commands.handler();
    let observed = ProseClient::new(app_name, move |options| {
        options.retry_writes = Some(true);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if has_shutdown_write_concern_error(&event) {
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
    let numbers = observed.collection("writes_prose_3");
    let error = bounded(numbers.insert_one(doc! {})).await.unwrap_err();
    assert_eq!(error.code(), Some(91), "{error:?}");
    assert!(!error.outcome().is_certainly_not_applied(), "{error:?}");
    let seen = commands.seen();
    let failed = |event: &&CommandEvent| matches!(event, CommandEvent::Failed(it) if it.failure.code() == Some(10107));
    assert_eq!(seen.iter().filter(failed).count(), 1, "the retry was made: {seen:?}");
}

/// Returns `true` for an insert with a write concern error of a shutdown.
fn has_shutdown_write_concern_error(event: &CommandEvent) -> bool {
    let CommandEvent::Succeeded(event) = event else { return false };
    let code =
        event.reply.get_document("writeConcernError").and_then(|error| error.get_i32("code"));
    event.command_name == "insert" && matches!(code, Ok(91))
}

/// Returns the error of an insert into an overloaded deployment: the first attempt fails with code 91, the others
/// with this code and these labels in addition to those of overload.
async fn error_of_first_and_later_attempts(
    app_name: &'static str,
    first: &[&str],
    (code, others): (i32, &[&str]),
) -> Error {
    let data = |code: i32, more: &[&str]| {
        let labels = [&["RetryableError", "SystemOverloadedError"], more].concat();
        doc! { "failCommands": ["insert"], "errorCode": code, "errorLabels": labels }
    };
    let point = FailPoint::on_primary(1, data(91, first), app_name).await;
    let observed = with_two_fail_points(&point, "insert", data(code, others), |options| {
        options.max_adaptive_retries = Some(2);
    })
    .await;
    let numbers = observed.collection("writes_prose_6");
    let error = bounded(numbers.insert_one(doc! {})).await.unwrap_err();
    assert_eq!(observed.started("insert"), 3, "{error:?}");
    error
}

#[tokio::test]
async fn prose_6_1_the_last_error_is_raised_if_none_has_no_writes_performed() {
    testbed::require!(V6_0);
    let error =
        error_of_first_and_later_attempts("retryable writes, prose 6.1", &[], (10107, &[])).await;
    assert_eq!(error.code(), Some(10107), "{error:?}");
}

#[tokio::test]
async fn prose_6_2_the_first_error_is_raised_if_all_have_no_writes_performed() {
    testbed::require!(V6_0);
    let nothing: &[&str] = &["NoWritesPerformed"];
    let error =
        error_of_first_and_later_attempts("retryable writes, prose 6.2", nothing, (10107, nothing))
            .await;
    assert_eq!(error.code(), Some(91), "{error:?}");
}

#[tokio::test]
async fn prose_6_3_the_error_without_no_writes_performed_is_raised() {
    testbed::require!(V6_0);
    let nothing: &[&str] = &["NoWritesPerformed"];
    let error =
        error_of_first_and_later_attempts("retryable writes, prose 6.3", &[], (91, nothing)).await;
    assert_eq!(error.code(), Some(91), "{error:?}");
    assert!(!error.contains_label("NoWritesPerformed"), "{error:?}");
}
