//! Prose tests that require mongos, on a real sharded cluster of version 8.2: retryable writes 4 and 5, retryable
//! reads 2.1 and 2.2, server selection 1, pinning of transactions 1 and 2.

use std::{collections::BTreeSet, net::SocketAddr};

use futures_util::future::join_all;
use steadfast::Collection;
use testbed::{Mongos, ShardedCluster, Version, shared};

use super::*;

/// `HostUnreachable`, which does not mark a server unknown.
const HOST_UNREACHABLE: i32 = 6;
/// Number of rounds. A driver that selects at random would pass each with probability one half.
const ROUNDS: usize = 10;

/// Returns the shared cluster, or `None` if there is no server of version 8.2.
fn cluster() -> Option<&'static ShardedCluster> {
    testbed::found_or_skip(testbed::servers(Version::V8_2))?;
    Some(shared::sharded_cluster().expect("a sharded cluster"))
}

/// `failCommand` on some mongos, for clients with one `appName`. Held by one test at a time, and disabled when it
/// is dropped. A mongos has one fail point of this name.
struct MongosFailPoint {
    servers: &'static [Mongos],
    _turn: MutexGuard<'static, ()>,
}

impl MongosFailPoint {
    async fn set(
        servers: &'static [Mongos],
        app_name: &str,
        mode: impl Into<steadfast::bson::Bson>,
        mut data: Document,
    ) -> Self {
        static TURNS: Mutex<()> = Mutex::const_new(());
        let point = Self { servers, _turn: TURNS.lock().await };
        data.insert("appName", app_name);
        let on = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        for mongos in servers {
            mongos.run_command("admin", on.clone()).expect("a fail point");
        }
        point
    }

    /// Sets it for the next command with this name on each of these servers.
    async fn once(servers: &'static [Mongos], app_name: &str, data: Document) -> Self {
        Self::set(servers, app_name, doc! { "times": 1 }, data).await
    }
}

impl Drop for MongosFailPoint {
    fn drop(&mut self) {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        for mongos in self.servers {
            // An unreachable mongos cannot affect other tests.
            drop(mongos.run_command("admin", off.clone()));
        }
    }
}

/// Creates a client of these mongos that has selected each of them.
async fn client_of(servers: &[Mongos], app_name: &str) -> ProseClient {
    let hosts: Vec<String> = servers.iter().map(|mongos| mongos.address().to_string()).collect();
    let uri =
        format!("mongodb://{}/?localThresholdMS=60000&heartbeatFrequencyMS=500", hosts.join(","));
    let observed = ProseClient::at(&uri, app_name, |_| ()).await;
    select_each(&observed, servers).await;
    observed
}

/// Sends `ping` until each of these mongos has replied to one.
async fn select_each(observed: &ProseClient, servers: &[Mongos]) {
    let admin = observed.client.database("admin");
    let earlier = observed.ends("ping").0.len();
    bounded(async {
        while distinct(&observed.ends("ping").0[earlier..]).len() < servers.len() {
            admin.run_command(doc! { "ping": 1 }).await.unwrap();
        }
    })
    .await;
}

fn distinct(servers: &[ServerAddress]) -> BTreeSet<String> {
    servers.iter().map(ServerAddress::to_string).collect()
}

fn addresses(servers: &[Mongos]) -> BTreeSet<String> {
    servers.iter().map(Mongos::address).map(|address: SocketAddr| address.to_string()).collect()
}

/// `failCommand` for this command, with these labels.
fn failing(command: &str, labels: &[&str]) -> Document {
    let mut data = doc! { "failCommands": [command], "errorCode": HOST_UNREACHABLE };
    if !labels.is_empty() {
        data.insert("errorLabels", labels);
    }
    data
}

