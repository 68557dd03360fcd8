//! Prose tests of the CRUD specification for client bulk writes, and test 11 of client-side operations timeout.
//! They run on the embedded deployment, because `bulkWrite` requires MongoDB 8.0.
//!
//! Omitted: 1 and 2, which are about other writes; 10 and 13, which the specification has removed; 14, because the
//! driver has no `explain` other than `run_command`.

use std::{error::Error as _, time::Duration};

use steadfast::{
    Namespace,
    error::{BulkWriteError, ErrorKind, PartialBulkWriteResult},
    event::command::CommandStartedEvent,
    options::{InsertOneModel, UpdateOneModel, WriteConcern, WriteModel},
    results::VerboseBulkWriteResult,
};
use steadfast_embedded::Deployment;

use super::*;

/// Limits in the `hello` reply of the server.
const MAX_WRITE_BATCH_SIZE: usize = 100_000;
const MAX_MESSAGE_SIZE_BYTES: usize = 48_000_000;
const MAX_BSON_OBJECT_SIZE: usize = 16 * 1024 * 1024;

/// Like `bounded`, with more time: server and driver are not optimized, and transfer many bytes.
async fn bounded_long<T>(work: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(180), work).await.expect("it ends in time")
}

struct BulkWriteServer {
    deployment: Deployment,
    observed: ProseClient,
}

impl BulkWriteServer {
    async fn new(change: impl FnOnce(&mut ClientOptions)) -> Self {
        let deployment = Deployment::replica_set(1).version("8.0").start();
        let observed = ProseClient::at(&deployment.uri(), "bulk writes", |options| {
            // Server and client share one thread: while one is busy, the other sends nothing.
            options.connect_timeout = Some(Duration::from_secs(600));
            change(options);
        })
        .await;
        let admin = observed.client.database("admin");
        let hello = bounded(admin.run_command(doc! { "hello": 1 })).await.unwrap();
        for (limit, value) in [
            ("maxWriteBatchSize", MAX_WRITE_BATCH_SIZE),
            ("maxMessageSizeBytes", MAX_MESSAGE_SIZE_BYTES),
            ("maxBsonObjectSize", MAX_BSON_OBJECT_SIZE),
        ] {
            assert_eq!(hello.get_i32(limit).ok(), i32::try_from(value).ok(), "{limit}");
        }
        Self { deployment, observed }
    }

    fn client(&self) -> &Client {
        &self.observed.client
    }

    fn fail(&self, times: i32, data: Document) {
        let on = doc! {
            "configureFailPoint": "failCommand", "mode": { "times": times }, "data": data,
        };
        self.deployment.faults().configure_fail_point(0, on).unwrap();
    }

    /// Returns the commands with this name.
    fn commands(&self, name: &str) -> Vec<CommandStartedEvent> {
        let of_interest = |event| match event {
            CommandEvent::Started(event) if event.command_name == name => Some(event),
            _ => None,
        };
        self.observed.commands.seen().into_iter().filter_map(of_interest).collect()
    }

    /// Returns the number of operations of each `bulkWrite`. All belong to one call.
    fn batches(&self) -> Vec<usize> {
        let commands = self.commands("bulkWrite");
        assert!(commands.iter().all(|it| it.operation_id == commands[0].operation_id));
        commands.iter().map(|it| it.command.get_array("ops").unwrap().len()).collect()
    }
}

fn namespace() -> Namespace {
    Namespace::new("db", "coll")
}

fn insert(document: Document) -> WriteModel {
    InsertOneModel::new(document).namespace(namespace()).into()
}

fn bulk_write_error(error: &Error) -> &BulkWriteError {
    match &*error.kind {
        ErrorKind::BulkWrite(partly) => partly,
        other => panic!("{other:?}"),
    }
}

