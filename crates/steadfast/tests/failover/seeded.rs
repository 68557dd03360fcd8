//! Faults by chance over writes by chance, on the embedded deployment: a seed gives the faults, the
//! writes and the elections, so that a run that went wrong can be had again.
//!
//! Some dozens of runs go with the other tests. `STEADFAST_SEEDED_RUNS=1000` makes them as many as it
//! says, `STEADFAST_SEED=7` begins with another seed than 1.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use blackpipe::{
    embedded::Deployment,
    proxy::{Proxy, Reaction, Rule},
};
use steadfast::{
    Client,
    bson::{Document, doc},
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use crate::{
    BOUND,
    books::{Answer, Books},
    marked::{Kind, Target, census},
    report,
};

const TASKS: i64 = 4;
const OPERATIONS: i64 = 40;
const DATABASE: &str = "seeded";

/// So many at a time: most of a run is waiting for elections and for servers to be looked at anew.
const AT_A_TIME: usize = 12;

/// What befalls the deployment.
#[derive(Clone, Copy, Debug)]
enum Event {
    StepDown,
    KillPrimary,
    KillAny(usize),
    RestartAll,
    FreezePrimary,
    ThawAll,
    CutOffPrimary,
    CutOff(usize),
    Heal,
    HoldReplication(usize),
    ReleaseReplication,
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn member(&mut self) -> usize {
        usize::try_from(self.below(3)).expect("small")
    }

    fn event(&mut self) -> Event {
        match self.below(14) {
            0..=2 => Event::StepDown,
            3 | 4 => Event::KillPrimary,
            5 => Event::KillAny(self.member()),
            6 => Event::RestartAll,
            7 => Event::FreezePrimary,
            8 => Event::ThawAll,
            9 => Event::CutOffPrimary,
            10 => Event::CutOff(self.member()),
            11 => Event::Heal,
            12 => Event::HoldReplication(self.member()),
            _ => Event::ReleaseReplication,
        }
    }

    /// What the network does to writes.
    fn rules(&mut self) -> Vec<Rule> {
        let after = usize::try_from(self.below(60)).expect("small");
        let ms = self.below(30);
        let reactions = [
            Reaction::lose_reply(),
            Reaction::cut_request(),
            Reaction::CutRequest { after, reset: true },
            Reaction::CutReply { after, reset: false },
            Reaction::Delay { ms, direction: blackpipe::proxy::Direction::Reply },
        ];
        let mut rules = Vec::new();
        for reaction in reactions {
            let rule = ["insert", "update", "delete", "findAndModify"]
                .into_iter()
                .fold(Rule::new(reaction), Rule::command);
            let chance = [0.0, 0.02, 0.1][self.member()];
            rules.push(rule.probability(chance).seed(self.roll()));
        }
        rules
    }
}

fn perform(deployment: &Deployment, event: Event) {
    let faults = deployment.faults();
    let primary = deployment.primary();
    match (event, primary) {
        (Event::StepDown, Some(_)) => faults.step_down(),
        (Event::KillPrimary, Some(member)) | (Event::KillAny(member), _) => faults.kill(member),
        (Event::RestartAll, _) => (0..3).for_each(|member| faults.restart(member)),
        (Event::FreezePrimary, Some(member)) => faults.freeze(member),
        (Event::ThawAll, _) => (0..3).for_each(|member| faults.thaw(member)),
        (Event::CutOffPrimary, Some(member)) | (Event::CutOff(member), _) => {
            let others: Vec<_> = (0..3).filter(|&other| other != member).collect();
            faults.partition(&[&[member], &others]);
        }
        (Event::Heal, _) => faults.heal(),
        (Event::HoldReplication(member), _) => faults.hold_replication(member),
        (Event::ReleaseReplication, _) => {
            (0..3).for_each(|member| faults.release_replication(member));
        }
        (
            Event::StepDown | Event::KillPrimary | Event::FreezePrimary | Event::CutOffPrimary,
            None,
        ) => {}
    }
}

/// All is well again, and a primary there.
async fn recover(deployment: &Deployment) {
    for event in [Event::Heal, Event::ReleaseReplication, Event::ThawAll, Event::RestartAll] {
        perform(deployment, event);
    }
    deployment.until_primary().await;
}

/// One run: the writes are made, the faults happen, and what was said of each write is held against
/// what the servers have in the end.
async fn run(seed: u64) -> Books {
    let mut dice = Dice(seed);
    let deployment =
        Deployment::replica_set(3).seed(seed).election_timeout(Duration::from_millis(50)).start();
    let straight = Client::with_uri_str(deployment.uri()).await.unwrap();
    Target::prepare(&straight.database(DATABASE), TASKS, OPERATIONS).await;
    let proxy = Proxy::before(deployment.uri()).rules(dice.rules()).start().await.unwrap();
    let uri = format!(
        "{}&w=majority&wtimeoutMS=3000&socketTimeoutMS=2000&serverSelectionTimeoutMS=3000",
        proxy.uri()
    );

    let done = watch::Sender::new(0_i64);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = Client::with_uri_str(&uri).await.unwrap();
        let target = Target::within(&client.database(DATABASE));
        let done = done.clone();
        tasks.spawn(async move {
            let mut books = Books::default();
            for operation in (task..OPERATIONS).step_by(usize::try_from(TASKS).unwrap()) {
                let kind = Kind::of(operation);
                let ended = target.write(kind, task, operation).await;
                if let Err(error) = &ended {
                    assert!(!error.is_duplicate_key_error(), "our own insert: {error}");
                }
                books.note(kind.marks(operation), &ended);
                done.send_modify(|done| *done += 1);
            }
            books
        });
    }
    // Each fault comes when so many operations are done, or after a while if none gets done because
    // of the fault before it.
    let mut progress = done.subscribe();
    let events = dice.below(5);
    for _ in 0..events {
        let due = *progress.borrow() + i64::try_from(1 + dice.below(8)).expect("small");
        let _ = tokio::time::timeout(
            Duration::from_millis(300),
            progress.wait_for(|&done| done >= due.min(OPERATIONS)),
        )
        .await;
        perform(&deployment, dice.event());
    }
    let _ = tokio::time::timeout(
        Duration::from_millis(500),
        progress.wait_for(|&done| done >= OPERATIONS),
    )
    .await;
    recover(&deployment).await;
    let mut books = Books::default();
    while let Some(ended) = tasks.join_next().await {
        books.absorb(ended.expect("no task panics"));
    }
    proxy.clear();
    recover(&deployment).await;

    let documents = read_all(&straight).await;
    let audit = books.audit(&census(OPERATIONS, |name| documents[name].clone()));
    audit.assert_clean();
    let executions = deployment.faults().executions();
    let twice: Vec<_> = executions.iter().filter(|execution| execution.times > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
    if events == 0 {
        // What a primary wrote and a majority does not have is rolled back, and written again: the
        // ledger, which sees messages alone, is right where no primary is lost.
        let ledger = proxy.ledger();
        let twice: Vec<_> = ledger.writes().filter(|write| write.was_applied_twice()).collect();
        assert!(twice.is_empty(), "{twice:#?}");
    }
    books
}

async fn read_all(client: &Client) -> std::collections::BTreeMap<&'static str, Vec<Document>> {
    let mut all = std::collections::BTreeMap::new();
    for name in ["logs", "entries", "pairs"] {
        let collection = client.database(DATABASE).collection::<Document>(name);
        let mut cursor = collection.find(doc! {}).await.unwrap();
        let mut documents = Vec::new();
        while cursor.advance().await.unwrap() {
            documents.push(cursor.deserialize_current().unwrap());
        }
        all.insert(name, documents);
    }
    all
}

