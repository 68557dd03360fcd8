//! Retries against scripted servers: commands that are retried and that are not, writes that are applied once, and
//! the errors and outcomes that are raised.

#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod attempts;
mod batches;
mod change_streams;
mod client_bulk_writes;
mod connections;
mod deadlines;
mod deployment;
#[path = "../common/every_action.rs"]
mod every_action;
mod exactly_once;
mod log;
mod mongos;
mod not_retried;
mod older_servers;
mod operations;
mod outcomes;
mod overload;
mod raised_errors;
mod reads;
mod sessions;
mod several_commands;
mod time_limits;
mod topology;
mod transactions;

use std::collections::BTreeSet;

use common::{Clock, Recorder, Role, bounded};
use deployment::{Deployment, Fault};
use operations::{BookCollection, Operation, other_writes, reads, retryable_writes, write};
use steadfast::{
    Client,
    bson::{Bson, Document, Timestamp, doc},
    error::{Error, ErrorKind, Outcome, RETRYABLE_WRITE_ERROR, Result},
    event::{
        cmap::CmapEvent,
        command::{CommandEvent, CommandStartedEvent},
    },
    options::{ClientOptions, ServerAddress},
};

const RETRYABLE: &[&str] = &["RetryableWriteError"];
const NO_WRITES_PERFORMED: &[&str] = &["RetryableWriteError", "NoWritesPerformed"];
const UNLABELLED: &[&str] = &[];

const NOT_WRITABLE_PRIMARY: i32 = 10107;
const INTERRUPTED_AT_SHUTDOWN: i32 = 11600;
const SHUTDOWN_IN_PROGRESS: i32 = 91;
/// `HostUnreachable`, a retryable error that does not mark the server unknown.
const HOST_UNREACHABLE: i32 = 6;

/// Client with recorded events.
struct ObservedClient {
    client: Client,
    books: BookCollection,
    commands: Recorder<CommandEvent>,
    pools: Recorder<CmapEvent>,
}

impl ObservedClient {
    async fn new(deployment: &Deployment, options: &str) -> Self {
        log::RetryLog::of_all();
        let (commands, pools) = (Recorder::new(), Recorder::new());
        let mut parsed = ClientOptions::parse(deployment.uri(options)).await.unwrap();
        parsed.command_event_handler = Some(commands.handler());
        parsed.cmap_event_handler = Some(pools.handler());
        let client = Client::with_options(parsed).unwrap();
        let books = client.database("db").collection("books");
        Self { client, books, commands, pools }
    }

    async fn run(&self, operation: &Operation) -> Result<()> {
        bounded((operation.run)(self.books.clone())).await
    }

    async fn ping(&self) {
        bounded(self.client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    }

    /// Returns the started commands with this name. Checks that each started command has exactly one succeeded or
    /// failed event.
    #[track_caller]
    fn started(&self, name: &str) -> Vec<CommandStartedEvent> {
        let mut started = self.all_started();
        started.retain(|event| event.command_name == name);
        started
    }

    /// Like [`started`](Self::started), for commands with any name.
    #[track_caller]
    fn all_started(&self) -> Vec<CommandStartedEvent> {
        let (mut started, mut open) = (Vec::new(), BTreeSet::new());
        for event in self.commands.seen() {
            match event {
                CommandEvent::Started(event) => {
                    assert!(open.insert(event.request_id), "a request id is used twice: {event:?}");
                    started.push(event);
                }
                CommandEvent::Succeeded(event) => {
                    assert!(open.remove(&event.request_id), "ended without a start: {event:?}");
                }
                CommandEvent::Failed(event) => {
                    assert!(open.remove(&event.request_id), "ended without a start: {event:?}");
                }
                other => panic!("an event of an unknown kind: {other:?}"),
            }
        }
        assert!(open.is_empty(), "started, and neither succeeded nor failed: {open:?}");
        started
    }

    /// Returns the servers that received commands with this name.
    #[track_caller]
    fn addresses(&self, name: &str) -> BTreeSet<ServerAddress> {
        self.started(name).into_iter().map(|it| it.connection.address).collect()
    }

    /// Returns the `txnNumber` of the commands with this name.
    #[track_caller]
    fn numbers(&self, name: &str) -> Vec<Option<i64>> {
        self.started(name).iter().map(|event| event.command.get_i64("txnNumber").ok()).collect()
    }

    /// Returns the `lsid` of the commands with this name.
    #[track_caller]
    fn sessions(&self, name: &str) -> Vec<Document> {
        let id = |event: &CommandStartedEvent| event.command.get_document("lsid").unwrap().clone();
        self.started(name).iter().map(id).collect()
    }
}

/// Starts two mongos within the latency window, and a client that has discovered both.
async fn two_mongos(options: &str) -> (Deployment, ObservedClient) {
    let deployment = Deployment::start_all(Role::Mongos, 2);
    let options = format!("localThresholdMS=60000&{options}");
    let observed = ObservedClient::new(&deployment, &options).await;
    bounded(async {
        while observed.addresses("ping").len() < 2 {
            observed.ping().await;
        }
    })
    .await;
    (deployment, observed)
}

fn cluster_time(command: &Document) -> Option<Timestamp> {
    command.get_document("$clusterTime").ok()?.get_timestamp("clusterTime").ok()
}

/// Runs an operation on a primary with these faults.
async fn run_with(
    operation: &Operation,
    options: &str,
    faults: &[Fault],
) -> (Deployment, ObservedClient, Result<()>) {
    let deployment = Deployment::primary();
    deployment.inject(faults);
    let observed = ObservedClient::new(&deployment, options).await;
    let result = observed.run(operation).await;
    (deployment, observed, result)
}

/// Runs a future for each operation, concurrently.
async fn with_each<F: Future<Output = ()> + Send + 'static>(
    operations: Vec<Operation>,
    check: impl Fn(Operation) -> F,
) {
    let checks: Vec<_> = operations.into_iter().map(|it| tokio::spawn(check(it))).collect();
    for check in checks {
        check.await.expect("the check of an operation succeeds");
    }
}
