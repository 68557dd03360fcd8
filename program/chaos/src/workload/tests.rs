//! The load on servers in memory behind a proxy that loses requests and replies, and on real servers.

mod strategies;
mod troubles;

use crate::strategy::Strategy;
use blackpipe::proxy::{Direction, ErrorReply, Proxy, Reaction, Rule};
use steadfast::{
    bson::{Document, doc},
    error::Outcome,
};
use steadfast_embedded::Deployment;
use tokio::sync::watch::Sender;

use super::*;
use crate::{
    account::{Account, Answer, Kind},
    judge::judge,
    plan::{APP_NAME, Load, Servers},
};

const ALWAYS: Strategy = Strategy::AlwaysRetry { retries: 5 };

fn plan(strategy: Strategy) -> Plan {
    Plan {
        faults: Vec::new(),
        strategy,
        tasks: 4,
        // Much longer than it takes until there are enough.
        rate: 25,
        lasting: Duration::from_secs(120),
        // Longer than a busy machine takes for anything.
        timeout: Duration::from_secs(60),
        database: "chaos".to_owned(),
        ..Plan::new(Servers::Embedded)
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
        let proxy = Proxy::builder(set.uri()).rules(rules).start().await.unwrap();
        let straight = Client::with_uri_str(set.uri()).await.unwrap();
        Self { set, proxy, straight }
    }

    /// Plays until so many operations have ended, however long a busy machine takes for them.
    async fn play_until(&self, ended: u64, plan: Plan) -> Account {
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&self.straight).await.unwrap();
        self.play_on(&workload, |live| ended_of(live) >= ended).await
    }

    /// Plays until this is so.
    async fn play_on(&self, workload: &Workload, is_enough: impl Fn(&Live) -> bool) -> Account {
        account(workload, &self.straight, &self.uri(), is_enough).await
    }

    /// Where the load connects.
    fn uri(&self) -> String {
        patient(&self.proxy.uri())
    }

    fn collection(&self, name: &str) -> steadfast::Collection<Document> {
        self.straight.database("chaos").collection(name)
    }
}

/// Servers are not taken to be gone because a busy machine stands still for seconds.
fn patient(uri: &str) -> String {
    format!("{uri}&connectTimeoutMS=120000")
}

/// Makes the writes of a load until there are enough of them, and counts.
async fn account(
    workload: &Workload,
    straight: &Client,
    uri: &str,
    is_enough: impl Fn(&Live) -> bool,
) -> Account {
    let (ending, live) = (Sender::new(false), Arc::new(Live::default()));
    let began = Instant::now();
    let playing = workload.run(uri, began, ending.subscribe(), Arc::clone(&live));
    let end = async {
        while !is_enough(&live) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ending.send_replace(true);
        // The rest is up to the load, which also ends when its time is over.
        std::future::pending::<()>().await;
    };
    let records = tokio::select! {
        records = playing => records.unwrap(),
        () = end => unreachable!("it waits for ever"),
    };
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
