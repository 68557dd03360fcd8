//! Prose tests of change streams.
//!
//! Omitted: 2, which requires a server that removes resume tokens (the tests of retrying use a scripted one); 19,
//! which requires a newer server.

use futures_util::{StreamExt, TryStreamExt};
use steadfast::{
    Collection,
    bson::Bson,
    change_stream::event::{ChangeStreamEvent, ResumeToken},
    options::{ReadPreference, SelectionCriteria, WriteConcern},
};

use super::*;
use crate::common::DocumentChangeStream;

/// Resumable error that does not mark the server unknown.
fn resumable(commands: &[&str]) -> Document {
    doc! {
        "failCommands": commands, "errorCode": 6, "errorLabels": ["ResumableChangeStreamError"],
    }
}

async fn empty(observed: &ProseClient, name: &str) -> Collection<Document> {
    let majority = WriteConcern::majority();
    let collection = observed.collection(name);
    collection.drop().write_concern(majority.clone()).await.unwrap();
    let database = observed.client.database("prose");
    database.create_collection(name).write_concern(majority).await.unwrap();
    collection
}

async fn insert(collection: &Collection<Document>, ids: std::ops::RangeInclusive<i32>) {
    let documents = ids.map(|id| doc! { "_id": id });
    collection.insert_many(documents).write_concern(WriteConcern::majority()).await.unwrap();
}

async fn next(stream: &mut DocumentChangeStream) -> ChangeStreamEvent<Document> {
    bounded(stream.try_next()).await.unwrap().expect("the stream is open")
}

fn key(event: &ChangeStreamEvent<Document>) -> i32 {
    event.document_key.as_ref().unwrap().get_i32("_id").unwrap()
}

fn as_bson(token: &ResumeToken) -> Bson {
    ::bson::serialize_to_bson(token).unwrap()
}

fn latest(stream: &DocumentChangeStream) -> Option<Bson> {
    stream.resume_token().as_ref().map(as_bson)
}

impl ProseClient {
    /// Returns the sent commands with this name.
    fn sent(&self, name: &str) -> Vec<Document> {
        let started = |event| match event {
            CommandEvent::Started(event) if event.command_name == name => Some(event.command),
            _ => None,
        };
        self.commands.seen().into_iter().filter_map(started).collect()
    }

    /// Returns the sent `$changeStream` stages.
    fn stages(&self) -> Vec<Document> {
        let stage = |command: Document| {
            let stage = command.get_array("pipeline").ok()?[0].as_document()?.clone();
            stage.get_document("$changeStream").ok().cloned()
        };
        self.sent("aggregate").into_iter().filter_map(stage).collect()
    }

    /// Returns the `postBatchResumeToken` of the last reply.
    fn token_after(&self) -> Option<Bson> {
        let token = |event| match event {
            CommandEvent::Succeeded(event) => {
                event.reply.get_document("cursor").ok()?.get("postBatchResumeToken").cloned()
            }
            _ => None,
        };
        self.commands.seen().into_iter().filter_map(token).next_back()
    }
}

#[tokio::test]
async fn prose_1_a_stream_tracks_the_last_resume_token() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("change streams, prose 1", |_| ()).await;
    let numbers = empty(&observed, "streams_prose_1").await;
    let mut stream = bounded(numbers.watch()).await.unwrap();
    for id in 1..=3 {
        insert(&numbers, id..=id).await;
        let event = next(&mut stream).await;
        let seen = latest(&stream).unwrap();
        assert!(seen == as_bson(&event.id) || Some(seen) == observed.token_after());
    }
}

