//! Command errors, missing servers, early ends, impossible results, dropped calls, and existing databases.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_errors_of_retried_attempts_are_recorded() {
    let overloaded = ErrorReply::new(462).with_labels(["SystemOverloadedError", "RetryableError"]);
    let proxied = ProxiedSet::start([
        every_write(11, Reaction::Error(overloaded)),
        every_write(
            7,
            Reaction::Error(ErrorReply::new(10107).with_labels(["RetryableWriteError"])),
        ),
    ])
    .await;
    let account = proxied.run_operations(60, plan(Strategy::RetryableWrites)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    let names = failures(&account);
    assert!(names.contains(&"overloaded (462)"), "{names:?}");
    assert!(names.contains(&"NotWritablePrimary (10107)"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_operations_are_not_sent() {
    let proxied = ProxiedSet::start([]).await;
    let plan = Plan { timeout: Duration::from_millis(100), ..plan(Strategy::RetryableWrites) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    // No server listens on port 1.
    let uri = "mongodb://127.0.0.1:1/?replicaSet=none";
    let account = run_load(&workload, &proxied.direct, uri, |live| ended_of(live) >= 10).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.not_applied, account.records.len() as u64);
    assert_eq!(failures(&account), ["no server found"]);
    for record in &account.records {
        assert_eq!((record.attempts, record.failures.len()), (0, 1));
        assert_eq!(record.answer, Answer::Failed(Outcome::NotSent));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_reply_is_a_time_out_in_doubt() {
    // The first write establishes the connection, so that the second one spends its time-out on the reply.
    let stalled = every_write(1, Reaction::stall(Direction::Reply)).skip(1);
    let proxied = ProxiedSet::start([stalled]).await;
    let plan = Plan {
        workload: vec![Load::Deletes],
        tasks: 1,
        timeout: Duration::from_secs(5),
        ..plan(Strategy::RetryableWrites)
    };
    let account = proxied.run_operations(2, plan).await;
    let records = &account.records;
    assert_eq!(records[0].answer, Answer::Acknowledged);
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    // A third write may have begun before the end.
    assert!(verdict.in_doubt >= 1 && verdict.in_doubt_applied == verdict.in_doubt, "{verdict:?}");
    assert_eq!(failures(&account), ["timed out"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_end_awaits_operations_in_progress() {
    let proxied = ProxiedSet::start([]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    let account = proxied.run_until(&workload, |live| ended_of(live) >= 20).await;
    assert!(account.interrupted);
    let count = account.records.len() as u64;
    assert!((20..workload.plan.operations()).contains(&count), "{count}");
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.acknowledged, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_results_are_recorded() {
    let proxied = ProxiedSet::start([]).await;
    let plan = plan(Strategy::RetryableWrites);
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    // The prepared documents are missing.
    proxied.collection("documents").delete_many(doc! {}).await.unwrap();
    for name in ["logs", "counters", "mixed"] {
        proxied.collection(name).delete_many(doc! {}).await.unwrap();
    }
    // At least one of each kind.
    let account = proxied.run_until(&workload, |live| ended_of(live) >= 22).await;
    for record in &account.records {
        let expected = match record.kind {
            Kind::InsertOne | Kind::InsertMany => Answer::Acknowledged,
            Kind::Increment | Kind::UpdateOne | Kind::ReplaceOne | Kind::Transaction => {
                Answer::Wrong("0 matched and 0 modified, of one".to_owned())
            }
            Kind::DeleteOne => Answer::Wrong("0 deleted".to_owned()),
            Kind::FindOneAndUpdate | Kind::FindOneAndReplace | Kind::FindOneAndDelete => {
                Answer::Wrong("no document was found".to_owned())
            }
            Kind::BulkWrite => {
                Answer::Wrong("0 updated, 1 inserted and 0 deleted, of one each".to_owned())
            }
        };
        assert_eq!(record.answer, expected, "{:?}", record.kind);
    }
    assert!(!judge(&account).mislabelled.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_duplicated_and_foreign_writes_are_found() {
    let proxied = ProxiedSet::start([]).await;
    // One task: the first eleven operations have one of each kind.
    let plan = Plan { tasks: 1, ..plan(Strategy::RetryableWrites) };
    let account = proxied.run_operations(11, plan).await;
    let workload = Workload::new(&account.plan).unwrap();
    assert!(judge(&account).is_clean());
    let mark_of = |kind: Kind| {
        let record = account.records.iter().find(|record| record.kind == kind).unwrap();
        record.operation * Kind::MARKS
    };
    let marked = |mark: u64| doc! { "mark": target::number(mark) };

    let (inserted, many) = (mark_of(Kind::InsertOne), mark_of(Kind::InsertMany));
    proxied.collection("entries").delete_one(marked(inserted)).await.unwrap();
    proxied.collection("entries").insert_one(marked(many + 2)).await.unwrap();
    let deleted = mark_of(Kind::DeleteOne);
    proxied.collection("documents").delete_one(marked(deleted)).await.unwrap();
    let increment = doc! { "$inc": { "n": 1 } };
    proxied.collection("counters").update_one(doc! { "_id": 1_i64 }, increment).await.unwrap();
    let foreign = 3 * account.plan.operations() + 1;
    let twice = doc! { "$push": { "log": target::number(mark_of(Kind::FindOneAndUpdate)) } };
    proxied.collection("logs").update_one(doc! {}, twice).await.unwrap();

    let census = workload.census(&proxied.direct).await.unwrap();
    let verdict = judge(&Account { census, ..account.clone() });
    let mut duplicated = vec![many + 2, deleted, mark_of(Kind::FindOneAndUpdate)];
    duplicated.sort_unstable();
    assert_eq!(verdict.duplicated, duplicated);
    assert_eq!(verdict.lost, [inserted]);
    assert_eq!(verdict.foreign, [foreign]);

    let mut mislabelled = account.clone();
    mislabelled.records[0].answer = Answer::Failed(Outcome::NotApplied);
    let first = &mislabelled.records[0];
    let marks: Vec<_> = first.kind.marks(first.operation).collect();
    assert_eq!(judge(&mislabelled).mislabelled, marks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_without_one_of_its_writes_is_torn() {
    let proxied = ProxiedSet::start([]).await;
    let plan =
        Plan { tasks: 1, workload: vec![Load::Transactions], ..plan(Strategy::RetryableWrites) };
    let account = proxied.run_operations(3, plan).await;
    assert!(judge(&account).is_clean());
    let first = account.records[0].operation * Kind::MARKS;
    let entry = doc! { "mark": target::number(first + 1) };
    proxied.collection("entries").delete_one(entry).await.unwrap();
    let workload = Workload::new(&account.plan).unwrap();
    let census = workload.census(&proxied.direct).await.unwrap();
    let verdict = judge(&Account { census, ..account });
    assert_eq!((verdict.torn, verdict.lost), (vec![first], vec![first + 1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_call_is_in_doubt_and_applied_at_most_once() {
    let lost = every_write(5, Reaction::LoseReply { reset: true });
    let proxied = ProxiedSet::start([lost]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    let account = proxied.run_until(&workload, |live| {
        live.start_dropping(500);
        ended_of(live) >= 60
    });
    let account = account.await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert!(verdict.dropped > 0 && verdict.dropped <= verdict.in_doubt, "{verdict:?}");
    let dropped = account.records.iter().filter(|record| record.answer == Answer::Dropped);
    for record in dropped {
        let last = record.failures.last().map(|failure| failure.what.as_str());
        assert_eq!(last, Some("dropped by the caller"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_continue_after_a_failover() {
    let proxied = ProxiedSet::start([]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    let before = proxied.set.wait_for_primary().await;
    let is_over = AtomicBool::new(false);
    // Operations before and after the election of another primary.
    let account = proxied.run_until(&workload, |live| {
        if ended_of(live) >= 10 && !is_over.swap(true, Relaxed) {
            proxied.set.faults().step_down();
        }
        ended_of(live) >= 40 && proxied.set.primary().is_some_and(|now| now != before)
    });
    let account = account.await;
    assert_ne!(proxied.set.wait_for_primary().await, before);
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.acknowledged, account.records.len() as u64, "{:?}", failures(&account));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_on_real_servers_apply_writes_once_if_they_are_safe() {
    testbed::require!(testbed::shared::servers());
    let direct_uri = testbed::shared::uri().unwrap();
    let direct = Client::with_uri_str(&direct_uri).await.unwrap();
    let lost = every_write(5, Reaction::LoseReply { reset: true });
    let proxy = Proxy::builder(&direct_uri).rules([lost]).start().await.unwrap();
    for (strategy, is_safe) in
        [(Strategy::RetryableWrites, true), (Strategy::RetryIdempotent, true), (ALWAYS, false)]
    {
        // Concurrent test runs share the servers.
        let strategy_name = strategy.name().replace('-', "_");
        let database = format!("chaos_{strategy_name}_{}", std::process::id());
        let plan = Plan { database, ..plan(strategy) };
        direct.database(&plan.database).drop().await.unwrap();
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&direct).await.unwrap();
        let uri = with_long_connect_timeout(&proxy.uri());
        let account = run_load(&workload, &direct, &uri, |live| ended_of(live) >= 40).await;
        let verdict = judge(&account);
        direct.database(&plan.database).drop().await.unwrap();
        assert_eq!(verdict.is_clean(), is_safe, "{strategy}: {verdict:?}");
        assert_eq!(verdict.duplicated.is_empty(), is_safe, "{strategy}: {verdict:?}");
        assert!(account.records.iter().any(|record| record.attempts > 1), "{strategy}");
    }
}

#[tokio::test]
async fn existing_database_is_not_claimed() {
    let proxied = ProxiedSet::start([]).await;
    proxied.collection("books").insert_one(doc! {}).await.unwrap();
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    let error = workload.claim(&proxied.direct).await.unwrap_err().to_string();
    assert!(error.contains("database \"chaos\" already exists"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_concurrent_claims_succeeds() {
    let proxied = ProxiedSet::start([]).await;
    let workload = Arc::new(Workload::new(&plan(Strategy::RetryableWrites)).unwrap());
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (workload, direct) = (Arc::clone(&workload), proxied.direct.clone());
        claims.spawn(async move { workload.claim(&direct).await.map_err(|it| it.to_string()) });
    }
    let claims = claims.join_all().await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    let errors: Vec<_> = claims.into_iter().filter_map(Result::err).collect();
    assert!(errors.iter().all(|it| it.contains("\"chaos\" already exists")), "{errors:?}");
}

#[test]
fn plans_with_too_many_or_no_operations_are_rejected() {
    let error = |plan: Plan| Workload::new(&plan).err().expect("an error").to_string();
    let day = Duration::from_secs(24 * 60 * 60);
    let too_many = Plan { rate: 200, lasting: day, ..plan(ALWAYS) };
    let text = error(too_many.clone());
    assert!(text.contains("300000 is the limit in memory: 1500 s at this rate"), "{text}");
    let text = error(Plan { servers: Servers::Mongod, ..too_many.clone() });
    assert!(text.contains("2000000 is the limit: 10000 s at this rate"), "{text}");
    let longest = Duration::from_secs(10_000);
    let largest = Plan { servers: Servers::Mongod, lasting: longest, ..too_many };
    assert!(Workload::new(&largest).is_ok());
    let text = error(Plan { rate: 0, ..plan(ALWAYS) });
    assert!(text.contains("the plan has no operations"), "{text}");
    assert!(error(Plan { workload: Vec::new(), ..plan(ALWAYS) }).contains("workload is empty"));
}
