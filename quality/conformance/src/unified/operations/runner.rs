//! What the runner itself does for a test: fail points, threads, waiting, assertions.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use steadfast::TransactionState;

use super::{Arguments, Outcome, execute};
use crate::unified::{
    entities::Entity,
    events,
    matching::Matcher,
    run::Run,
    schema::{self, EventExpectation, NonEmpty, Operation},
    stop::{Step, Stop},
};

/// Time-out of waiting for events and for another primary, as the format demands.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn call(run: &Arc<Run>, name: &str, mut given: Arguments) -> Step<Outcome> {
    match name {
        "failPoint" => fail_point(run, &mut given).await?,
        "targetedFailPoint" => targeted_fail_point(run, &mut given).await?,
        "createEntities" => {
            let specs: NonEmpty<schema::Entity> = given.required("entities")?;
            run.entities.create(&run.deployment, &specs).await?;
        }
        "runOnThread" => {
            let thread = run.entities.thread(&given.required::<String>("thread")?)?;
            let operation: Operation = given.required("operation")?;
            thread.give(execute(Arc::clone(run), operation))?;
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
        "loop" => return Err(Stop::needs("loops, which the format has given up")),
        _ => return Err(Stop::failed(format!("unknown operation {name} of the runner"))),
    }
    given.done()?;
    Ok(Outcome::Nothing)
}

async fn fail_point(run: &Run, given: &mut Arguments) -> Step<()> {
    let entity = run.entities.client(&given.required::<String>("client")?)?;
    let command = given.required("failPoint")?;
    run.fail_points.set(&entity.client, &entity.journal, command).await
}

/// Sets a fail point on the server that a session is bound to.
async fn targeted_fail_point(run: &Run, given: &mut Arguments) -> Step<()> {
    let session = run.entities.session(&given.required::<String>("session")?)?;
    let server = session.pinned_server().await?;
    let command = given.required("failPoint")?;
    run.fail_points.set_on(&run.deployment, server, command).await
}

async fn wait_for_event(run: &Run, given: &mut Arguments) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let wanted: EventExpectation = given.required("event")?;
    let count: usize = given.required("count")?;
    let matcher = Matcher::new(&run.entities);
    let seen = || events_like(&matcher, &wanted, &journal);
    if journal.wait(EVENT_TIMEOUT, |_| seen() >= count).await {
        return Ok(());
    }
    let seen = seen();
    Err(Stop::failed(format!("{seen} of {count} events within {EVENT_TIMEOUT:?}: {wanted:?}")))
}

fn assert_event_count(run: &Run, given: &mut Arguments) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let wanted: EventExpectation = given.required("event")?;
    let count: usize = given.required("count")?;
    let seen = events_like(&Matcher::new(&run.entities), &wanted, &journal);
    if seen == count {
        return Ok(());
    }
    Err(Stop::failed(format!("{seen} events, not {count}: {wanted:?}")))
}

fn events_like(
    matcher: &Matcher<'_>,
    wanted: &EventExpectation,
    journal: &events::Journal,
) -> usize {
    let is_wanted = |event: &events::Event| events::matches(matcher, wanted, event).is_ok();
    journal.events().iter().filter(|event| is_wanted(event)).count()
}

fn record_topology(run: &Run, given: &mut Arguments) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let description = journal.description().ok_or("the client has not looked yet")?;
    let id: String = given.required("id")?;
    run.entities.add(&id, Entity::Topology(Arc::new(description)))
}

fn assert_topology_type(run: &Run, given: &mut Arguments) -> Step<()> {
    let name: String = given.required("topologyDescription")?;
    let found = run.entities.topology(&name)?.topology_type.name();
    let wanted: String = given.required("topologyType")?;
    if found == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("the topology is {found}, not {wanted}")))
}

