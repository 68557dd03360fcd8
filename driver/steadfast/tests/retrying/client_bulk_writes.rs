//! Retries of client bulk writes, on the embedded deployment: `bulkWrite` requires MongoDB 8.0.

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Namespace,
    error::PartialBulkWriteResult,
    options::{
        DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel, UpdateOneModel,
        WriteConcern, WriteModel,
    },
};
use steadfast_embedded as embedded;

use super::*;

fn at(coll: &str) -> Namespace {
    Namespace::new("db", coll)
}

fn insert(id: i32) -> WriteModel {
    InsertOneModel::new(doc! { "_id": id }).namespace(at("books")).into()
}

fn increment(coll: &str) -> WriteModel {
    let update = UpdateOneModel::new(doc! { "_id": 1 }, doc! { "$inc": { "x": 1 } });
    update.upsert(true).namespace(at(coll)).into()
}

async fn client_of(uri: &str) -> (Client, Recorder<CommandEvent>) {
    let commands = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.command_event_handler = Some(commands.handler());
    (Client::with_options(options).unwrap(), commands)
}

/// Returns the `txnNumber` of each `bulkWrite`.
fn numbers(commands: &Recorder<CommandEvent>) -> Vec<Option<i64>> {
    let of_interest = |event| match event {
        CommandEvent::Started(it) if it.command_name == "bulkWrite" => {
            Some(it.command.get_i64("txnNumber").ok())
        }
        _ => None,
    };
    commands.seen().into_iter().filter_map(of_interest).collect()
}

async fn client_with_lost_reply() -> (embedded::Deployment, Proxy, Client, Recorder<CommandEvent>) {
    let deployment = embedded::Deployment::replica_set(3).version("8.0").start();
    let rule = Rule::new(Reaction::lose_reply()).command("bulkWrite").times(1);
    let proxy = Proxy::builder(deployment.uri()).rules([rule]).start().await.unwrap();
    let (client, commands) = client_of(&proxy.uri()).await;
    (deployment, proxy, client, commands)
}

#[tokio::test]
async fn a_lost_reply_is_not_applied_twice() {
    let (deployment, _proxy, client, commands) = client_with_lost_reply().await;
    let models = [insert(1), increment("counters"), increment("counters")];
    let result = bounded(client.bulk_write(models).verbose_results()).await.unwrap();
    let summary = &result.summary;
    assert_eq!((summary.inserted_count, summary.upserted_count), (1, 1), "{result:?}");
    assert_eq!(numbers(&commands), [Some(1), Some(1)]);
    assert!(deployment.faults().executions().iter().all(|it| it.count == 1));
    let counters = client.database("db").collection::<Document>("counters");
    let counter = bounded(counters.find_one(doc! {})).await.unwrap();
    assert_eq!(counter, Some(doc! { "_id": 1, "x": 2 }));
}

#[tokio::test]
async fn a_client_bulk_write_with_update_many_is_not_retried() {
    let (_deployment, _proxy, client, commands) = client_with_lost_reply().await;
    let many = UpdateManyModel::new(doc! {}, doc! { "$inc": { "x": 1 } }).namespace(at("books"));
    let models: [WriteModel; 2] = [insert(1), many.into()];
    let error = bounded(client.bulk_write(models)).await.unwrap_err();
    assert!(error.is_network_error(), "{error:?}");
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::MaybeApplied, 1));
    assert_eq!(numbers(&commands), [None]);
}