#[tokio::test]
async fn prose_3_a_stream_resumes_once_with_its_pipeline_and_options() {
    testbed::require!(V6_0);
    let app_name = "change streams, prose 3";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = empty(&observed, "streams_prose_3").await;
    let pipeline = doc! { "$match": { "operationType": "insert" } };
    let stream = numbers.watch().pipeline([pipeline]).batch_size(5).comment(Bson::from("note"));
    let mut stream = bounded(stream.show_expanded_events(true)).await.unwrap();
    insert(&numbers, 1..=1).await;
    next(&mut stream).await;
    let token = latest(&stream).unwrap();

    let _point = FailPoint::on_primary(1, resumable(&["getMore"]), app_name).await;
    insert(&numbers, 2..=2).await;
    assert_eq!(key(&next(&mut stream).await), 2);
    let [mut before, mut after] = <[Document; 2]>::try_from(observed.sent("aggregate")).unwrap();
    let stages = observed.stages();
    assert_eq!(stages[0], doc! { "showExpandedEvents": true });
    assert_eq!(stages[1], doc! { "showExpandedEvents": true, "resumeAfter": token });
    for command in [&mut before, &mut after] {
        command.remove("$clusterTime");
        command.get_array_mut("pipeline").unwrap().remove(0);
    }
    assert_eq!(before, after);
}

#[tokio::test]
async fn prose_4_an_error_of_the_aggregate_is_not_resumed() {
    testbed::require!(V6_0);
    let app_name = "change streams, prose 4";
    let observed = ProseClient::new(app_name, |options| options.retry_reads = Some(false)).await;
    let numbers = empty(&observed, "streams_prose_4").await;
    {
        let _point = FailPoint::on_primary(1, resumable(&["aggregate"]), app_name).await;
        assert_eq!(bounded(numbers.watch()).await.unwrap_err().code(), Some(6));
        assert_eq!(observed.started("aggregate"), 1);
    }
    // An error of the `aggregate` that resumes a stream is not retried either.
    let mut stream = bounded(numbers.watch()).await.unwrap();
    let data = resumable(&["getMore", "aggregate"]);
    let _point = FailPoint::on_primary(2, data, app_name).await;
    assert_eq!(bounded(stream.try_next()).await.unwrap_err().code(), Some(6));
    assert_eq!(observed.started("aggregate"), 3);
    assert!(bounded(stream.next()).await.is_none() && !stream.is_alive());
}

#[tokio::test]
async fn prose_6_resuming_selects_a_server_by_the_initial_read_preference() {
    testbed::require!(V6_0);
    let app_name = "change streams, prose 6";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = empty(&observed, "streams_prose_6").await;
    let point = FailPoint::reserve(members().1, app_name).await;
    let criteria = SelectionCriteria::from(ReadPreference::secondary(None));
    let mut stream = bounded(numbers.watch().selection_criteria(criteria)).await.unwrap();
    point.set(1, resumable(&["getMore"]));
    insert(&numbers, 1..=1).await;
    assert_eq!(key(&next(&mut stream).await), 1);
    let (aggregates, failed) = observed.ends("aggregate");
    assert!(aggregates.len() >= 2 && failed.is_empty());
    let secondaries: Vec<_> = point.members.iter().map(|member| address(*member)).collect();
    assert!(aggregates.iter().all(|server| secondaries.contains(server)), "{aggregates:?}");
    for command in observed.sent("aggregate") {
        let preference = command.get_document("$readPreference").unwrap();
        assert_eq!(preference.get_str("mode").unwrap(), "secondary");
    }
}

#[tokio::test]
async fn prose_7_a_cursor_whose_first_batch_is_empty_is_not_closed() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("change streams, prose 7", |_| ()).await;
    let numbers = empty(&observed, "streams_prose_7").await;
    let mut stream = bounded(numbers.watch()).await.unwrap();
    assert!(stream.is_alive());
    insert(&numbers, 1..=1).await;
    assert_eq!(key(&next(&mut stream).await), 1);
    assert_eq!((observed.started("aggregate"), observed.started("killCursors")), (1, 0));
}

