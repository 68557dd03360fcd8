//! Commands rejected by an overloaded server: retries, backoff and tokens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Request, Server, Step};
use steadfast::{
    ClientMetrics,
    error::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR},
    event::retry::RetryEvent,
};

use super::*;

/// `IngressRequestRateLimitExceeded`.
const RATE_LIMIT_EXCEEDED: i32 = 462;
const OVERLOADED: &[&str] = &["SystemOverloadedError", "RetryableError"];
const REJECTED: Fault = Fault::CommandError(RATE_LIMIT_EXCEEDED, OVERLOADED);

/// `RateLimitExceeded`, as MongoDB 8.2.0 rejects requests: without the label `RetryableError`.
const REJECTED_BY_8_2: Fault = Fault::CommandError(449, &["SystemOverloadedError"]);

fn all_operations() -> Vec<Operation> {
    retryable_writes().into_iter().chain(other_writes()).chain(reads()).collect()
}

#[tokio::test]
async fn every_operation_is_retried_after_overload_errors_and_applied_once() {
    with_each(all_operations(), |operation| async move {
        let faults = [REJECTED, REJECTED];
        let (deployment, observed, result) = run_with(&operation, "", &faults).await;
        result.unwrap_or_else(|error| panic!("{}: {error}", operation.name));
        let numbers = observed.numbers(operation.command);
        assert!(numbers.len() >= 3, "{}: {numbers:?}", operation.name);
        assert!(numbers[..3].iter().all(|number| *number == numbers[0]), "{}", operation.name);
        let applied = deployment.applied();
        assert!(applied.values().all(|times| *times == 1), "{}: {applied:?}", operation.name);
        let metrics = observed.client.metrics();
        assert_eq!((metrics.overload_errors, metrics.overload_retries), (2, 2));
    })
    .await;
}

