//! Operations of the object `testRunner`: fail points, threads, waits, assertions.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use steadfast::TransactionState;

use super::{Arguments, OperationResult, execute};
use crate::unified::{
    entities::Entity,
    events,
    matching::Matcher,
    run::TestRun,
    schema::{EntitySpec, EventExpectation, NonEmpty, Operation},
    test_error::{TestError, TestResult},
};

/// Limit of waits for events and for another primary, as the format requires.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn call(
    run: &Arc<TestRun>,
    name: &str,
    mut given: Arguments,
) -> TestResult<OperationResult> {
    match name {
        "failPoint" => fail_point(run, &mut given).await?,
        "targetedFailPoint" => targeted_fail_point(run, &mut given).await?,
        "createEntities" => {
            let specs: NonEmpty<EntitySpec> = given.required("entities")?;
            run.entities.create(&run.deployment, &specs).await?;
        }
        "runOnThread" => {
            let thread = run.entities.thread(&given.required::<String>("thread")?)?;
            let operation: Operation = given.required("operation")?;
            thread.queue(execute(Arc::clone(run), operation))?;
        }
        "waitForThread" => {
            let thread = run.entities.thread(&given.required::<String>("thread")?)?;
            thread.finish().await?;
        }
        "wait" => tokio::time::sleep(millis(&mut given, "ms")?).await,
        "waitForEvent" => wait_for_event(run, &mut given).await?,
        "assertEventCount" => assert_event_count(run, &mut given)?,
        "recordTopologyDescription" => record_topology(run, &mut given)?,
        "assertTopologyType" => assert_topology_type(run, &mut given)?,
        "waitForPrimaryChange" => wait_for_primary_change(run, &mut given).await?,
        "assertNumberConnectionsCheckedOut" => assert_checked_out(run, &mut given).await?,
        "assertSameLsidOnLastTwoCommands" => assert_same_lsid(run, &mut given, true)?,
        "assertDifferentLsidOnLastTwoCommands" => assert_same_lsid(run, &mut given, false)?,
        "assertCollectionExists" => assert_collection(run, &mut given, true).await?,
        "assertCollectionNotExists" => assert_collection(run, &mut given, false).await?,
        "assertIndexExists" => assert_index(run, &mut given, true).await?,
        "assertIndexNotExists" => assert_index(run, &mut given, false).await?,
        "assertSessionDirty" => assert_dirty(run, &mut given, true).await?,
        "assertSessionNotDirty" => assert_dirty(run, &mut given, false).await?,
        "assertSessionTransactionState" => assert_transaction_state(run, &mut given).await?,
        "assertSessionPinned" => assert_pinned(run, &mut given, true).await?,
        "assertSessionUnpinned" => assert_pinned(run, &mut given, false).await?,
        "loop" => return Err(TestError::needs("loops, which the format has deprecated")),
        _ => return Err(TestError::failed(format!("unknown operation {name} of the runner"))),
    }
    given.done()?;
    Ok(OperationResult::Nothing)
}

async fn fail_point(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let entity = run.entities.client(&given.required::<String>("client")?)?;
    let command = given.required("failPoint")?;
    run.fail_points.set(&entity.client, &entity.recorder, command).await
}

/// Enables a fail point on the server that a session is pinned to.
async fn targeted_fail_point(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let session = run.entities.session(&given.required::<String>("session")?)?;
    let server = session.pinned_server().await?;
    let command = given.required("failPoint")?;
    run.fail_points.set_on(&run.deployment, server, command).await
}

async fn wait_for_event(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let expected: EventExpectation = given.required("event")?;
    let count: usize = given.required("count")?;
    let matcher = Matcher::new(&run.entities);
    let count_events = || events_like(&matcher, &expected, &recorder);
    if recorder.wait(EVENT_TIMEOUT, |_| count_events() >= count).await {
        return Ok(());
    }
    let seen = count_events();
    Err(TestError::failed(format!(
        "{seen} of {count} events within {EVENT_TIMEOUT:?}: {expected:?}"
    )))
}

fn assert_event_count(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let expected: EventExpectation = given.required("event")?;
    let count: usize = given.required("count")?;
    let seen = events_like(&Matcher::new(&run.entities), &expected, &recorder);
    if seen == count {
        return Ok(());
    }
    Err(TestError::failed(format!("{seen} events, not {count}: {expected:?}")))
}

fn events_like(
    matcher: &Matcher<'_>,
    expected: &EventExpectation,
    recorder: &events::EventRecorder,
) -> usize {
    let is_wanted = |event: &events::Event| events::matches(matcher, expected, event).is_ok();
    recorder.events().iter().filter(|event| is_wanted(event)).count()
}

