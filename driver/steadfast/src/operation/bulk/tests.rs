//! Splitting of writes into batches, and their results.

mod properties;
mod raw_documents;
mod splitting;
mod tallying;

use std::sync::Arc;

use bson::{Document, doc};

use super::*;
use crate::{
    operation::{
        WriteLimits,
        fixture::{body, collection, collection_with},
    },
    options::{
        CollectionOptions, DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateOneModel, WriteModel,
    },
};

fn limits() -> WriteLimits {
    WriteLimits { document_bytes: 16 << 20, message_bytes: 48_000_000, batch_count: 100_000 }
}

fn insert(id: i32) -> WriteModel {
    InsertOneModel::new(doc! { "_id": id }).into()
}

fn update(id: i32) -> WriteModel {
    UpdateOneModel::new(doc! { "_id": id }, doc! { "$set": { "x": 1 } }).into()
}

fn update_many(id: i32) -> WriteModel {
    UpdateManyModel::new(doc! { "_id": id }, doc! { "$set": { "x": 1 } }).into()
}

fn delete(id: i32) -> WriteModel {
    DeleteOneModel::new(doc! { "_id": id }).into()
}

fn settings_with(ordered: bool) -> Settings<'static> {
    Settings { ordered, ..Settings::default() }
}

fn planned(
    statements: &Statements<'_>,
    ordered: bool,
    limits: &WriteLimits,
) -> Result<Vec<CollectionBulkBatch>> {
    plan(statements, &collection(), &settings_with(ordered), limits)
}

/// Returns the statements of a batch as they are sent.
fn sent(statements: &Statements<'_>, batch: &CollectionBulkBatch) -> Vec<Document> {
    let mut sent = Vec::new();
    let lent = statements.document_sequence(batch).documents;
    lent.for_each(|statement| sent.push(Document::try_from(statement).unwrap())).unwrap();
    sent
}

fn commands(models: Vec<WriteModel>, ordered: bool) -> Vec<(Document, Vec<Document>, CommandKind)> {
    let collection: Arc<CollectionHandle> = collection();
    let statements = Statements::of_models(models).unwrap();
    let settings = settings_with(ordered);
    let batches = plan(&statements, &collection, &settings, &limits()).unwrap();
    batches
        .iter()
        .map(|batch| {
            let command = command(&collection, &settings, batch, false).unwrap();
            (body(&command), sent(&statements, batch), command.kind)
        })
        .collect()
}

#[tokio::test]
async fn every_model_becomes_its_statement() {
    let models = vec![
        insert(1),
        update(2),
        update_many(3),
        ReplaceOneModel::new(doc! { "_id": 4 }, doc! { "y": 1 }).upsert(true).into(),
        delete(5),
        DeleteManyModel::new(doc! { "_id": 6 }).into(),
    ];
    let set = doc! { "$set": { "x": 1 } };
    let updates = vec![
        doc! { "q": { "_id": 2 }, "u": set.clone() },
        doc! { "q": { "_id": 3 }, "u": set, "multi": true },
        doc! { "q": { "_id": 4 }, "u": { "y": 1 }, "upsert": true },
    ];
    let deletes =
        vec![doc! { "q": { "_id": 5 }, "limit": 1 }, doc! { "q": { "_id": 6 }, "limit": 0 }];
    for ordered in [true, false] {
        let expected = vec![
            (
                doc! { "insert": "books", "ordered": ordered },
                vec![doc! { "_id": 1 }],
                CommandKind::RetryableWrite,
            ),
            (doc! { "update": "books", "ordered": ordered }, updates.clone(), CommandKind::Write),
            (doc! { "delete": "books", "ordered": ordered }, deletes.clone(), CommandKind::Write),
        ];
        assert_eq!(commands(models.clone(), ordered), expected);
    }
}

#[tokio::test]
async fn batch_is_retryable_unless_it_has_a_multi_write() {
    // pitfall 12
    let kinds = |models| -> Vec<CommandKind> {
        commands(models, true).into_iter().map(|(_, _, kind)| kind).collect()
    };
    assert_eq!(kinds(vec![update(1), update(2)]), [CommandKind::RetryableWrite]);
    assert_eq!(kinds(vec![update(1), update_many(2)]), [CommandKind::Write]);
    assert_eq!(
        kinds(vec![update_many(1), insert(2)]),
        [CommandKind::Write, CommandKind::RetryableWrite]
    );
}

#[tokio::test]
async fn without_models_there_is_nothing_to_send() {
    let error = Statements::of_models(Vec::<WriteModel>::new()).unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    let error = Statements::of_documents::<Document, _>(Vec::<Document>::new()).unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
}

#[tokio::test]
async fn invalid_models_are_rejected() {
    let replaced = ReplaceOneModel::new(doc! {}, doc! { "$set": { "x": 1 } });
    let updated = UpdateOneModel::new(doc! {}, doc! { "x": 1 });
    let models: [WriteModel; 2] = [replaced.into(), updated.into()];
    for model in models {
        let error = Statements::of_models([insert(1), model]).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
}

#[tokio::test]
async fn in_order_only_the_last_batch_is_unacknowledged() {
    let options = CollectionOptions::builder().write_concern(WriteConcern::nodes(0)).build();
    let collection = collection_with(options);
    let sent = |ordered, followed| {
        let settings = settings_with(ordered);
        let statements = Statements::of_models([insert(1)]).unwrap();
        let batches = plan(&statements, &collection, &settings, &limits()).unwrap();
        let command = command(&collection, &settings, &batches[0], followed).unwrap();
        let w = body(&command).get_document("writeConcern").unwrap().get_i32("w").unwrap();
        (w, command.acknowledged)
    };
    assert_eq!(sent(true, true), (1, true));
    assert_eq!(sent(true, false), (0, false));
    assert_eq!(sent(false, true), (0, false));
    assert!(!is_acknowledged(&collection, &settings_with(true)));
}
