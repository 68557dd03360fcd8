//! Effect of lost requests and lost replies on all kinds of writes, by strategy.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retryable_writes_are_applied_once_despite_lost_requests_and_replies() {
    let proxied = ProxiedSet::start([
        every_write(5, Reaction::LoseReply { reset: true }),
        every_write(7, Reaction::CutRequest { after: 40, reset: false }),
    ])
    .await;
    let account = proxied.run_operations(100, plan(Strategy::RetryableWrites)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.in_doubt, 0);
    assert_eq!(verdict.acknowledged, account.records.len() as u64);
    let hit: Vec<_> = account.records.iter().filter(|record| record.attempts > 1).collect();
    assert!(!hit.is_empty());
    // Some attempts fail before they are sent, because the pool was cleared.
    assert!(hit.iter().all(|it| it.failures.len() >= it.attempts as usize - 1), "{hit:?}");
    let names = failures(&account);
    assert!(names.contains(&"connection reset"), "{names:?}");
    assert!(names.contains(&"connection closed"), "{names:?}");
    let ended: Vec<_> = account.records.iter().map(|it| it.began + it.took).collect();
    assert!(ended.is_sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_retry_duplicates_writes() {
    let proxied = ProxiedSet::start([every_write(3, Reaction::lose_reply())]).await;
    let account = proxied.run_operations(60, plan(ALWAYS)).await;
    let verdict = judge(&account);
    assert!(!verdict.duplicated.is_empty());
    assert_eq!((verdict.lost, verdict.mislabelled, verdict.foreign), <_>::default());
    assert!(account.records.iter().any(|record| record.attempts > 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_once_duplicates_writes() {
    let proxied = ProxiedSet::start([every_write(3, Reaction::lose_reply())]).await;
    let verdict = judge(&proxied.run_operations(60, plan(Strategy::RetryNetworkErrorsOnce)).await);
    assert!(!verdict.duplicated.is_empty());
    assert_eq!((verdict.lost, verdict.mislabelled, verdict.foreign), <_>::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dont_retry_leaves_writes_in_doubt() {
    let proxied = ProxiedSet::start([
        every_write(5, Reaction::lose_reply()),
        every_write(7, Reaction::CutRequest { after: 40, reset: true }),
    ])
    .await;
    let account = proxied.run_operations(60, plan(Strategy::DontRetry)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert!(verdict.in_doubt > 0 && verdict.in_doubt_applied > 0, "{verdict:?}");
    // Each command of a bulk write is sent once.
    assert!(account.records.iter().all(|record| record.attempts <= 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_writes_are_applied_once() {
    let proxied = ProxiedSet::start([
        every_write(5, Reaction::lose_reply()),
        every_write(7, Reaction::CutRequest { after: 40, reset: true }),
    ])
    .await;
    let account = proxied.run_operations(60, plan(Strategy::RetryIdempotent)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert!(verdict.acknowledged > verdict.in_doubt, "{verdict:?}");
    assert!(account.records.iter().any(|record| record.attempts > 1));
}

/// Runs one write of each kind with a fault of its first command. Returns the records, and the number of times that
/// the first mark of each is found.
async fn one_of_each_kind(strategy: Strategy, reaction: Reaction) -> Vec<(Record, u64)> {
    let proxied = ProxiedSet::start([]).await;
    let plan = Plan { rate: 11, lasting: Duration::from_secs(1), ..plan(strategy) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&proxied.direct).await.unwrap();
    let client = client::open(&proxied.uri(), &plan).await.unwrap();
    let performer = Performer {
        sequence: workload.sequence.clone(),
        target: workload.target(&client),
        began: Instant::now(),
        live: Arc::default(),
        plan,
    };
    let mut records = Vec::new();
    for operation in 0..performer.plan.operations() {
        let rule = proxied.proxy.add(every_write(1, reaction.clone()).times(1));
        records.push(performer.operate(operation).await);
        proxied.proxy.remove(&rule);
    }
    let census = workload.census(&proxied.direct).await.unwrap();
    let times = |record: &Record| census.get(&(record.operation * Kind::MARKS)).copied();
    records.into_iter().map(|it| (it.clone(), times(&it).unwrap_or_default())).collect()
}

/// Checks the result of each kind of write after a lost reply: applications and attempts.
async fn check_lost_reply(strategy: Strategy, answer: Answer, expected: u64, attempts: u32) {
    let writes = one_of_each_kind(strategy, Reaction::LoseReply { reset: true }).await;
    assert_eq!(writes.len(), 11);
    for (record, times) in writes {
        let Record { kind, ref failures, .. } = record;
        // The retry conflicts with the first transaction until that is aborted. Only `and_run` retries until then.
        if kind == Kind::Transaction && strategy != Strategy::RetryableWrites {
            assert!(times <= 1, "{times} {record:?}");
            assert!(!failures.is_empty(), "{record:?}");
            continue;
        }
        assert_eq!(record.answer, answer, "{kind:?}");
        assert_eq!((times, record.attempts), (expected, attempts), "{kind:?}");
        let mut failures = failures.iter().map(|failure| failure.what.as_str());
        assert_eq!(failures.next(), Some("connection reset"), "{kind:?}");
        // The retry of an idempotent insert finds the document of the first attempt.
        let has_duplicate_key = strategy == Strategy::RetryIdempotent
            && matches!(kind, Kind::InsertOne | Kind::InsertMany);
        let then = has_duplicate_key.then_some("DuplicateKey (11000)");
        assert_eq!(failures.next(), then, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retryable_write_is_applied_once_after_a_lost_reply() {
    check_lost_reply(Strategy::RetryableWrites, Answer::Acknowledged, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_write_is_applied_once_after_a_lost_reply() {
    check_lost_reply(Strategy::RetryIdempotent, Answer::Acknowledged, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_retry_applies_each_write_twice_after_a_lost_reply() {
    check_lost_reply(ALWAYS, Answer::Acknowledged, 2, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_without_retries_is_in_doubt_after_a_lost_reply() {
    let in_doubt = Answer::Failed(Outcome::MaybeApplied);
    check_lost_reply(Strategy::DontRetry, in_doubt, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_faults_every_write_has_one_attempt() {
    for strategy in Strategy::ALL {
        let proxied = ProxiedSet::start([]).await;
        let account = proxied.run_operations(30, plan(strategy)).await;
        let verdict = judge(&account);
        assert!(verdict.is_clean(), "{strategy}: {verdict:?}");
        assert_eq!(verdict.acknowledged, account.records.len() as u64, "{strategy}");
        assert!(account.records.iter().all(|record| record.attempts == 1), "{strategy}");
        assert_eq!(failures(&account), [""; 0], "{strategy}");
    }
}