/// Two upserts whose results exceed one batch of a cursor.
fn large_upserts() -> [WriteModel; 2] {
    ["a", "b"].map(|letter| {
        let filter = doc! { "_id": letter.repeat(MAX_BSON_OBJECT_SIZE / 2) };
        let update = UpdateOneModel::new(filter, doc! { "$set": { "x": 1 } });
        update.upsert(true).namespace(namespace()).into()
    })
}

fn check_two_upserts(result: &VerboseBulkWriteResult) {
    assert_eq!((result.summary.upserted_count, result.update_results.len()), (2, 2));
    assert!(result.update_results.values().all(|it| it.upserted_id.is_some()));
}

#[tokio::test]
async fn prose_3_a_bulk_write_is_split_by_max_write_batch_size() {
    let server = BulkWriteServer::new(|_| {}).await;
    let models = (0..=MAX_WRITE_BATCH_SIZE).map(|_| insert(doc! { "a": "b" }));
    let result = bounded_long(server.client().bulk_write(models)).await.unwrap();
    assert_eq!(usize::try_from(result.inserted_count), Ok(MAX_WRITE_BATCH_SIZE + 1));
    assert_eq!(server.batches(), [MAX_WRITE_BATCH_SIZE, 1]);
}

#[tokio::test]
async fn prose_4_a_bulk_write_is_split_by_max_message_size_bytes() {
    let server = BulkWriteServer::new(|_| {}).await;
    let count = MAX_MESSAGE_SIZE_BYTES / MAX_BSON_OBJECT_SIZE + 1;
    let document = doc! { "a": "b".repeat(MAX_BSON_OBJECT_SIZE - 500) };
    let models = vec![insert(document); count];
    let result = bounded_long(server.client().bulk_write(models)).await.unwrap();
    assert_eq!(usize::try_from(result.inserted_count), Ok(count));
    assert_eq!(server.batches(), [count - 1, 1]);
}

#[tokio::test]
async fn prose_5_the_write_concern_errors_of_all_batches_are_collected() {
    let server = BulkWriteServer::new(|options| options.retry_writes = Some(false)).await;
    let unmet = doc! { "code": 91, "errmsg": "Replication is being shut down" };
    server.fail(2, doc! { "failCommands": ["bulkWrite"], "writeConcernError": unmet });
    let models = (0..=MAX_WRITE_BATCH_SIZE).map(|_| insert(doc! { "a": "b" }));
    let error = bounded_long(server.client().bulk_write(models)).await.unwrap_err();
    let partly = bulk_write_error(&error);
    assert_eq!(partly.write_concern_errors.len(), 2);
    let done = partly.partial_result.as_ref().unwrap().summary();
    assert_eq!(usize::try_from(done.inserted_count), Ok(MAX_WRITE_BATCH_SIZE + 1));
    assert_eq!(server.batches().len(), 2);
}

#[tokio::test]
async fn prose_6_write_errors_are_collected_over_batches_unless_ordered() {
    for (ordered, failed, batches) in [(false, MAX_WRITE_BATCH_SIZE + 1, 2), (true, 1, 1)] {
        let server = BulkWriteServer::new(|_| {}).await;
        let document = doc! { "_id": 1 };
        let collection = server.client().database("db").collection::<Document>("coll");
        bounded(collection.insert_one(&document)).await.unwrap();
        let models = (0..=MAX_WRITE_BATCH_SIZE).map(|_| insert(document.clone()));
        let action = server.client().bulk_write(models).ordered(ordered);
        let error = bounded_long(action).await.unwrap_err();
        assert_eq!(bulk_write_error(&error).write_errors.len(), failed, "ordered: {ordered}");
        assert!(bulk_write_error(&error).partial_result.is_none());
        assert_eq!(server.batches().len(), batches, "ordered: {ordered}");
    }
}

#[tokio::test]
async fn prose_7_the_results_cursor_is_read_to_its_end() {
    let server = BulkWriteServer::new(|_| {}).await;
    let action = server.client().bulk_write(large_upserts()).verbose_results();
    check_two_upserts(&bounded_long(action).await.unwrap());
    assert!(!server.commands("getMore").is_empty());
}