fn record_topology(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let description = recorder.description().ok_or("the client has no topology description yet")?;
    let id: String = given.required("id")?;
    run.entities.add(&id, Entity::Topology(Arc::new(description)))
}

fn assert_topology_type(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let name: String = given.required("topologyDescription")?;
    let found = run.entities.topology(&name)?.topology_type.name();
    let expected: String = given.required("topologyType")?;
    if found == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("the topology is {found}, not {expected}")))
}

async fn wait_for_primary_change(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let prior = run.entities.topology(&given.required::<String>("priorTopologyDescription")?)?;
    let limit = given.optional("timeoutMS")?.map_or(EVENT_TIMEOUT, Duration::from_millis);
    let prior = prior.primary().map(|server| server.address.clone());
    let changed = |recorder: &events::EventRecorder| {
        let now = recorder.description();
        let now = now.as_ref().and_then(|now| now.primary()).map(|server| &server.address);
        now.is_some_and(|now| prior.as_ref() != Some(now))
    };
    if recorder.wait(limit, changed).await {
        return Ok(());
    }
    Err(TestError::failed(format!("no other primary within {limit:?}")))
}

async fn assert_checked_out(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let expected: i64 = given.required("connections")?;
    // A failed cursor is killed in the background, on its pinned connection.
    if recorder.wait(EVENT_TIMEOUT, |recorder| recorder.checked_out() == expected).await {
        return Ok(());
    }
    let found = recorder.checked_out();
    Err(TestError::failed(format!("{found} connections are checked out, not {expected}")))
}

fn assert_same_lsid(run: &TestRun, given: &mut Arguments, same: bool) -> TestResult<()> {
    let recorder = run.entities.client(&given.required::<String>("client")?)?.recorder;
    let commands = recorder.last_two_commands().ok_or("fewer than two commands were sent")?;
    let [last, before] = commands.map(|command| command.get("lsid").cloned());
    let (Some(last), Some(before)) = (last, before) else {
        return Err(TestError::failed("a command has no lsid"));
    };
    if (last == before) == same {
        return Ok(());
    }
    Err(TestError::failed(format!("the last two commands have the ids {before} and {last}")))
}

async fn assert_dirty(run: &TestRun, given: &mut Arguments, expected: bool) -> TestResult<()> {
    let name: String = given.required("session")?;
    let dirty = run.entities.session(&name)?.lock().await?.session().is_dirty();
    if dirty == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("dirty state of {name} must be {expected}")))
}

async fn assert_transaction_state(run: &TestRun, given: &mut Arguments) -> TestResult<()> {
    let name: String = given.required("session")?;
    let expected: String = given.required("state")?;
    let found = match run.entities.session(&name)?.lock().await?.session().transaction_state() {
        TransactionState::None => "none",
        TransactionState::Starting => "starting",
        TransactionState::InProgress => "in_progress",
        TransactionState::Committed { .. } => "committed",
        TransactionState::Aborted => "aborted",
    };
    if found == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("the transaction of {name} is {found}, not {expected}")))
}

async fn assert_pinned(run: &TestRun, given: &mut Arguments, expected: bool) -> TestResult<()> {
    let name: String = given.required("session")?;
    if run.entities.session(&name)?.lock().await?.session().is_pinned() == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("pinned state of {name} must be {expected}")))
}

async fn assert_collection(run: &TestRun, given: &mut Arguments, expected: bool) -> TestResult<()> {
    let database: String = given.required("databaseName")?;
    let collection: String = given.required("collectionName")?;
    let database = run.deployment.client.database(&database);
    let names = database.list_collection_names().filter(doc! { "name": &collection }).await?;
    if names.contains(&collection) == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("existence of {collection} must be {expected}")))
}

async fn assert_index(run: &TestRun, given: &mut Arguments, expected: bool) -> TestResult<()> {
    let database: String = given.required("databaseName")?;
    let collection: String = given.required("collectionName")?;
    let index: String = given.required("indexName")?;
    let database = run.deployment.client.database(&database);
    let collection = database.collection::<Document>(&collection);
    let names = match collection.list_index_names().await {
        Ok(names) => names,
        // NamespaceNotFound.
        Err(error) if error.code() == Some(26) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if names.contains(&index) == expected {
        return Ok(());
    }
    Err(TestError::failed(format!("existence of {index} must be {expected}")))
}

fn millis(given: &mut Arguments, key: &str) -> TestResult<Duration> {
    let value: Bson = given.required(key)?;
    let millis = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
    millis.map(Duration::from_millis).ok_or_else(|| TestError::failed(format!("{key} is {value}")))
}