#[tokio::test]
async fn client_bulk_write_errors_have_an_outcome() {
    let deployment = embedded::Deployment::replica_set(1).version("8.0").start();
    let (client, _) = client_of(&deployment.uri()).await;
    bounded(client.bulk_write([insert(1)])).await.unwrap();

    let error = bounded(client.bulk_write([insert(1), insert(2)])).await.unwrap_err();
    let ErrorKind::BulkWrite(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.write_errors[&0].code, 11000);
    assert!(partly.partial_result.is_none());
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::NotApplied, 1));
    assert!(error.is_duplicate_key_error());

    let models = [insert(3), insert(1), insert(4)];
    let error = bounded(client.bulk_write(models).ordered(false)).await.unwrap_err();
    let ErrorKind::BulkWrite(partly) = &*error.kind else { panic!("{error:?}") };
    let done = partly.partial_result.as_ref();
    let Some(PartialBulkWriteResult::Summary(done)) = done else { panic!("{done:?}") };
    assert_eq!(done.inserted_count, 2);
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    let impossible = WriteConcern::nodes(50).with_w_timeout(std::time::Duration::from_millis(10));
    let error =
        bounded(client.bulk_write([insert(5)]).write_concern(impossible)).await.unwrap_err();
    let ErrorKind::BulkWrite(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!((partly.write_errors.len(), partly.write_concern_errors.len()), (0, 1));
    assert_eq!(error.outcome(), Outcome::AppliedNotDurable);
}

#[tokio::test]
async fn a_client_bulk_write_writes_to_several_databases() {
    let deployment = embedded::Deployment::replica_set(1).version("8.0").start();
    let (client, _) = client_of(&deployment.uri()).await;
    let (here, there) = (at("books"), Namespace::new("other", "books"));
    let one = |n: i32| doc! { "_id": n };
    let models: [WriteModel; 6] = [
        InsertOneModel::builder().namespace(here.clone()).document(one(1)).build().into(),
        InsertOneModel::new(doc! { "n": 7 }).namespace(there.clone()).into(),
        ReplaceOneModel::new(one(1), doc! { "x": 5 }).namespace(here.clone()).into(),
        UpdateOneModel::new(doc! {}, doc! { "$inc": { "n": 1 } }).namespace(there.clone()).into(),
        UpdateOneModel::new(one(9), doc! { "$set": { "x": 1 } })
            .upsert(true)
            .namespace(here.clone())
            .into(),
        DeleteOneModel::new(doc! { "x": 5 }).namespace(here).into(),
    ];
    let result = bounded(client.bulk_write(models).verbose_results()).await.unwrap();
    assert_eq!(result.insert_results[&0].inserted_id, 1.into());
    let generated = &result.insert_results[&1].inserted_id;
    assert_eq!((result.update_results.len(), result.delete_results[&5].deleted_count), (3, 1));
    assert_eq!(result.update_results[&4].upserted_id, Some(9.into()));
    let summary = result.summary;
    assert_eq!((summary.inserted_count, summary.matched_count, summary.upserted_count), (2, 2, 1));
    let other = client.database("other").collection::<Document>("books");
    let found = bounded(other.find_one(doc! {})).await.unwrap().unwrap();
    assert_eq!((found.get("_id"), found.get("n")), (Some(generated), Some(&8.into())));
}

#[tokio::test]
async fn invalid_client_bulk_writes_are_rejected_before_anything_is_sent() {
    let deployment = embedded::Deployment::replica_set(1).version("7.0").start();
    let (client, commands) = client_of(&deployment.uri()).await;
    let none: [WriteModel; 0] = [];
    let homeless = WriteModel::from(InsertOneModel::new(doc! {}));
    let unacknowledged = || client.bulk_write([insert(1)]).write_concern(WriteConcern::nodes(0));
    let rejected = [
        (bounded(client.bulk_write([insert(1)])).await, "8.0"),
        (bounded(client.bulk_write(none)).await, "at least one"),
        (bounded(client.bulk_write([homeless])).await, "model 0 has no namespace"),
        (bounded(unacknowledged()).await, "unacknowledged write concern and ordered writes"),
        (
            bounded(unacknowledged().ordered(false).verbose_results()).await.map(|it| it.summary),
            "unacknowledged write concern and verbose results",
        ),
    ];
    for (result, why) in rejected {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
    }
    let books = client.database("db").collection::<Document>("books");
    let elsewhere = InsertOneModel::new(doc! {}).namespace(at("shelves"));
    let error = bounded(books.bulk_write([elsewhere.into()])).await.unwrap_err();
    assert!(error.to_string().contains("db.shelves"), "{error}");
    assert_eq!(numbers(&commands), []);
}