#[tokio::test]
async fn prose_8_a_failed_kill_cursors_does_not_prevent_resuming() {
    testbed::require!(V6_0);
    let app_name = "change streams, prose 8";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = empty(&observed, "streams_prose_8").await;
    let mut stream = bounded(numbers.watch()).await.unwrap();
    let _point = FailPoint::on_primary(2, resumable(&["getMore", "killCursors"]), app_name).await;
    let failed = |name: &'static str| move |event: &CommandEvent| matches!(event, CommandEvent::Failed(it) if it.command_name == name);
    assert!(bounded(stream.next_if_any()).await.unwrap().is_none());
    observed.commands.wait_for(1, failed("killCursors")).await;
    insert(&numbers, 1..=1).await;
    assert_eq!(key(&next(&mut stream).await), 1);
    observed.commands.wait_for(1, failed("getMore")).await;
}

#[tokio::test]
async fn prose_11_and_13_the_token_is_the_id_of_the_last_event_or_post_batch_resume_token() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("change streams, prose 11", |_| ()).await;
    let numbers = empty(&observed, "streams_prose_11").await;
    let mut stream = bounded(numbers.watch()).await.unwrap();
    // The batches of the `aggregate` and of a `getMore` are empty.
    assert!(latest(&stream).is_some());
    assert_eq!(latest(&stream), observed.token_after());
    assert!(bounded(stream.next_if_any()).await.unwrap().is_none());
    assert_eq!(latest(&stream), observed.token_after());

    // All events are in one batch.
    let start = stream.resume_token();
    insert(&numbers, 1..=3).await;
    let mut stream = bounded(numbers.watch().resume_after(start)).await.unwrap();
    let requests = observed.commands.seen().len();
    for id in 1..=3 {
        let event = next(&mut stream).await;
        assert_eq!(key(&event), id);
        let expected = if id < 3 { Some(as_bson(&event.id)) } else { observed.token_after() };
        assert_eq!(latest(&stream), expected);
    }
    assert_eq!(observed.commands.seen().len(), requests);
}

#[tokio::test]
async fn prose_14_before_the_first_event_the_token_is_that_of_the_options() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("change streams, prose 14", |_| ()).await;
    let numbers = empty(&observed, "streams_prose_14").await;
    let mut stream = bounded(numbers.watch()).await.unwrap();
    insert(&numbers, 1..=2).await;
    let first = next(&mut stream).await;
    let (token, time) = (first.id.clone(), first.cluster_time.unwrap());

    // The first batch of each stream contains the second event.
    let stream = bounded(numbers.watch().start_after(token.clone())).await.unwrap();
    assert_eq!(stream.resume_token(), Some(token.clone()));
    let stream = bounded(numbers.watch().resume_after(token.clone())).await.unwrap();
    assert_eq!(stream.resume_token(), Some(token));
    let mut stream = bounded(numbers.watch().start_at_operation_time(time)).await.unwrap();
    assert_eq!(stream.resume_token(), None);
    assert_eq!(key(&next(&mut stream).await), 1);
}

#[tokio::test]
async fn prose_17_and_18_start_after_is_sent_until_the_first_event() {
    testbed::require!(V6_0);
    let app_name = "change streams, prose 17";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = empty(&observed, "streams_prose_17").await;
    let stream = bounded(numbers.watch()).await.unwrap();
    let token = stream.resume_token().unwrap();
    drop(stream);

    let mut stream = bounded(numbers.watch().start_after(token.clone())).await.unwrap();
    let point = FailPoint::on_primary(1, resumable(&["getMore"]), app_name).await;
    insert(&numbers, 1..=1).await;
    let first = next(&mut stream).await;
    let stages = observed.stages();
    assert_eq!(stages[1], doc! { "startAfter": as_bson(&token) });
    assert!(stages[2].contains_key("startAfter") && stages[2].len() == 1, "{}", stages[2]);
    assert_eq!(key(&first), 1);

    let token = latest(&stream).unwrap();
    point.set(1, resumable(&["getMore"]));
    insert(&numbers, 2..=2).await;
    assert_eq!(key(&next(&mut stream).await), 2);
    let stages = observed.stages();
    assert_eq!(stages.len(), 4);
    assert_eq!(stages[3], doc! { "resumeAfter": token });
}