/// Fails both attempts of an operation, in several rounds, and checks that the second goes to the other mongos.
async fn is_retried_on_another_mongos(
    app_name: &'static str,
    (command, labels): (&str, &[&str]),
    operation: impl AsyncFn(Collection<Document>) -> Result<(), Error>,
) {
    let Some(cluster) = cluster() else { return };
    let observed = client_of(cluster.mongos(), app_name).await;
    for round in 1..=ROUNDS {
        let data = failing(command, labels);
        let _point = MongosFailPoint::once(cluster.mongos(), app_name, data).await;
        let error = bounded(operation(observed.collection("mongos_retries"))).await.unwrap_err();
        assert_eq!(error.code(), Some(HOST_UNREACHABLE), "{error:?}");
        let (succeeded, failed) = observed.ends(command);
        assert_eq!((succeeded.len(), failed.len()), (0, 2 * round), "{error:?}");
        assert_eq!(distinct(&failed[2 * round - 2..]), addresses(cluster.mongos()));
        assert_eq!(error.server_address(), failed.last(), "it names its own server: {error:?}");
    }
}

/// Fails the first attempt of an operation with a single mongos, and checks that the second goes to it, too.
async fn is_retried_on_the_only_mongos(
    app_name: &'static str,
    (command, labels): (&str, &[&str]),
    operation: impl AsyncFn(Collection<Document>) -> Result<(), Error>,
) {
    let Some(cluster) = cluster() else { return };
    let only = &cluster.mongos()[..1];
    let observed = client_of(only, app_name).await;
    let _point = MongosFailPoint::once(only, app_name, failing(command, labels)).await;
    bounded(operation(observed.collection("mongos_retries"))).await.unwrap();
    let (succeeded, failed) = observed.ends(command);
    assert_eq!((succeeded.len(), failed.len()), (1, 1));
    assert_eq!(distinct(&succeeded), addresses(only));
    assert_eq!(succeeded, failed);
}

const INSERT: (&str, &[&str]) = ("insert", &["RetryableWriteError"]);
const FIND: (&str, &[&str]) = ("find", &[]);

async fn insert(collection: Collection<Document>) -> Result<(), Error> {
    collection.insert_one(doc! {}).await.map(drop)
}

async fn find(collection: Collection<Document>) -> Result<(), Error> {
    collection.find_one(doc! {}).await.map(drop)
}

#[tokio::test]
async fn prose_4_a_write_is_retried_on_another_mongos() {
    is_retried_on_another_mongos("retryable writes, prose 4", INSERT, insert).await;
}

#[tokio::test]
async fn prose_5_a_write_is_retried_on_the_only_mongos() {
    is_retried_on_the_only_mongos("retryable writes, prose 5", INSERT, insert).await;
}

#[tokio::test]
async fn prose_2_1_a_read_is_retried_on_another_mongos() {
    is_retried_on_another_mongos("retryable reads, prose 2.1", FIND, find).await;
}

#[tokio::test]
async fn prose_2_2_a_read_is_retried_on_the_only_mongos() {
    is_retried_on_the_only_mongos("retryable reads, prose 2.2", FIND, find).await;
}

/// The shard detects the retry of an executed write with a retryable error, through any mongos.
#[tokio::test]
async fn a_write_that_one_mongos_executed_is_not_applied_twice_by_the_retry_on_the_other() {
    let Some(cluster) = cluster() else { return };
    let app_name = "a write executed by one mongos";
    let observed = client_of(cluster.mongos(), app_name).await;
    let counters = observed.collection("mongos_counters");
    counters.insert_one(doc! { "_id": 0, "n": 0 }).await.unwrap();
    for round in 1..=5 {
        // The errors of the round before made both mongos Unknown.
        select_each(&observed, cluster.mongos()).await;
        // A write concern error is added to the reply of a write that was executed.
        let data = doc! {
            "failCommands": ["update"], "errorLabels": ["RetryableWriteError"],
            "writeConcernError": { "code": 91, "errmsg": "shutting down" },
        };
        let point = MongosFailPoint::once(cluster.mongos(), app_name, data).await;
        let increment = counters.update_one(doc! { "_id": 0 }, doc! { "$inc": { "n": 1 } });
        let error = bounded(increment).await.unwrap_err();
        assert_eq!(error.attempt_count(), 2, "{error:?}");
        drop(point);
        let found = counters.find_one(doc! { "_id": 0 }).await.unwrap().unwrap();
        assert_eq!(found.get_i32("n").unwrap(), round, "{error:?}");
    }
    assert_eq!(distinct(&observed.ends("update").0), addresses(cluster.mongos()));
}

