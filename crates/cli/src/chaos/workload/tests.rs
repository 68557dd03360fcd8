//! The load on servers in memory behind a proxy that loses requests and replies, and on real servers.

use blackpipe::{
    embedded::Deployment,
    proxy::{Direction, ErrorReply, Proxy, Reaction, Rule},
};
use steadfast::{
    bson::{Document, doc},
    error::Outcome,
};
use tokio::sync::watch::Sender;

use super::*;
use crate::chaos::{
    account::{Account, Answer, Kind},
    judge::judge,
    plan::{APP_NAME, Load, Servers},
};

const ALWAYS: Strategy = Strategy::AlwaysRetry { retries: 5 };

fn plan(strategy: Strategy) -> Plan {
    Plan {
        servers: Servers::Embedded,
        workload: Load::ALL.to_vec(),
        faults: Vec::new(),
        strategy,
        tasks: 4,
        rate: 200,
        lasting: Duration::from_secs(1),
        // Longer than a busy machine takes for anything.
        timeout: Duration::from_secs(60),
        seed: 1,
        database: "chaos".to_owned(),
        keep: false,
    }
}

/// What is done to each so many-th write of the load.
fn each(nth: u64, reaction: Reaction) -> Rule {
    let writes = ["insert", "update", "delete", "findAndModify"];
    let rule = writes.into_iter().fold(Rule::new(reaction), Rule::command);
    rule.app_name(APP_NAME).every(nth)
}

/// Servers in memory, and a proxy before them.
struct Scene {
    set: Deployment,
    proxy: Proxy,
    straight: Client,
}

impl Scene {
    async fn set(rules: impl IntoIterator<Item = Rule>) -> Self {
        let set = Deployment::replica_set(3).seed(1).start();
        let proxy = Proxy::before(set.uri()).rules(rules).start().await.unwrap();
        let straight = Client::with_uri_str(set.uri()).await.unwrap();
        Self { set, proxy, straight }
    }

    async fn play(&self, plan: Plan) -> Account {
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&self.straight).await.unwrap();
        self.play_on(&workload, &Sender::new(false), Arc::default()).await
    }

    /// Plays until so many operations have ended, however long a busy machine takes for them.
    async fn play_until(&self, ended: u64, plan: Plan) -> Account {
        let plan = Plan { rate: 50, lasting: Duration::from_secs(30), ..plan };
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&self.straight).await.unwrap();
        let (ending, live) = (Sender::new(false), Arc::new(Live::default()));
        let end = async {
            while ended_of(&live) < ended {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ending.send_replace(true);
        };
        tokio::join!(self.play_on(&workload, &ending, Arc::clone(&live)), end).0
    }

    async fn play_on(
        &self,
        workload: &Workload,
        ending: &Sender<bool>,
        live: Arc<Live>,
    ) -> Account {
        account(workload, &self.straight, &self.proxy.uri(), ending, live).await
    }

    fn collection(&self, name: &str) -> steadfast::Collection<Document> {
        self.straight.database("chaos").collection(name)
    }
}

async fn account(
    workload: &Workload,
    straight: &Client,
    uri: &str,
    ending: &Sender<bool>,
    live: Arc<Live>,
) -> Account {
    let began = Instant::now();
    let records = workload.run(uri, began, ending.subscribe(), live).await.unwrap();
    let lasted = began.elapsed();
    let census = workload.census(straight).await.unwrap();
    let (plan, server) = (workload.plan.clone(), "in memory".to_owned());
    let (interrupted, incidents) = (*ending.borrow(), Vec::new());
    Account { plan, server, lasted, interrupted, records, incidents, census }
}

fn ended_of(live: &Live) -> u64 {
    let counts = [&live.acknowledged, &live.not_applied, &live.in_doubt];
    counts.map(|count| count.load(std::sync::atomic::Ordering::Relaxed)).iter().sum()
}

