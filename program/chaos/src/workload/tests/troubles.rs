//! Refusals, servers that are not there, an early end, results that cannot be, and databases that are taken.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_recorded_by_their_names_though_another_attempt_made_them_good() {
    let overloaded = ErrorReply::new(462).with_labels(["SystemOverloadedError", "RetryableError"]);
    let scene = Scene::set([
        each(11, Reaction::Error(overloaded)),
        each(7, Reaction::Error(ErrorReply::new(10107).with_labels(["RetryableWriteError"]))),
    ])
    .await;
    let account = scene.play_until(60, plan(Strategy::RetryableWrites)).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    let names = failures(&account);
    assert!(names.contains(&"overloaded (462)"), "{names:?}");
    assert!(names.contains(&"NotWritablePrimary (10107)"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_server_is_found_nothing_is_sent_and_that_is_said() {
    let scene = Scene::set([]).await;
    let plan = Plan { timeout: Duration::from_millis(100), ..plan(Strategy::RetryableWrites) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    // Nobody listens at port 1.
    let uri = "mongodb://127.0.0.1:1/?replicaSet=none";
    let account = account(&workload, &scene.straight, uri, |live| ended_of(live) >= 10).await;
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
async fn a_reply_that_never_comes_is_not_awaited_for_longer_than_the_limit() {
    // The first finds the way; so the other has all of its time to wait.
    let stalled = each(1, Reaction::stall(Direction::Reply)).skip(1);
    let scene = Scene::set([stalled]).await;
    let plan = Plan {
        workload: vec![Load::Deletes],
        tasks: 1,
        timeout: Duration::from_secs(5),
        ..plan(Strategy::RetryableWrites)
    };
    let account = scene.play_until(2, plan).await;
    let records = &account.records;
    assert_eq!(records[0].answer, Answer::Acknowledged);
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    // One may have begun before the end was told.
    assert!(verdict.in_doubt >= 1 && verdict.in_doubt_applied == verdict.in_doubt, "{verdict:?}");
    assert_eq!(failures(&account), ["timed out"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_begins_no_more_and_awaits_what_is_under_way() {
    let scene = Scene::set([]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let account = scene.play_on(&workload, |live| ended_of(live) >= 20).await;
    assert!(account.interrupted);
    let count = account.records.len() as u64;
    assert!((20..workload.plan.operations()).contains(&count), "{count}");
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.acknowledged, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_cannot_be_is_told() {
    let scene = Scene::set([]).await;
    let plan = plan(Strategy::RetryableWrites);
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    // Somebody has taken away, or changed, what was to be found.
    scene.collection("documents").delete_many(doc! {}).await.unwrap();
    for name in ["logs", "counters", "mixed"] {
        scene.collection(name).delete_many(doc! {}).await.unwrap();
    }
    // At least one of each kind.
    let account = scene.play_on(&workload, |live| ended_of(live) >= 22).await;
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
async fn what_somebody_takes_away_doubles_or_counts_beside_is_found() {
    let scene = Scene::set([]).await;
    // One after the other, so that the first eleven are one of each kind.
    let plan = Plan { tasks: 1, ..plan(Strategy::RetryableWrites) };
    let account = scene.play_until(11, plan).await;
    let workload = Workload::new(&account.plan).unwrap();
    assert!(judge(&account).is_clean());
    let mark_of = |kind: Kind| {
        let record = account.records.iter().find(|record| record.kind == kind).unwrap();
        record.operation * Kind::MARKS
    };
    let marked = |mark: u64| doc! { "mark": target::number(mark) };

    let (inserted, many) = (mark_of(Kind::InsertOne), mark_of(Kind::InsertMany));
    scene.collection("entries").delete_one(marked(inserted)).await.unwrap();
    scene.collection("entries").insert_one(marked(many + 2)).await.unwrap();
    let deleted = mark_of(Kind::DeleteOne);
    scene.collection("documents").delete_one(marked(deleted)).await.unwrap();
    let beside = doc! { "$inc": { "n": 1 } };
    scene.collection("counters").update_one(doc! { "_id": 1_i64 }, beside).await.unwrap();
    let strange = 3 * account.plan.operations() + 1;
    let twice = doc! { "$push": { "log": target::number(mark_of(Kind::FindOneAndUpdate)) } };
    scene.collection("logs").update_one(doc! {}, twice).await.unwrap();

    let census = workload.census(&scene.straight).await.unwrap();
    let verdict = judge(&Account { census, ..account.clone() });
    let mut duplicated = vec![many + 2, deleted, mark_of(Kind::FindOneAndUpdate)];
    duplicated.sort_unstable();
    assert_eq!(verdict.duplicated, duplicated);
    assert_eq!(verdict.lost, [inserted]);
    assert_eq!(verdict.unheard_of, [strange]);

    let mut denied = account.clone();
    denied.records[0].answer = Answer::Failed(Outcome::NotApplied);
    let first = &denied.records[0];
    let marks: Vec<_> = first.kind.marks(first.operation).collect();
    assert_eq!(judge(&denied).mislabelled, marks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_transaction_is_torn() {
    let scene = Scene::set([]).await;
    let plan =
        Plan { tasks: 1, workload: vec![Load::Transactions], ..plan(Strategy::RetryableWrites) };
    let account = scene.play_until(3, plan).await;
    assert!(judge(&account).is_clean());
    let first = account.records[0].operation * Kind::MARKS;
    let entry = doc! { "mark": target::number(first + 1) };
    scene.collection("entries").delete_one(entry).await.unwrap();
    let workload = Workload::new(&account.plan).unwrap();
    let census = workload.census(&scene.straight).await.unwrap();
    let verdict = judge(&Account { census, ..account });
    assert_eq!((verdict.torn, verdict.lost), (vec![first], vec![first + 1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_is_in_doubt_and_made_at_most_once() {
    let lost = each(5, Reaction::LoseReply { reset: true });
    let scene = Scene::set([lost]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let account = scene.play_on(&workload, |live| {
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
async fn a_change_of_primary_is_survived() {
    let scene = Scene::set([]).await;
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let before = scene.set.wait_for_primary().await;
    let is_over = AtomicBool::new(false);
    // Some before, and some after another primary was elected.
    let account = scene.play_on(&workload, |live| {
        if ended_of(live) >= 10 && !is_over.swap(true, Relaxed) {
            scene.set.faults().step_down();
        }
        ended_of(live) >= 40 && scene.set.primary().is_some_and(|now| now != before)
    });
    let account = account.await;
    assert_ne!(scene.set.wait_for_primary().await, before);
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.acknowledged, account.records.len() as u64, "{:?}", failures(&account));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_real_servers_all_is_done_once_though_replies_are_lost() {
    testbed::require!(testbed::shared::servers());
    let straight_uri = testbed::shared::uri().unwrap();
    let straight = Client::with_uri_str(&straight_uri).await.unwrap();
    let lost = each(5, Reaction::LoseReply { reset: true });
    let proxy = Proxy::builder(&straight_uri).rules([lost]).start().await.unwrap();
    for (strategy, is_safe) in
        [(Strategy::RetryableWrites, true), (Strategy::RetryIdempotent, true), (ALWAYS, false)]
    {
        // Another run of the tests may use the same servers.
        let strategy_name = strategy.name().replace('-', "_");
        let database = format!("chaos_{strategy_name}_{}", std::process::id());
        let plan = Plan { database, ..plan(strategy) };
        straight.database(&plan.database).drop().await.unwrap();
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&straight).await.unwrap();
        let uri = patient(&proxy.uri());
        let account = account(&workload, &straight, &uri, |live| ended_of(live) >= 40).await;
        let verdict = judge(&account);
        straight.database(&plan.database).drop().await.unwrap();
        assert_eq!(verdict.is_clean(), is_safe, "{strategy}: {verdict:?}");
        assert_eq!(verdict.duplicated.is_empty(), is_safe, "{strategy}: {verdict:?}");
        assert!(account.records.iter().any(|record| record.attempts > 1), "{strategy}");
    }
}

#[tokio::test]
async fn a_database_that_is_there_already_is_left_alone() {
    let scene = Scene::set([]).await;
    scene.collection("books").insert_one(doc! {}).await.unwrap();
    let workload = Workload::new(&plan(Strategy::RetryableWrites)).unwrap();
    let refusal = workload.claim(&scene.straight).await.unwrap_err().to_string();
    assert!(refusal.contains("a database \"chaos\" already"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_runs_that_want_the_same_database_one_gets_it() {
    let scene = Scene::set([]).await;
    let workload = Arc::new(Workload::new(&plan(Strategy::RetryableWrites)).unwrap());
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (workload, straight) = (Arc::clone(&workload), scene.straight.clone());
        claims.spawn(async move { workload.claim(&straight).await.map_err(|it| it.to_string()) });
    }
    let claims = claims.join_all().await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    let refusals: Vec<_> = claims.into_iter().filter_map(Result::err).collect();
    assert!(refusals.iter().all(|it| it.contains("\"chaos\" already")), "{refusals:?}");
}

#[test]
fn too_much_and_nothing_are_refused() {
    let refusal = |plan: Plan| Workload::new(&plan).err().expect("it is refused").to_string();
    let day = Duration::from_secs(24 * 60 * 60);
    let much = Plan { rate: 200, lasting: day, ..plan(ALWAYS) };
    let said = refusal(much.clone());
    assert!(said.contains("300000 is the limit in memory: 1500 s at this rate"), "{said}");
    let said = refusal(Plan { servers: Servers::Mongod, ..much.clone() });
    assert!(said.contains("2000000 is the limit: 10000 s at this rate"), "{said}");
    let enough = Duration::from_secs(10_000);
    let enough = Plan { servers: Servers::Mongod, lasting: enough, ..much };
    assert!(Workload::new(&enough).is_ok());
    let none = refusal(Plan { rate: 0, ..plan(ALWAYS) });
    assert!(none.contains("no operation would begin"), "{none}");
    assert!(refusal(Plan { workload: Vec::new(), ..plan(ALWAYS) }).contains("nothing to write"));
}