/// The specification requires that both mongos get half of the reads, within a tenth of all. One may be slower on a
/// busy machine, so the test allows a quarter.
#[tokio::test]
async fn prose_1_a_slow_mongos_is_selected_less_often() {
    const TASKS: usize = 10;
    let Some(cluster) = cluster() else { return };
    let app_name = "selection, prose 1";
    let slow = &cluster.mongos()[..1];
    let observed = client_of(cluster.mongos(), app_name).await;
    let found = observed.collection("mongos_selection");
    let read = |times: usize| {
        let found = &found;
        let reads = move |_| async move {
            for _ in 0..times {
                found.find_one(doc! {}).await.unwrap();
            }
        };
        bounded(join_all((0..TASKS).map(reads)))
    };
    // Connections are established first: that would count as operations.
    read(5).await;
    let before = observed.ends("find").0.len();
    let share_of_slow = |from: usize| {
        let servers = observed.ends("find").0.split_off(from);
        let of_slow = servers.iter().filter(|&server| *server == slow[0].address().into());
        of_slow.count() * 100 / servers.len()
    };
    let data = doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 500 };
    let point = MongosFailPoint::set(slow, app_name, "alwaysOn", data).await;
    read(10).await;
    let share = share_of_slow(before);
    assert!(share < 25, "{share} % of the reads were on the slow mongos");
    drop(point);
    let before = observed.ends("find").0.len();
    read(100).await;
    let share = share_of_slow(before);
    assert!((25..=75).contains(&share), "{share} % of the reads were on the first mongos");
}

#[tokio::test]
async fn prose_pinning_1_the_next_transaction_is_not_pinned_to_the_mongos_of_the_last() {
    let Some(cluster) = cluster() else { return };
    let observed = client_of(cluster.mongos(), "transactions, pinning 1").await;
    let numbers = observed.collection("mongos_pinning_1");
    numbers.insert_one(doc! {}).await.unwrap();
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    numbers.insert_one(doc! {}).session(&mut session).await.unwrap();
    bounded(session.commit_transaction()).await.unwrap();
    for _ in 0..50 {
        session.start_transaction().await.unwrap();
        bounded(numbers.find_one(doc! {}).session(&mut session)).await.unwrap().unwrap();
        bounded(session.commit_transaction()).await.unwrap();
    }
    let reads = observed.ends("find").0;
    assert_eq!((reads.len(), distinct(&reads)), (50, addresses(cluster.mongos())));
    let commits = observed.ends("commitTransaction").0.split_off(1);
    assert_eq!(commits, reads, "each is committed where it was begun");
}

#[tokio::test]
async fn prose_pinning_2_an_operation_outside_a_transaction_is_not_pinned() {
    let Some(cluster) = cluster() else { return };
    let observed = client_of(cluster.mongos(), "transactions, pinning 2").await;
    let numbers = observed.collection("mongos_pinning_2");
    numbers.insert_one(doc! {}).await.unwrap();
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    numbers.insert_one(doc! {}).session(&mut session).await.unwrap();
    bounded(session.commit_transaction()).await.unwrap();
    for _ in 0..50 {
        bounded(numbers.find_one(doc! {}).session(&mut session)).await.unwrap().unwrap();
    }
    let reads = observed.ends("find").0;
    assert_eq!((reads.len(), distinct(&reads)), (50, addresses(cluster.mongos())));
}