async fn wait_for_primary_change(run: &Run, given: &mut Arguments) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let prior = run.entities.topology(&given.required::<String>("priorTopologyDescription")?)?;
    let limit = given.optional("timeoutMS")?.map_or(EVENT_TIMEOUT, Duration::from_millis);
    let prior = prior.primary().map(|server| server.address.clone());
    let changed = |journal: &events::Journal| {
        let now = journal.description();
        let now = now.as_ref().and_then(|now| now.primary()).map(|server| &server.address);
        now.is_some_and(|now| prior.as_ref() != Some(now))
    };
    if journal.wait(limit, changed).await {
        return Ok(());
    }
    Err(Stop::failed(format!("no other primary within {limit:?}")))
}

async fn assert_checked_out(run: &Run, given: &mut Arguments) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let wanted: i64 = given.required("connections")?;
    // A cursor that failed is killed in the background, on the connection that it is pinned to.
    if journal.wait(EVENT_TIMEOUT, |journal| journal.checked_out() == wanted).await {
        return Ok(());
    }
    let found = journal.checked_out();
    Err(Stop::failed(format!("{found} connections are checked out, not {wanted}")))
}

fn assert_same_lsid(run: &Run, given: &mut Arguments, same: bool) -> Step<()> {
    let journal = run.entities.client(&given.required::<String>("client")?)?.journal;
    let commands = journal.last_two_commands().ok_or("there were no two commands")?;
    let [last, before] = commands.map(|command| command.get("lsid").cloned());
    let (Some(last), Some(before)) = (last, before) else {
        return Err(Stop::failed("a command has no lsid"));
    };
    if (last == before) == same {
        return Ok(());
    }
    Err(Stop::failed(format!("the last two commands have the ids {before} and {last}")))
}

async fn assert_dirty(run: &Run, given: &mut Arguments, wanted: bool) -> Step<()> {
    let name: String = given.required("session")?;
    let dirty = run.entities.session(&name)?.take().await?.session().is_dirty();
    if dirty == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("that {name} is dirty must be {wanted}")))
}

async fn assert_transaction_state(run: &Run, given: &mut Arguments) -> Step<()> {
    let name: String = given.required("session")?;
    let wanted: String = given.required("state")?;
    let found = match run.entities.session(&name)?.take().await?.session().transaction_state() {
        TransactionState::None => "none",
        TransactionState::Starting => "starting",
        TransactionState::InProgress => "in_progress",
        TransactionState::Committed { .. } => "committed",
        TransactionState::Aborted => "aborted",
    };
    if found == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("the transaction of {name} is {found}, not {wanted}")))
}

async fn assert_pinned(run: &Run, given: &mut Arguments, wanted: bool) -> Step<()> {
    let name: String = given.required("session")?;
    if run.entities.session(&name)?.take().await?.session().is_pinned() == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("that {name} is pinned must be {wanted}")))
}

async fn assert_collection(run: &Run, given: &mut Arguments, wanted: bool) -> Step<()> {
    let database: String = given.required("databaseName")?;
    let collection: String = given.required("collectionName")?;
    let database = run.deployment.client.database(&database);
    let names = database.list_collection_names().filter(doc! { "name": &collection }).await?;
    if names.contains(&collection) == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("that {collection} is there must be {wanted}")))
}

async fn assert_index(run: &Run, given: &mut Arguments, wanted: bool) -> Step<()> {
    let database: String = given.required("databaseName")?;
    let collection: String = given.required("collectionName")?;
    let index: String = given.required("indexName")?;
    let database = run.deployment.client.database(&database);
    let collection = database.collection::<Document>(&collection);
    let names = match collection.list_index_names().await {
        Ok(names) => names,
        // The collection is not there.
        Err(error) if error.code() == Some(26) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if names.contains(&index) == wanted {
        return Ok(());
    }
    Err(Stop::failed(format!("that {index} is there must be {wanted}")))
}

fn millis(given: &mut Arguments, key: &str) -> Step<Duration> {
    let value: Bson = given.required(key)?;
    let millis = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
    millis.map(Duration::from_millis).ok_or_else(|| Stop::failed(format!("{key} is {value}")))
}
