//! Prose tests of ten specifications, with their numbers: retryable writes, retryable reads, client backpressure,
//! client-side operations timeout, change streams, server discovery and monitoring, connection pools, server
//! selection, transactions and client bulk writes. Each module names the omitted tests, with the reason.
//!
//! They have their own replica set, because a server has only one `failCommand`.

mod change_streams;
mod client_bulk_write;
mod discovery;
mod mongos;
mod overload;
mod pooling;
mod retryable_reads;
mod retryable_writes;
mod selection;
mod timeouts;
mod transactions;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast::{
    Client,
    bson::{Document, doc},
    error::Error,
    event::{
        EventHandler,
        cmap::{CmapEvent, ConnectionCheckoutFailedReason},
        command::CommandEvent,
        sdam::SdamEvent,
    },
    options::{ClientOptions, ServerAddress},
};
use testbed::{Options, ReplicaSet};
use tokio::sync::{Mutex, MutexGuard};

use crate::common::{Clock, Recorder, bounded};

/// Replica set of these tests, with three members.
fn set() -> &'static ReplicaSet {
    static SET: OnceLock<ReplicaSet> = OnceLock::new();
    // A long election time-out, so that a slow primary on a busy machine causes no election.
    let options = || Options::new().election_timeout(Duration::from_secs(10));
    SET.get_or_init(|| ReplicaSet::start(3, options()).expect("a replica set"))
}

/// Returns the number of the primary and those of the secondaries.
fn members() -> (usize, Vec<usize>) {
    let primary = set().wait_for_primary().expect("a primary");
    let secondaries = (0..set().members().len()).filter(|member| *member != primary);
    (primary, secondaries.collect())
}

fn address(member: usize) -> ServerAddress {
    set().addresses()[member].into()
}

/// `failCommand` on some members, for clients with one `appName`. Held by one test at a time, and disabled when it
/// is dropped.
struct FailPoint {
    members: Vec<usize>,
    app_name: &'static str,
    _turn: MutexGuard<'static, ()>,
}

impl FailPoint {
    /// Locks the fail point, which is still disabled.
    async fn reserve(members: Vec<usize>, app_name: &'static str) -> Self {
        static TURNS: Mutex<()> = Mutex::const_new(());
        Self { members, app_name, _turn: TURNS.lock().await }
    }

    /// Enables the fail point on the primary.
    async fn on_primary(times: i32, data: Document, app_name: &'static str) -> Self {
        let point = Self::reserve(vec![members().0], app_name).await;
        point.set(times, data);
        point
    }

    /// Fails the next `times` commands that match `data`.
    fn set(&self, times: i32, data: Document) {
        fail(&self.members, self.app_name, times, data);
    }
}

impl Drop for FailPoint {
    fn drop(&mut self) {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        for member in &self.members {
            // One that cannot be reached cannot disturb the others either.
            drop(set().run_command(*member, "admin", off.clone()));
        }
    }
}

/// Sets the fail point on these members. The caller must hold the lock.
fn fail(members: &[usize], app_name: &str, times: i32, mut data: Document) {
    data.insert("appName", app_name);
    let on = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": times }, "data": data,
    };
    for member in members {
        set().run_command(*member, "admin", on.clone()).expect("a fail point");
    }
}

/// Client with recorded events.
struct ProseClient {
    client: Client,
    commands: Recorder<CommandEvent>,
    pools: Recorder<CmapEvent>,
    servers: Recorder<SdamEvent>,
}

impl ProseClient {
    /// Creates a client of the replica set.
    ///
    /// Its heartbeat frequency is half a second: a member that a fail point marked unknown reports no change, and
    /// stays unknown until the next heartbeat.
    async fn new(app_name: &str, change: impl FnOnce(&mut ClientOptions)) -> Self {
        let uri = format!("{}&heartbeatFrequencyMS=500", set().uri());
        Self::at(&uri, app_name, change).await
    }

