//! Backoff between the attempts of a convenient transaction, with the clock paused. No server takes
//! part: a transaction without operations sends nothing.

use std::{error::Error as _, time::Duration};

use tokio::time::Instant;

use crate::{
    Client, ClientSession, TransactionState,
    error::{Error, ErrorKind, TRANSIENT_TRANSACTION_ERROR},
    options::ClientOptions,
};

/// Resolution of tokio's clock.
const TICK: Duration = Duration::from_millis(1);

async fn session() -> ClientSession {
    let client = Client::with_options(ClientOptions::default()).unwrap();
    client.start_session().await.unwrap()
}

fn transient() -> Error {
    let mut error = Error::custom("again");
    error.add_label(TRANSIENT_TRANSACTION_ERROR);
    error
}

/// Returns the upper bound of the backoff after `runs` attempts, in milliseconds.
fn longest(runs: usize) -> f64 {
    (5.0 * 1.5_f64.powi(i32::try_from(runs).unwrap())).min(500.0)
}

#[tokio::test(start_paused = true)]
async fn backoff_is_jittered_and_grows_to_half_a_second() {
    let mut session = session().await;
    let mut times = Vec::new();
    let run = session.start_transaction().and_run2(async |_: &mut ClientSession| {
        times.push(Instant::now());
        if times.len() < 200 { Err(transient()) } else { Ok(times.len()) }
    });
    assert_eq!(run.await.unwrap(), 200);
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (index, wait) in waits.iter().enumerate() {
        let limit = Duration::from_secs_f64(longest(index + 1) / 1_000.0) + TICK;
        assert!(*wait <= limit, "wait {index} is {wait:?}, longer than {limit:?}");
    }
    // The backoff is uniformly distributed between zero and half a second.
    let late = &waits[20..];
    let long = Duration::from_millis(250);
    let count = late.iter().filter(|wait| **wait > long).count();
    assert!((30..150).contains(&count), "{count} of {} are long", late.len());
}

#[tokio::test(start_paused = true)]
async fn last_error_is_the_source_after_two_minutes() {
    let mut session = session().await;
    let began = Instant::now();
    let run = session
        .start_transaction()
        .and_run2(async |_: &mut ClientSession| Err::<(), _>(transient()));
    let error = run.await.unwrap_err();
    let took = began.elapsed();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.labels().contains(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    let source: &Error = error.source().and_then(|it| it.downcast_ref()).expect("a source");
    assert_eq!(source.get_custom(), Some(&"again"));
    assert_eq!(error.outcome(), source.outcome());
    let limit = Duration::from_secs(120);
    // A backoff that would end after the deadline does not begin.
    assert!(took <= limit + TICK && took > limit - Duration::from_secs(1), "{took:?}");
    assert_eq!(session.transaction_state(), TransactionState::Aborted);
}

#[tokio::test(start_paused = true)]
async fn callback_past_the_deadline_is_not_called_again() {
    let mut session = session().await;
    let mut runs = 0;
    let run = session.start_transaction().and_run2(async |_: &mut ClientSession| {
        runs += 1;
        tokio::time::sleep(Duration::from_secs(121)).await;
        Err::<(), _>(transient())
    });
    assert!(run.await.is_err());
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_not_retried() {
    let mut session = session().await;
    let began = Instant::now();
    let run = session
        .start_transaction()
        .and_run((), |_, ()| Box::pin(async { Err::<(), _>(Error::custom(1)) }));
    assert_eq!(run.await.unwrap_err().get_custom(), Some(&1));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn transaction_in_progress_is_kept() {
    let mut session = session().await;
    session.start_transaction().await.unwrap();
    let run = session.start_transaction().and_run2(async |_: &mut ClientSession| Ok(()));
    let error = run.await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Transaction { .. }), "{error:?}");
    assert_eq!(session.transaction_state(), TransactionState::Starting);
}

#[tokio::test]
async fn futures_are_send() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    let mut session = session().await;
    let run = session.start_transaction().and_run(1, |_, one| Box::pin(async { Ok(*one) }));
    assert_eq!(sendable(run).await.unwrap(), 1);
    sendable(session.start_transaction().into_future()).await.unwrap();
    sendable(session.commit_transaction().into_future()).await.unwrap();
}
