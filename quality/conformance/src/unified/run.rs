//! One test from its beginning to its end: "Executing a Test" in the specification.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bson::{Document, doc};

use super::{
    collection_data,
    deployment::Deployment,
    entities::Entities,
    events::{self, Journal},
    fail_points::FailPoints,
    logs::Logs,
    matching::Matcher,
    operations,
    schema::{Test, TestFile},
    stop::{Step, Stop},
};

/// A test that is being run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) deployment: Deployment,
    pub(super) entities: Entities,
    pub(super) fail_points: FailPoints,
    /// How many cursors the servers have forgotten on request.
    pub(super) cursors_killed: AtomicUsize,
    logs: Logs,
}

impl Run {
    fn new(deployment: Deployment, test: &Test) -> Self {
        Self {
            deployment,
            entities: Entities::new(defaults(test)),
            fail_points: FailPoints::default(),
            cursors_killed: AtomicUsize::new(0),
            logs: Logs::default(),
        }
    }
}

/// Longer than any test takes, on a busy machine, too. One that waits for what does not come has failed.
const BOUND: Duration = Duration::from_secs(120);

/// Runs a test on a deployment that suits it.
pub(super) fn run(deployment: Deployment, file: &TestFile, test: &Test) -> Step<()> {
    if !file.is_understood() {
        let version = file.schema_version;
        return Err(Stop::failed(format!("version {version} of the format is not understood")));
    }
    if test.expect_tracing_messages.is_some() {
        return Err(Stop::needs("OpenTelemetry"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let run = Arc::new(Run::new(deployment, test));
    let work = || runtime.block_on(play(&run, file, test));
    // Whoever listens makes the driver put everything into words: only where it is looked at.
    if test.expect_log_messages.is_some() { run.logs.during(work) } else { work() }
}

/// The options of the test's clients, unless it gives them itself.
fn defaults(test: &Test) -> Document {
    let mut defaults = doc! {};
    if test.operations.iter().any(|operation| operation.name == "failPoint") {
        // A client whose server fails on purpose should not wait long until it looks again.
        defaults.insert("heartbeatFrequencyMS", 500);
    }
    if meets_overload(test) {
        // The suites count on a default of two; the driver's own is the older specification's five.
        defaults.insert("maxAdaptiveRetries", 2);
    }
    defaults
}

/// Whether a server is told to say that it is overloaded.
fn meets_overload(test: &Test) -> bool {
    let fails = test.operations.iter().filter(|operation| operation.name == "failPoint");
    fails.into_iter().any(|fails| fails.arguments.to_string().contains("SystemOverloadedError"))
}

async fn play(run: &Arc<Run>, file: &TestFile, test: &Test) -> Step<()> {
    let played = match tokio::time::timeout(BOUND, operate(run, file, test)).await {
        Ok(played) => played,
        Err(_) => Err(Stop::failed(format!("it has not ended within {BOUND:?}"))),
    };
    await_background_commands(run, test).await;
    for entity in run.entities.clients() {
        entity.journal.close();
    }
    run.logs.close();
    let cleared = run.fail_points.clear(&run.deployment).await;
    let judged = match played.and(cleared) {
        Ok(()) => judge(run, test).await,
        stopped => stopped,
    };
    let clients = run.entities.clients();
    run.entities.clear();
    for entity in clients {
        entity.client.shutdown().immediate(true).await;
    }
    judged.and(end_transactions(run, test).await)
}

/// Ends all transactions, which would keep the next test waiting: on each mongos of a sharded cluster.
async fn end_transactions(run: &Run, test: &Test) -> Step<()> {
    if !starts_transactions(test) {
        return Ok(());
    }
    /// Code of the command itself, which is killed, too (SERVER-38335).
    const INTERRUPTED: i32 = 11601;
    for client in run.deployment.transaction_clients() {
        let admin = client.database("admin");
        match admin.run_command(doc! { "killAllSessions": [] }).await {
            Err(error) if error.code() != Some(INTERRUPTED) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn starts_transactions(test: &Test) -> bool {
    let starts = |name: &str| ["startTransaction", "withTransaction"].contains(&name);
    test.operations.iter().any(|operation| starts(&operation.name))
}

/// Waits for the `killCursors` and `abortTransaction` commands that a test expects. The driver sends
/// them in the background after a cursor failed or was dropped, and after the deadline of `and_run`.
async fn await_background_commands(run: &Run, test: &Test) {
    const TIMEOUT: Duration = Duration::from_secs(10);
    for expected in test.expect_events.as_deref().unwrap_or_default() {
        let Ok(entity) = run.entities.client(&expected.client) else { continue };
        let count = |name| expected.events.iter().filter(|event| event.is_start_of(name)).count();
        let (kills, aborts) = (count("killCursors"), count("abortTransaction"));
        if kills + aborts > 0 {
            let all = |journal: &Journal| {
                journal.killed_cursors() >= kills && journal.aborted_transactions() >= aborts
            };
            entity.journal.wait(TIMEOUT, all).await;
        }
    }
}

async fn operate(run: &Arc<Run>, file: &TestFile, test: &Test) -> Step<()> {
    let data = file.initial_data.as_deref().unwrap_or_default();
    let cluster_time = collection_data::prepare(&run.deployment.client, data).await?;
    if run.deployment.is_sharded() {
        // A mongos that has an older time would choose a snapshot before the initial data: "MigrationConflict Errors on
        // Sharded Clusters" in the specification.
        run.entities.advance_sessions_to(cluster_time);
        if starts_transactions(test) {
            collection_data::refresh_routing(&run.deployment, data).await?;
        }
    }
    let entities = file.create_entities.as_deref().unwrap_or_default();
    run.entities.create(&run.deployment, entities).await?;
    for operation in &test.operations {
        operations::execute(Arc::clone(run), operation.clone()).await?;
    }
    Ok(())
}

/// Whether all is as the test expects after its operations.
async fn judge(run: &Run, test: &Test) -> Step<()> {
    let matcher = Matcher::new(&run.entities);
    for expected in test.expect_events.as_deref().unwrap_or_default() {
        let journal = run.entities.client(&expected.client)?.journal;
        events::expect(&matcher, expected, &journal)
            .map_err(|stop| stop.within(format!("events of {}", expected.client)))?;
    }
    for expected in test.expect_log_messages.as_deref().unwrap_or_default() {
        let entity = run.entities.client(&expected.client)?;
        let topology = entity.journal.topology_id().ok_or("the client never opened")?;
        let components = entity.logs.ok_or("the client's log messages are not observed")?;
        run.logs
            .expect(&matcher, expected, (topology, &components))
            .map_err(|stop| stop.within(format!("log messages of {}", expected.client)))?;
    }
    collection_data::check(&run.deployment.client, test.outcome.as_deref().unwrap_or_default())
        .await
        .map_err(|stop| stop.within("outcome"))
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::*;
    use crate::{Context, SpecDir, Target};

    #[test]
    fn sessions_on_a_sharded_cluster_begin_with_the_cluster_time_of_the_initial_data() {
        let file = doc! {
            "description": "a file",
            "schemaVersion": "1.0",
            "createEntities": [
                { "client": { "id": "client" } },
                { "session": { "id": "session", "client": "client" } },
            ],
            "initialData": [
                { "databaseName": "runner", "collectionName": "c", "documents": [{ "_id": 1 }] },
            ],
            "tests": [{ "description": "a test", "operations": [] }],
        };
        let file = TestFile::parse(file).unwrap();
        let spec = SpecDir::open(testbed::require!(testbed::spec_tests())).unwrap();
        let cluster_time = |target| {
            let context = Context::new(spec.clone(), target);
            let Ok(deployment) = Deployment::for_test(&context, &file, None) else { panic!() };
            let turn = Arc::clone(&deployment.turn);
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let run = Arc::new(Run::new(deployment, &file.tests[0]));
            runtime.block_on(async {
                operate(&run, &file, &file.tests[0]).await.unwrap();
                let mut session = run.entities.session("session").unwrap().take().await.unwrap();
                session.session().cluster_time()
            })
        };
        assert!(cluster_time(Target::EmbeddedSharded).is_some());
        // Elsewhere a session knows none before its first command.
        assert!(cluster_time(Target::Embedded).is_none());
    }
}
