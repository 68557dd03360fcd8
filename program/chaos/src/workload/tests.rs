//! The load on embedded and real servers behind a proxy that loses requests and replies.

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
        // Long enough for all conditions of `run_until`.
        rate: 25,
        lasting: Duration::from_secs(120),
        // With a margin for busy machines.
        timeout: Duration::from_secs(60),
        database: "chaos".to_owned(),
        ..Plan::new(Servers::Embedded)
    }
}

/// Returns a rule for every nth write of the load.
fn every_write(nth: u64, reaction: Reaction) -> Rule {
    let writes = ["insert", "update", "delete", "findAndModify"];
    let rule = writes.into_iter().fold(Rule::new(reaction), Rule::command);
    rule.app_name(APP_NAME).every(nth)
}

/// Embedded replica set behind a proxy.
struct ProxiedSet {
    set: Deployment,
    proxy: Proxy,
    direct: Client,
}

impl ProxiedSet {
    async fn start(rules: impl IntoIterator<Item = Rule>) -> Self {
        let set = Deployment::replica_set(3).seed(1).start();
        let proxy = Proxy::builder(set.uri()).rules(rules).start().await.unwrap();
        let direct = Client::with_uri_str(set.uri()).await.unwrap();
        Self { set, proxy, direct }
    }

    /// Runs the load until this number of operations have ended.
    async fn run_operations(&self, ended: u64, plan: Plan) -> Account {
        let workload = Workload::new(&plan).unwrap();
        workload.prepare(&self.direct).await.unwrap();
        self.run_until(&workload, |live| ended_of(live) >= ended).await
    }

    /// Runs the load until a condition is true.
    async fn run_until(&self, workload: &Workload, is_enough: impl Fn(&Live) -> bool) -> Account {
        run_load(workload, &self.direct, &self.uri(), is_enough).await
    }

    /// Returns the connection string of the proxy, for the load.
    fn uri(&self) -> String {
        with_long_connect_timeout(&self.proxy.uri())
    }

    fn collection(&self, name: &str) -> steadfast::Collection<Document> {
        self.direct.database("chaos").collection(name)
    }
}

/// Prevents failed heartbeats on a busy machine.
fn with_long_connect_timeout(uri: &str) -> String {
    format!("{uri}&connectTimeoutMS=120000")
}

/// Runs the load until a condition is true, and counts the marks.
async fn run_load(
    workload: &Workload,
    direct: &Client,
    uri: &str,
    is_enough: impl Fn(&Live) -> bool,
) -> Account {
    let (ending, live) = (Sender::new(false), Arc::new(Live::default()));
    let began = Instant::now();
    let running = workload.run(uri, began, ending.subscribe(), Arc::clone(&live));
    let end = async {
        while !is_enough(&live) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ending.send_replace(true);
        // `running` ends soon, or has ended already.
        std::future::pending::<()>().await;
    };
    let records = tokio::select! {
        records = running => records.unwrap(),
        () = end => unreachable!("pending"),
    };
    let lasted = began.elapsed();
    let census = workload.census(direct).await.unwrap();
    let (plan, server) = (workload.plan.clone(), "in memory".to_owned());
    let (interrupted, incidents) = (*ending.borrow(), Vec::new());
    Account { plan, server, lasted, interrupted, records, incidents, census }
}

fn ended_of(live: &Live) -> u64 {
    let counts = [&live.acknowledged, &live.not_applied, &live.in_doubt];
    counts.map(|count| count.load(std::sync::atomic::Ordering::Relaxed)).iter().sum()
}

/// Returns the names of all errors, without duplicates.
fn failures(account: &Account) -> Vec<&str> {
    let all = account.records.iter().flat_map(|record| &record.failures);
    let mut names: Vec<_> = all.map(|failure| failure.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