    async fn at(uri: &str, app_name: &str, change: impl FnOnce(&mut ClientOptions)) -> Self {
        let (commands, pools, servers) = (Recorder::new(), Recorder::new(), Recorder::new());
        let mut options = ClientOptions::parse(uri).await.unwrap();
        options.app_name = Some(app_name.to_owned());
        options.command_event_handler = Some(commands.handler());
        options.cmap_event_handler = Some(pools.handler());
        options.sdam_event_handler = Some(servers.handler());
        change(&mut options);
        let client = Client::with_options(options).unwrap();
        Self { client, commands, pools, servers }
    }

    fn collection(&self, name: &str) -> steadfast::Collection<Document> {
        self.client.database("prose").collection(name)
    }

    /// Waits until this number of commands with this name were sent.
    async fn wait_for_started(&self, count: usize, name: &str) {
        let is_it = |event: &CommandEvent| matches!(event, CommandEvent::Started(it) if it.command_name == name);
        self.commands.wait_for(count, is_it).await;
    }

    /// Returns the number of sent commands with this name.
    fn started(&self, name: &str) -> usize {
        let is_it = |event: &&CommandEvent| matches!(event, CommandEvent::Started(it) if it.command_name == name);
        self.commands.seen().iter().filter(is_it).count()
    }

    /// Returns the servers on which commands with this name succeeded, and those on which they failed.
    fn ends(&self, name: &str) -> (Vec<ServerAddress>, Vec<ServerAddress>) {
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for event in self.commands.seen() {
            match event {
                CommandEvent::Succeeded(it) if it.command_name == name => {
                    succeeded.push(it.connection.address);
                }
                CommandEvent::Failed(it) if it.command_name == name => {
                    failed.push(it.connection.address);
                }
                _ => {}
            }
        }
        (succeeded, failed)
    }

    /// Returns the results of checkouts, and the pool cleared events, in order.
    fn checkouts(&self) -> Vec<Checkout> {
        let of_interest = |event| match event {
            CmapEvent::ConnectionCheckedOut(_) => Some(Checkout::Succeeded),
            CmapEvent::PoolCleared(_) => Some(Checkout::PoolCleared),
            CmapEvent::ConnectionCheckoutFailed(it) => Some(Checkout::Failed(it.reason)),
            _ => None,
        };
        self.pools.seen().into_iter().filter_map(of_interest).collect()
    }
}

#[derive(Debug, PartialEq)]
enum Checkout {
    Succeeded,
    PoolCleared,
    Failed(ConnectionCheckoutFailedReason),
}

/// Creates a client of the primary that changes the fail point to `then` after the first failed command.
async fn with_two_fail_points(
    point: &FailPoint,
    command: &'static str,
    then: Document,
    change: impl FnOnce(&mut ClientOptions),
) -> ProseClient {
    let (app_name, on) = (point.app_name, point.members.clone());
    let commands = Recorder::new();
    let recorder = commands.handler();
    let turned = AtomicBool::new(false);
    let mut observed = ProseClient::new(app_name, move |options| {
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            let failed =
                matches!(&event, CommandEvent::Failed(event) if event.command_name == command);
            if failed && !turned.swap(true, Ordering::Relaxed) {
                fail(&on, app_name, ALWAYS, then.clone());
            }
            let EventHandler::Callback(recorder) = &recorder else { unreachable!() };
            recorder(event);
        }));
        change(options);
    })
    .await;
    observed.commands = commands;
    observed
}

/// More times than any test sends a command.
const ALWAYS: i32 = 1_000;

/// Prose test that retryable writes and retryable reads share: of two operations with one connection, the first
/// fails with a shutdown error, which clears the pool during the checkout of the second. Both are retried.
async fn check_cleared_pool<T>(
    observed: &ProseClient,
    command: &str,
    both: impl Future<Output = [Result<T, Error>; 2]>,
) {
    for result in bounded(both).await {
        assert!(result.is_ok(), "{:?}", result.err());
    }
    let rejected = ConnectionCheckoutFailedReason::ConnectionError;
    let seen = observed.checkouts();
    let expected = [Checkout::Succeeded, Checkout::PoolCleared, Checkout::Failed(rejected)];
    assert_eq!(seen[..3], expected, "{seen:?}");
    assert_eq!(observed.started(command), 3);
}