fn asked(variable: &str, usual: u64) -> u64 {
    env::var(variable).map_or(usual, |number| number.parse().expect("a number"))
}

/// pitfalls 4, 6, 8, 10 and 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_by_chance_duplicate_nothing_lose_nothing_and_every_outcome_is_right() {
    let began = Instant::now();
    let first = asked("STEADFAST_SEED", 1);
    let runs = asked("STEADFAST_SEEDED_RUNS", 36);
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    let mut all = JoinSet::new();
    for seed in first..first + runs {
        let turns = Arc::clone(&turns);
        all.spawn(async move {
            let _turn = turns.acquire_owned().await.expect("it is never closed");
            let ended = tokio::time::timeout(BOUND, tokio::spawn(run(seed))).await;
            (seed, ended)
        });
    }
    let (mut books, mut wrong) = (Vec::new(), Vec::new());
    while let Some(run) = all.join_next().await {
        match run.expect("runs are caught") {
            (_, Ok(Ok(run))) => books.push(run),
            (seed, Ok(Err(panic))) => wrong.push(format!("seed {seed}: {panic}")),
            (seed, Err(_)) => wrong.push(format!("seed {seed}: does not end")),
        }
    }
    let count = |answer| books.iter().map(|books| books.count(answer)).sum::<usize>();
    let (acknowledged, failed) =
        (count(Answer::Acknowledged), books.iter().map(Books::failed).sum::<usize>());
    report(&format!(
        "{runs} runs from seed {first} in {:.1} s: {acknowledged} writes acknowledged, {failed} failed, \
         {} of them in doubt",
        began.elapsed().as_secs_f32(),
        books.iter().map(Books::doubtful).sum::<usize>(),
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(acknowledged > failed, "most writes survive");
}