#[tokio::test]
async fn prose_8_the_results_cursor_is_read_to_its_end_in_a_transaction() {
    let server = BulkWriteServer::new(|_| {}).await;
    let mut session = bounded(server.client().start_session()).await.unwrap();
    session.start_transaction().await.unwrap();
    let action = server.client().bulk_write(large_upserts()).session(&mut session);
    check_two_upserts(&bounded_long(action.verbose_results()).await.unwrap());
    let asked = server.commands("getMore");
    assert!(!asked.is_empty());
    for command in asked {
        assert_eq!(command.command.get("autocommit"), Some(&false.into()));
        assert!(command.command.contains_key("txnNumber") && command.command.contains_key("lsid"));
    }
    bounded_long(session.commit_transaction()).await.unwrap();
}

#[tokio::test]
async fn prose_9_a_failed_get_more_keeps_the_partial_results() {
    let server = BulkWriteServer::new(|_| {}).await;
    server.fail(1, doc! { "failCommands": ["getMore"], "errorCode": 8 });
    let action = server.client().bulk_write(large_upserts()).verbose_results();
    let error = bounded_long(action).await.unwrap_err();
    let source = error.source().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!((error.code(), source.code()), (Some(8), Some(8)));
    let done = bulk_write_error(&error).partial_result.as_ref();
    let Some(PartialBulkWriteResult::Verbose(done)) = done else { panic!("{done:?}") };
    assert_eq!((done.summary.upserted_count, done.update_results.len()), (2, 1));
    assert_eq!(error.outcome(), steadfast::error::Outcome::MaybeApplied);
    assert_eq!(server.commands("getMore").len(), 1);
    let is_kill = |event: &CommandEvent| matches!(event, CommandEvent::Succeeded(it) if it.command_name == "killCursors");
    server.observed.commands.wait_for(1, is_kill).await;
}

/// Inserts that leave space for another document, but not for another namespace.
fn nearly_full() -> Vec<WriteModel> {
    let bytes = MAX_MESSAGE_SIZE_BYTES - 1122;
    let (whole, rest) = (bytes / MAX_BSON_OBJECT_SIZE, bytes % MAX_BSON_OBJECT_SIZE);
    let mut models = vec![insert(doc! { "a": "b".repeat(MAX_BSON_OBJECT_SIZE - 57) }); whole];
    if rest >= 217 {
        models.push(insert(doc! { "a": "b".repeat(rest - 57) }));
    }
    models
}

fn namespaces(event: &CommandStartedEvent) -> Vec<&str> {
    let namespaces = event.command.get_array("nsInfo").unwrap().iter();
    namespaces.map(|it| it.as_document().unwrap().get_str("ns").unwrap()).collect()
}

#[tokio::test]
async fn prose_11_a_bulk_write_is_split_if_ns_info_exceeds_the_message_size() {
    let far = "c".repeat(200);
    for (coll, batches) in [("coll", 1), (far.as_str(), 2)] {
        let server = BulkWriteServer::new(|_| {}).await;
        let mut models = nearly_full();
        let count = models.len();
        let last = InsertOneModel::new(doc! { "a": "b" }).namespace(Namespace::new("db", coll));
        models.push(last.into());
        let result = bounded_long(server.client().bulk_write(models)).await.unwrap();
        assert_eq!(usize::try_from(result.inserted_count), Ok(count + 1));
        let commands = server.commands("bulkWrite");
        assert_eq!(namespaces(&commands[0]), ["db.coll"]);
        if batches == 1 {
            assert_eq!(server.batches(), [count + 1]);
        } else {
            assert_eq!(server.batches(), [count, 1]);
            assert_eq!(namespaces(&commands[1]), [format!("db.{far}")]);
        }
    }
}

