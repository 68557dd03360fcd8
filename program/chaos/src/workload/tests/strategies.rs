//! What each strategy makes of lost requests and lost replies, over all kinds of writes.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_retryable_writes_all_is_done_once_though_requests_and_replies_are_lost() {
    let scene = Scene::set([
        each(5, Reaction::LoseReply { reset: true }),
        each(7, Reaction::CutRequest { after: 40, reset: false }),
    ])
    .await;
    let account = scene.play_until(100, plan(Strategy::RetryableWrites)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.in_doubt, 0);
    assert_eq!(verdict.acknowledged, account.records.len() as u64);
    let hit: Vec<_> = account.records.iter().filter(|record| record.attempts > 1).collect();
    assert!(!hit.is_empty());
    // Some of them without anything being sent, when a connection is gone before it is used.
    assert!(hit.iter().all(|it| it.failures.len() >= it.attempts as usize - 1), "{hit:?}");
    let names = failures(&account);
    assert!(names.contains(&"connection reset"), "{names:?}");
    assert!(names.contains(&"connection closed"), "{names:?}");
    let ended: Vec<_> = account.records.iter().map(|it| it.began + it.took).collect();
    assert!(ended.is_sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_always_retries_duplicates() {
    let scene = Scene::set([each(3, Reaction::lose_reply())]).await;
    let account = scene.play_until(60, plan(ALWAYS)).await;
    let verdict = judge(&account);
    assert!(!verdict.duplicated.is_empty());
    assert_eq!((verdict.lost, verdict.mislabelled, verdict.unheard_of), <_>::default());
    assert!(account.records.iter().any(|record| record.attempts > 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_retries_once_duplicates_too() {
    let scene = Scene::set([each(3, Reaction::lose_reply())]).await;
    let verdict = judge(&scene.play_until(60, plan(Strategy::RetryNetworkErrorsOnce)).await);
    assert!(!verdict.duplicated.is_empty());
    assert_eq!((verdict.lost, verdict.mislabelled, verdict.unheard_of), <_>::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_never_retries_is_left_in_doubt_and_duplicates_nothing() {
    let scene = Scene::set([
        each(5, Reaction::lose_reply()),
        each(7, Reaction::CutRequest { after: 40, reset: true }),
    ])
    .await;
    let account = scene.play_until(60, plan(Strategy::DontRetry)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert!(verdict.in_doubt > 0 && verdict.in_doubt_applied > 0, "{verdict:?}");
    // A bulk write has several commands; each is sent once.
    assert!(account.records.iter().all(|record| record.attempts <= 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_idempotent_is_done_once_however_often_it_is_sent() {
    let scene = Scene::set([
        each(5, Reaction::lose_reply()),
        each(7, Reaction::CutRequest { after: 40, reset: true }),
    ])
    .await;
    let account = scene.play_until(60, plan(Strategy::RetryIdempotent)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert!(verdict.acknowledged > verdict.in_doubt, "{verdict:?}");
    assert!(account.records.iter().any(|record| record.attempts > 1));
}

/// Makes one write of each kind, one after the other, each with this happening to its first command. Gives of each
/// its record, and how often its first mark is found.
async fn one_of_each_kind(strategy: Strategy, reaction: Reaction) -> Vec<(Record, u64)> {
    let scene = Scene::set([]).await;
    let plan = Plan { rate: 11, lasting: Duration::from_secs(1), ..plan(strategy) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let client = client::open(&scene.uri(), &plan).await.unwrap();
    let performer = Performer {
        sequence: workload.sequence.clone(),
        target: workload.target(&client),
        began: Instant::now(),
        live: Arc::default(),
        plan,
    };
    let mut records = Vec::new();
    for operation in 0..performer.plan.operations() {
        let rule = scene.proxy.add(each(1, reaction.clone()).times(1));
        records.push(performer.operate(operation).await);
        scene.proxy.remove(&rule);
    }
    let census = workload.census(&scene.straight).await.unwrap();
    let times = |record: &Record| census.get(&(record.operation * Kind::MARKS)).copied();
    records.into_iter().map(|it| (it.clone(), times(&it).unwrap_or_default())).collect()
}

/// What a strategy makes of a write whose reply is lost: how it ends, and how often it is applied.
async fn of_a_lost_reply(strategy: Strategy, answer: Answer, expected: u64, attempts: u32) {
    let made = one_of_each_kind(strategy, Reaction::LoseReply { reset: true }).await;
    assert_eq!(made.len(), 11);
    for (record, times) in made {
        let Record { kind, ref failures, .. } = record;
        // Only `and_run` repeats a transaction as often as it meets a conflict with the one that is being aborted.
        if kind == Kind::Transaction && strategy != Strategy::RetryableWrites {
            assert!(times <= 1, "{times} {record:?}");
            assert!(!failures.is_empty(), "{record:?}");
            continue;
        }
        assert_eq!(record.answer, answer, "{kind:?}");
        assert_eq!((times, record.attempts), (expected, attempts), "{kind:?}");
        let mut failures = failures.iter().map(|failure| failure.what.as_str());
        assert_eq!(failures.next(), Some("connection reset"), "{kind:?}");
        // By which an insert is known to be done already, if it is idempotent.
        let is_known_by_key = strategy == Strategy::RetryIdempotent
            && matches!(kind, Kind::InsertOne | Kind::InsertMany);
        let then = is_known_by_key.then_some("DuplicateKey (11000)");
        assert_eq!(failures.next(), then, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_each_kind_whose_reply_is_lost_is_applied_once_by_retryable_writes() {
    of_a_lost_reply(Strategy::RetryableWrites, Answer::Acknowledged, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_each_kind_whose_reply_is_lost_is_applied_once_if_it_is_idempotent() {
    of_a_lost_reply(Strategy::RetryIdempotent, Answer::Acknowledged, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_each_kind_whose_reply_is_lost_shows_twice_if_it_is_retried_without_care() {
    of_a_lost_reply(ALWAYS, Answer::Acknowledged, 2, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_each_kind_whose_reply_is_lost_is_in_doubt_if_it_is_not_retried() {
    let in_doubt = Answer::Failed(Outcome::MaybeApplied);
    of_a_lost_reply(Strategy::DontRetry, in_doubt, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_faults_every_strategy_does_everything_at_the_first_attempt() {
    for strategy in Strategy::ALL {
        let scene = Scene::set([]).await;
        let account = scene.play_until(30, plan(strategy)).await;
        let verdict = judge(&account);
        assert!(verdict.is_clean(), "{strategy}: {verdict:?}");
        assert_eq!(verdict.acknowledged, account.records.len() as u64, "{strategy}");
        assert!(account.records.iter().all(|record| record.attempts == 1), "{strategy}");
        assert_eq!(failures(&account), [""; 0], "{strategy}");
    }
}
