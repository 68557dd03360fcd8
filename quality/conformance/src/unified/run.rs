//! Execution of one test: "Executing a Test" in the specification.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bson::{Document, doc};

use super::{
    collection_data,
    deployment::Deployment,
    entities::Entities,
    events::{self, EventRecorder},
    fail_points::FailPoints,
    logs::CapturedLogs,
    matching::Matcher,
    operations,
    schema::{Test, TestFile},
    test_error::{TestError, TestResult},
};

/// State of a running test.
#[derive(Debug)]
pub(super) struct TestRun {
    pub(super) deployment: Deployment,
    pub(super) entities: Entities,
    pub(super) fail_points: FailPoints,
    /// Number of cursors that `killCursors` has killed.
    pub(super) cursors_killed: AtomicUsize,
    logs: CapturedLogs,
}

impl TestRun {
    fn new(deployment: Deployment, test: &Test) -> Self {
        Self {
            deployment,
            entities: Entities::new(default_uri_options(test)),
            fail_points: FailPoints::default(),
            cursors_killed: AtomicUsize::new(0),
            logs: CapturedLogs::default(),
        }
    }
}

/// Time-out of a test. Exceeded only by a hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a test on a deployment that meets its requirements.
pub(super) fn run(deployment: Deployment, file: &TestFile, test: &Test) -> TestResult<()> {
    if !file.has_supported_version() {
        let version = file.schema_version;
        return Err(TestError::failed(format!("version {version} of the format is not supported")));
    }
    if test.expect_tracing_messages.is_some() {
        return Err(TestError::needs("OpenTelemetry"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let run = Arc::new(TestRun::new(deployment, test));
    let work = || runtime.block_on(execute(&run, file, test));
    // The driver formats log messages only if there is a subscriber.
    if test.expect_log_messages.is_some() { run.logs.capture(work) } else { work() }
}

/// Default options of the test's clients.
fn default_uri_options(test: &Test) -> Document {
    let mut defaults = doc! {};
    if test.operations.iter().any(|operation| operation.name == "failPoint") {
        // After a fail point, clients find a working server within half a second.
        defaults.insert("heartbeatFrequencyMS", 500);
    }
    if has_overload_fail_point(test) {
        // The suites expect the later revision's default of 2. The driver's default is 5.
        defaults.insert("maxAdaptiveRetries", 2);
    }
    defaults
}

/// Returns true if a fail point of the test returns `SystemOverloadedError`.
fn has_overload_fail_point(test: &Test) -> bool {
    let mut fail_points = test.operations.iter().filter(|operation| operation.name == "failPoint");
    fail_points.any(|it| it.arguments.to_string().contains("SystemOverloadedError"))
}

async fn execute(run: &Arc<TestRun>, file: &TestFile, test: &Test) -> TestResult<()> {
    let executed = match tokio::time::timeout(TEST_TIMEOUT, run_operations(run, file, test)).await {
        Ok(executed) => executed,
        Err(_) => Err(TestError::failed(format!("the test did not end within {TEST_TIMEOUT:?}"))),
    };
    await_background_commands(run, test).await;
    for entity in run.entities.clients() {
        entity.recorder.close();
    }
    run.logs.close();
    let cleared = run.fail_points.clear(&run.deployment).await;
    let checked = match executed.and(cleared) {
        Ok(()) => check_expectations(run, test).await,
        failed => failed,
    };
    let clients = run.entities.clients();
    run.entities.clear();
    for entity in clients {
        entity.client.shutdown().immediate(true).await;
    }
    checked.and(end_transactions(run, test).await)
}

/// Ends all transactions (`killAllSessions`), on each mongos of a sharded cluster: the next test would wait for them.
async fn end_transactions(run: &TestRun, test: &Test) -> TestResult<()> {
    if !starts_transactions(test) {
        return Ok(());
    }
    /// Error code of `killAllSessions`, which kills its own session, too (SERVER-38335).
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

/// Waits for the `killCursors` and `abortTransaction` commands that a test expects. The driver sends them in the
/// background after a cursor failed or was dropped, and after the deadline of `and_run`.
async fn await_background_commands(run: &TestRun, test: &Test) {
    const TIMEOUT: Duration = Duration::from_secs(10);
    for expected in test.expect_events.as_deref().unwrap_or_default() {
        let Ok(entity) = run.entities.client(&expected.client) else { continue };
        let count = |name| expected.events.iter().filter(|event| event.is_start_of(name)).count();
        let (kills, aborts) = (count("killCursors"), count("abortTransaction"));
        if kills + aborts > 0 {
            let all = |recorder: &EventRecorder| {
                recorder.ended_kill_cursors() >= kills
                    && recorder.ended_abort_transactions() >= aborts
            };
            entity.recorder.wait(TIMEOUT, all).await;
        }
    }
}

async fn run_operations(run: &Arc<TestRun>, file: &TestFile, test: &Test) -> TestResult<()> {
    let data = file.initial_data.as_deref().unwrap_or_default();
    let cluster_time = collection_data::prepare(&run.deployment.client, data).await?;
    if run.deployment.is_sharded() {
        // Otherwise a mongos could choose a snapshot before the initial data: "MigrationConflict Errors on Sharded
        // Clusters" in the specification.
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

/// Compares events, log messages and documents with those that the test expects after its operations.
async fn check_expectations(run: &TestRun, test: &Test) -> TestResult<()> {
    let matcher = Matcher::new(&run.entities);
    for expected in test.expect_events.as_deref().unwrap_or_default() {
        let recorder = run.entities.client(&expected.client)?.recorder;
        events::expect(&matcher, expected, &recorder)
            .map_err(|error| error.within(format!("events of {}", expected.client)))?;
    }
    for expected in test.expect_log_messages.as_deref().unwrap_or_default() {
        let entity = run.entities.client(&expected.client)?;
        let topology =
            entity.recorder.topology_id().ok_or("the client has not opened its topology")?;
        let components = entity.logs.ok_or("the client's log messages are not observed")?;
        run.logs
            .expect(&matcher, expected, (topology, &components))
            .map_err(|error| error.within(format!("log messages of {}", expected.client)))?;
    }
    collection_data::check(&run.deployment.client, test.outcome.as_deref().unwrap_or_default())
        .await
        .map_err(|error| error.within("outcome"))
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
            let lock = Arc::clone(&deployment.lock);
            let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let run = Arc::new(TestRun::new(deployment, &file.tests[0]));
            runtime.block_on(async {
                run_operations(&run, &file, &file.tests[0]).await.unwrap();
                let mut session = run.entities.session("session").unwrap().lock().await.unwrap();
                session.session().cluster_time().cloned()
            })
        };
        assert!(cluster_time(Target::EmbeddedSharded).is_some());
        // Without mongos, a session has no cluster time before its first command.
        assert!(cluster_time(Target::Embedded).is_none());
    }
}