/// The names of the failures of all attempts, each once.
fn failures(account: &Account) -> Vec<&str> {
    let all = account.records.iter().flat_map(|record| &record.failures);
    let mut names: Vec<_> = all.map(|failure| failure.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

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
    let plan = Plan { rate: 10, lasting: Duration::from_secs(1), ..plan(strategy) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let client = client::open(&scene.proxy.uri(), &plan).await.unwrap();
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
    assert_eq!(made.len(), 10);
    for (record, times) in made {
        let Record { kind, ref failures, .. } = record;
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
        let plan = Plan { rate: 100, lasting: Duration::from_secs(1), ..plan(strategy) };
        let account = scene.play(plan).await;
        let verdict = judge(&account);
        assert!(verdict.is_clean(), "{strategy}: {verdict:?}");
        assert_eq!(verdict.acknowledged, account.records.len() as u64, "{strategy}");
        assert!(account.records.iter().all(|record| record.attempts == 1), "{strategy}");
        assert_eq!(failures(&account), [""; 0], "{strategy}");
    }
}

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
    let plan = Plan {
        rate: 10,
        lasting: Duration::from_secs(1),
        timeout: Duration::from_millis(100),
        ..plan(Strategy::RetryableWrites)
    };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    // Nobody listens there.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let uri = format!("mongodb://{nowhere}/?replicaSet=none");
    let ending = Sender::new(false);
    let account = account(&workload, &scene.straight, &uri, &ending, Arc::default()).await;
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
    let stalled = each(1, Reaction::stall(Direction::Reply));
    let scene = Scene::set([stalled]).await;
    let plan = Plan {
        workload: vec![Load::Deletes],
        rate: 1,
        timeout: Duration::from_secs(2),
        ..plan(Strategy::RetryableWrites)
    };
    let account = scene.play(plan).await;
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!((verdict.in_doubt, verdict.in_doubt_applied), (1, 1));
    assert_eq!(failures(&account), ["timed out"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_begins_no_more_and_awaits_what_is_under_way() {
    let scene = Scene::set([]).await;
    let plan = Plan { lasting: Duration::from_secs(10), ..plan(Strategy::RetryableWrites) };
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let (ending, live) = (Sender::new(false), Arc::new(Live::default()));
    let end = async {
        while live.acknowledged.load(std::sync::atomic::Ordering::Relaxed) < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ending.send_replace(true);
    };
    let playing = scene.play_on(&workload, &ending, Arc::clone(&live));
    let (account, ()) = tokio::join!(playing, end);
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
    let account = scene.play_on(&workload, &Sender::new(false), Arc::default()).await;
    for record in &account.records {
        let expected = match record.kind {
            Kind::InsertOne | Kind::InsertMany => Answer::Acknowledged,
            Kind::Increment | Kind::UpdateOne | Kind::ReplaceOne => {
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
    // One after the other, so that the first ten are one of each kind.
    let plan = Plan { tasks: 1, ..plan(Strategy::RetryableWrites) };
    let account = scene.play_until(10, plan).await;
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
async fn a_change_of_primary_is_survived() {
    let scene = Scene::set([]).await;
    let plan = plan(Strategy::RetryableWrites);
    let workload = Workload::new(&plan).unwrap();
    workload.prepare(&scene.straight).await.unwrap();
    let live = Arc::new(Live::default());
    let failing = async {
        while live.acknowledged.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.set.faults().step_down();
        scene.set.until_primary().await;
    };
    let ending = Sender::new(false);
    let playing = scene.play_on(&workload, &ending, Arc::clone(&live));
    let (account, ()) = tokio::join!(playing, failing);
    let verdict = judge(&account);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(verdict.acknowledged, account.records.len() as u64, "{:?}", failures(&account));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_real_servers_all_is_done_once_though_replies_are_lost() {
    let straight_uri = testbed::shared::uri().unwrap();
    let straight = Client::with_uri_str(&straight_uri).await.unwrap();
    let lost = each(5, Reaction::LoseReply { reset: true });
    let proxy = Proxy::before(&straight_uri).rules([lost]).start().await.unwrap();
    for (strategy, is_safe) in
        [(Strategy::RetryableWrites, true), (Strategy::RetryIdempotent, true), (ALWAYS, false)]
    {
        let database = format!("chaos_{}", strategy.name().replace('-', "_"));
        let plan = Plan { database, ..plan(strategy) };
        straight.database(&plan.database).drop().await.unwrap();
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&straight).await.unwrap();
        let ending = Sender::new(false);
        let account = account(&workload, &straight, &proxy.uri(), &ending, Arc::default()).await;
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