#[tokio::test]
async fn prose_12_models_larger_than_a_message_are_rejected_before_sending() {
    let server = BulkWriteServer::new(|_| {}).await;
    let large = insert(doc! { "a": "b".repeat(MAX_MESSAGE_SIZE_BYTES) });
    let far = Namespace::new("db", "c".repeat(MAX_MESSAGE_SIZE_BYTES));
    let distant = InsertOneModel::new(doc! { "a": "b" }).namespace(far).into();
    for model in [large, distant] {
        let error = bounded_long(server.client().bulk_write([model])).await.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }), "{error:?}");
    }
    assert!(server.commands("bulkWrite").is_empty());
}

#[tokio::test]
async fn prose_15_all_batches_are_unacknowledged() {
    let server = BulkWriteServer::new(|options| options.max_pool_size = Some(1)).await;
    let database = server.client().database("db");
    bounded(database.create_collection("coll")).await.unwrap();
    let count = MAX_MESSAGE_SIZE_BYTES / MAX_BSON_OBJECT_SIZE + 1;
    let models = vec![insert(doc! { "a": "b".repeat(MAX_BSON_OBJECT_SIZE - 500) }); count];
    let action = server.client().bulk_write(models).ordered(false);
    let result = bounded_long(action.write_concern(WriteConcern::nodes(0))).await.unwrap();
    assert!(!result.acknowledged);
    assert_eq!(server.batches(), [count - 1, 1]);
    for command in server.commands("bulkWrite") {
        assert_eq!(command.command.get("writeConcern"), Some(&doc! { "w": 0 }.into()));
    }
    // It uses the same connection, so it is executed after the bulk write.
    let counted =
        bounded_long(database.collection::<Document>("coll").count_documents(doc! {})).await;
    assert_eq!(usize::try_from(counted.unwrap()), Ok(count));
}

#[tokio::test]
async fn prose_16_a_generated_id_is_the_first_field() {
    let server = BulkWriteServer::new(|_| {}).await;
    let collection = server.client().database("db").collection::<Document>("coll");
    bounded(collection.insert_one(doc! { "x": 1 })).await.unwrap();
    bounded(collection.bulk_write([InsertOneModel::new(doc! { "x": 1 }).into()])).await.unwrap();
    bounded(server.client().bulk_write([insert(doc! { "x": 1 })])).await.unwrap();
    let first_key = |document: &steadfast::bson::Bson| {
        document.as_document().unwrap().keys().next().cloned().unwrap()
    };
    for command in server.commands("insert") {
        assert_eq!(first_key(&command.command.get_array("documents").unwrap()[0]), "_id");
    }
    let bulk = server.commands("bulkWrite").remove(0).command;
    let operation = bulk.get_array("ops").unwrap()[0].as_document().unwrap();
    assert_eq!(first_key(operation.get("document").unwrap()), "_id");
}

#[tokio::test]
async fn timeouts_prose_11_all_batches_share_one_deadline() {
    let server = BulkWriteServer::new(|_| {}).await;
    let clock = Clock::stopped();
    let models: Vec<_> =
        (0..4).map(|_| insert(doc! { "a": "b".repeat(MAX_BSON_OBJECT_SIZE - 500) })).collect();
    // The second command gets no reply within the time that passes here.
    let block =
        doc! { "failCommands": ["bulkWrite"], "blockConnection": true, "blockTimeMS": 600_000 };
    let second = doc! { "configureFailPoint": "failCommand", "mode": { "skip": 1 }, "data": block };
    server.deployment.faults().configure_fail_point(0, second).unwrap();
    let action = server.client().bulk_write(models).timeout(Duration::from_millis(7_000));
    let (ended, ()) = tokio::join!(bounded_long(action), async {
        let half = Duration::from_millis(4_000);
        let done = |event: &CommandEvent| matches!(event, CommandEvent::Succeeded(it) if it.command_name == "bulkWrite");
        server.observed.commands.wait_for(1, done).await;
        clock.pass(half).await;
        server.observed.wait_for_started(2, "bulkWrite").await;
        clock.pass(half).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.batches(), [2, 2], "{error:?}");
    assert!(bulk_write_error(&error).partial_result.is_some());
}