#[tokio::test]
async fn overload_errors_are_retried_five_times_and_keep_their_labels() {
    with_each(all_operations(), |operation| async move {
        let (deployment, observed, result) = run_with(&operation, "", &[REJECTED; 6]).await;
        let error = result.expect_err(operation.name);
        assert_eq!(error.code(), Some(RATE_LIMIT_EXCEEDED), "{}: {error:?}", operation.name);
        assert!(error.contains_label(SYSTEM_OVERLOADED_ERROR), "{}: {error:?}", operation.name);
        assert!(error.contains_label(RETRYABLE_ERROR), "{}: {error:?}", operation.name);
        assert_eq!(error.outcome(), Outcome::NotApplied, "{}: {error:?}", operation.name);
        assert_eq!(observed.started(operation.command).len(), 6, "{}", operation.name);
        assert_eq!(
            (error.attempts().len(), deployment.faults_left()),
            (6, 0),
            "{}",
            operation.name
        );
        assert!(deployment.applied().is_empty(), "{}", operation.name);
        for (attempt, limit) in error.attempts().iter().zip([0, 100, 200, 400, 800, 1600]) {
            assert!(
                attempt.backoff <= Duration::from_millis(limit),
                "{}: {attempt:?}",
                operation.name
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_rejection_without_retryable_error_is_raised_at_once_and_retryable_writes_are_not_applied()
 {
    let rejected = |operations: Vec<Operation>, outcome: Outcome| {
        with_each(operations, move |operation| async move {
            let (deployment, observed, result) = run_with(&operation, "", &[REJECTED_BY_8_2]).await;
            let error = result.expect_err(operation.name);
            assert_eq!(error.code(), Some(449), "{}: {error:?}", operation.name);
            assert!(error.contains_label(SYSTEM_OVERLOADED_ERROR), "{}: {error:?}", operation.name);
            assert_eq!(error.outcome(), outcome, "{}: {error:?}", operation.name);
            assert_eq!(observed.started(operation.command).len(), 1, "{}", operation.name);
            assert!(deployment.applied().is_empty(), "{}", operation.name);
            let metrics = observed.client.metrics();
            let counted = (metrics.overload_errors, metrics.retries, metrics.retry_tokens);
            assert_eq!(counted, (1, 0, 1000.0), "{}", operation.name);
        })
    };
    rejected(retryable_writes(), Outcome::NotApplied).await;
    rejected(reads(), Outcome::NotApplied).await;
    // Commands such as `aggregate` with `$merge` may write before a part of them is rejected.
    rejected(other_writes(), Outcome::MaybeApplied).await;
}

#[tokio::test]
async fn a_rejected_retry_does_not_settle_the_outcome_of_the_first_attempt() {
    for (first, applied) in [(Fault::LostReply, 1), (Fault::LostRequest, 0)] {
        let faults = [first, REJECTED_BY_8_2];
        let (deployment, observed, result) = run_with(&write("insert_one"), "", &faults).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (Some(449), Outcome::MaybeApplied),
            "{error:?}"
        );
        assert_eq!(observed.started("insert").len(), 2, "the single ordinary retry");
        assert_eq!(deployment.applied().values().sum::<u32>(), applied);
    }
}

#[tokio::test]
async fn overload_errors_are_not_retried_if_retries_are_disabled() {
    // pitfall 31
    let unless = |options: &'static str, operations: Vec<Operation>| {
        with_each(operations, move |operation| async move {
            let (_, observed, result) = run_with(&operation, options, &[REJECTED]).await;
            result.expect_err(operation.name);
            assert_eq!(observed.started(operation.command).len(), 1, "{}", operation.name);
            let metrics = observed.client.metrics();
            assert_eq!((metrics.overload_errors, metrics.retries), (1, 0), "{}", operation.name);
        })
    };
    unless("retryReads=false", reads()).await;
    unless("retryWrites=false", retryable_writes()).await;
    unless("retryWrites=false", other_writes()).await;
    let own_command = || other_writes().into_iter().filter(|it| it.name == "run_command").collect();
    unless("retryReads=false", own_command()).await;
    unless("maxAdaptiveRetries=0", all_operations()).await;
}

#[tokio::test]
async fn max_adaptive_retries_limits_the_retries() {
    for (options, attempts) in [("maxAdaptiveRetries=2", 3), ("maxAdaptiveRetries=1", 2)] {
        let (_, observed, result) = run_with(&write("insert_one"), options, &[REJECTED; 9]).await;
        result.expect_err(options);
        assert_eq!(observed.started("insert").len(), attempts, "{options}");
    }
}

#[tokio::test]
async fn a_mix_of_errors_respects_both_retry_limits() {
    // pitfall 33
    let other = Fault::CommandError(HOST_UNREACHABLE, RETRYABLE);
    for (faults, attempts) in [
        // The single ordinary retry has been used.
        (vec![other, REJECTED, other, REJECTED], 3),
        (vec![REJECTED, other, REJECTED, REJECTED, REJECTED, REJECTED, REJECTED], 6),
        (vec![other, REJECTED, REJECTED, REJECTED, REJECTED, REJECTED, REJECTED], 6),
    ] {
        let (_, observed, result) = run_with(&write("insert_one"), "", &faults).await;
        let error = result.expect_err("there are faults left");
        assert_eq!(observed.started("insert").len(), attempts, "{faults:?}: {error:?}");
        // Only overload errors are followed by backoff.
        let waited = error.attempts().iter().map(|attempt| attempt.backoff > Duration::ZERO);
        let expected: Vec<_> = [false]
            .into_iter()
            .chain(faults.iter().map(|it| *it == REJECTED))
            .take(attempts)
            .collect();
        assert_eq!(waited.collect::<Vec<_>>(), expected, "{faults:?}");
    }
}

/// Server that rejects all commands while the switch is set, with a short `baseBackoffMS`.
fn shedding_server(switch: &Arc<AtomicBool>) -> Server {
    let switch = Arc::clone(switch);
    Server::with_handler(Role::Primary, move |request| {
        let rejected = doc! {
            "ok": 0, "code": RATE_LIMIT_EXCEEDED, "errmsg": "rate exceeded",
            "errorLabels": OVERLOADED.to_vec(), "baseBackoffMS": 1,
        };
        let reply = if switch.load(Ordering::SeqCst) {
            rejected
        } else {
            doc! { "ok": 1, "n": 1 }
        };
        (request.name == "insert").then_some(vec![Step::Reply(reply)])
    })
}

async fn insert_from_tasks(books: &BookCollection, tasks: usize, each: usize) -> usize {
    let inserts = (0..tasks).map(|_| {
        let books = books.clone();
        tokio::spawn(async move {
            let mut attempts = 0;
            for _ in 0..each {
                if let Err(error) = books.insert_one(doc! {}).await {
                    attempts += error.attempts().len();
                }
            }
            attempts
        })
    });
    let mut attempts = 0;
    for insert in inserts.collect::<Vec<_>>() {
        attempts += insert.await.unwrap();
    }
    attempts
}

#[tokio::test]
async fn an_empty_token_bucket_stops_retries_until_commands_succeed() {
    let overloaded = Arc::new(AtomicBool::new(true));
    let server = shedding_server(&overloaded);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books: BookCollection = client.database("db").collection("books");
    let sent = || server.log().named("insert").len();

    // 64 tasks with 5 inserts and up to 5 retries each: more retries than tokens.
    let attempts = bounded(insert_from_tasks(&books, 64, 5)).await;
    let metrics = client.metrics();
    assert_eq!((attempts, sent()), (64 * 5 + 1000, 64 * 5 + 1000), "each token bought a retry");
    assert_eq!((metrics.retry_tokens, metrics.overload_retries), (0.0, 1000));
    assert!(metrics.retries_denied > 0, "{metrics:?}");

    let error = books.insert_one(doc! {}).await.unwrap_err();
    assert_eq!(error.attempts().len(), 1);

    // Ten successful commands add one token.
    overloaded.store(false, Ordering::SeqCst);
    for _ in 0..10 {
        books.insert_one(doc! {}).await.unwrap();
    }
    assert_eq!(client.metrics().retry_tokens, 1.0);
    overloaded.store(true, Ordering::SeqCst);
    let error = books.insert_one(doc! {}).await.unwrap_err();
    assert_eq!((error.attempts().len(), client.metrics().retry_tokens), (2, 0.0));
}

#[tokio::test]
async fn dropped_futures_return_their_tokens() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    for round in 0..20 {
        deployment.inject(&[REJECTED]);
        let books = observed.books.clone();
        let insert = tokio::spawn(async move { books.insert_one(doc! { "_id": 1 }).await });
        // The insert was rejected and is in backoff or about to be; or it has ended, if the backoff was short.
        deployment.server().wait_for(|log| log.named("insert").len() > round).await;
        insert.abort();
        let _ = insert.await;
        while deployment.faults_left() > 0 {
            let _ = observed.run(&write("insert_one")).await;
        }
    }
    let ClientMetrics { retry_tokens, .. } = observed.client.metrics();
    assert_eq!(retry_tokens, 1000.0);
}

#[tokio::test]
async fn scheduled_and_given_up_retries_are_events() {
    let overloaded = Arc::new(AtomicBool::new(true));
    let server = shedding_server(&overloaded);
    let retries = Recorder::new();
    let mut options = ClientOptions::parse(server.uri("maxAdaptiveRetries=2")).await.unwrap();
    options.retry_event_handler = Some(retries.handler());
    let client = Client::with_options(options).unwrap();
    let books: BookCollection = client.database("db").collection("books");
    books.insert_one(doc! {}).await.unwrap_err();
    let seen = retries.seen();
    let [RetryEvent::Scheduled(first), RetryEvent::Scheduled(second), RetryEvent::GivenUp(last)] =
        &seen[..]
    else {
        panic!("{seen:?}")
    };
    assert_eq!((first.failed_attempts, second.failed_attempts, last.failed_attempts), (1, 2, 3));
    assert_eq!((first.tokens_left, second.tokens_left, last.tokens_left), (999.0, 998.0, 998.0));
    assert!(first.overloaded && first.reason.contains("rate exceeded"), "{first:?}");
    assert_eq!(first.server.as_ref().map(ToString::to_string), Some(server.address()));
    assert!(!last.budget_exhausted, "{last:?}");
    assert_eq!((first.operation_id, &*first.command_name), (last.operation_id, "insert"));
}

/// Runs reads on a replica set with two eligible members, where the first attempt of each read fails. Returns the
/// number of attempts of each read that were sent to the first member.
async fn attempts_at_first_member(
    code: i32,
    labels: &'static [&'static str],
    options: &str,
) -> Vec<usize> {
    let finds = AtomicUsize::new(0);
    let handler = move |request: &Request| {
        let is_first =
            request.name == "find" && finds.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        let rejected = doc! {
            "ok": 0, "code": code, "errmsg": "no", "errorLabels": labels.to_vec(), "baseBackoffMS": 1,
        };
        is_first.then(|| vec![Step::Reply(rejected)])
    };
    let set = Server::builder().handler(handler).replica_set(2);
    let options = format!("readPreference=nearest&localThresholdMS=60000&{options}");
    let client = Client::with_uri_str(set.uri(&options)).await.unwrap();
    let books: BookCollection = client.database("db").collection("books");
    let received = |member: usize| set.member(member).log().named("find").len();
    // Waits until the client has discovered both members.
    bounded(async {
        while received(0) == 0 || received(1) == 0 {
            books.find_one(doc! {}).await.unwrap();
        }
    })
    .await;
    let mut attempts = Vec::new();
    for _ in 0..40 {
        let before = (received(0), received(1));
        bounded(books.find_one(doc! {})).await.unwrap();
        let (first, second) = (received(0) - before.0, received(1) - before.1);
        assert_eq!(first + second, 2, "one retry");
        attempts.push(first);
    }
    attempts
}

#[tokio::test]
async fn a_retry_avoids_the_overloaded_server() {
    let attempts = attempts_at_first_member(RATE_LIMIT_EXCEEDED, OVERLOADED, "").await;
    assert_eq!(attempts, [1; 40], "each retry goes to the other member");
    // Without overload the choice is random: some of 40 retries go to the same member.
    let attempts = attempts_at_first_member(HOST_UNREACHABLE, UNLABELLED, "").await;
    assert_ne!(attempts, [1; 40], "a server that is not overloaded is not avoided");
    let off = "enableOverloadRetargeting=false";
    let attempts = attempts_at_first_member(RATE_LIMIT_EXCEEDED, OVERLOADED, off).await;
    assert_ne!(attempts, [1; 40], "{off}");
}

/// The jitter is uniformly distributed between 0 and 1.
#[tokio::test]
async fn the_jitter_of_the_backoff_is_uniform() {
    let server = shedding_server(&Arc::new(AtomicBool::new(true)));
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books: BookCollection = client.database("db").collection("books");
    let inserts: Vec<_> = (0..60)
        .map(|_| {
            tokio::spawn({
                let books = books.clone();
                async move { bounded(books.insert_one(doc! {})).await.unwrap_err() }
            })
        })
        .collect();
    let mut jitters = Vec::new();
    for insert in inserts {
        let error = insert.await.unwrap();
        let waits = error.attempts()[1..].iter().map(|attempt| attempt.backoff);
        // `baseBackoffMS` is 1.
        let limits = [1, 2, 4, 8, 16].map(Duration::from_millis);
        jitters.extend(waits.zip(limits).map(|(wait, limit)| wait.div_duration_f64(limit)));
    }
    assert_eq!(jitters.len(), 300);
    assert!(jitters.iter().all(|jitter| (0.0..=1.0).contains(jitter)), "{jitters:?}");
    for tenth in 0..10 {
        let range = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
        let within = jitters.iter().filter(|jitter| range.contains(jitter)).count();
        // 30 are expected, with a standard deviation of 5.2.
        assert!((1..=75).contains(&within), "{within} in {range:?}");
    }
    let mean = jitters.iter().sum::<f64>() / 300.0;
    // A standard deviation is 0.017.
    assert!((0.35..0.65).contains(&mean), "{mean}");
    jitters.sort_by(f64::total_cmp);
    jitters.dedup();
    assert!(jitters.len() > 290, "{} of 300 differ", jitters.len());
}
