//! Splitting of writes into batches.

use super::*;
use crate::operation::write::Verb;

fn shape(batches: &[CollectionBulkBatch]) -> Vec<(Verb, usize)> {
    batches.iter().map(|batch| (batch.verb, batch.len())).collect()
}

#[tokio::test]
async fn ordered_batches_have_consecutive_writes_of_one_verb() {
    let models = [insert(0), insert(1), update(2), delete(3), delete(4), insert(5)];
    let statements = Statements::of_models(models).unwrap();
    assert_eq!(
        shape(&planned(&statements, true, &limits()).unwrap()),
        [(Verb::Insert, 2), (Verb::Update, 1), (Verb::Delete, 2), (Verb::Insert, 1)]
    );
}

#[tokio::test]
async fn unordered_batches_have_all_writes_of_one_verb() {
    let models = [delete(0), insert(1), update(2), delete(3), insert(4)];
    let statements = Statements::of_models(models).unwrap();
    assert_eq!(
        shape(&planned(&statements, false, &limits()).unwrap()),
        [(Verb::Insert, 2), (Verb::Update, 1), (Verb::Delete, 2)]
    );
}

#[tokio::test]
async fn batch_count_limit_is_used_fully() {
    let limits = WriteLimits { batch_count: 3, ..limits() };
    for (count, expected) in [(2, vec![2]), (3, vec![3]), (4, vec![3, 1]), (7, vec![3, 3, 1])] {
        let statements = Statements::of_models((0..count).map(insert)).unwrap();
        let batches = planned(&statements, true, &limits).unwrap();
        assert_eq!(batches.iter().map(CollectionBulkBatch::len).collect::<Vec<_>>(), expected);
    }
}

/// Returns the smallest message limit with which `models` are one batch.
fn exact_message_bytes(models: &[WriteModel]) -> usize {
    let statements = Statements::of_models(models.to_vec()).unwrap();
    let fits = |message_bytes| {
        let limits = WriteLimits { message_bytes, ..limits() };
        planned(&statements, true, &limits).is_ok_and(|batches| batches.len() == 1)
    };
    (0..10_000).find(|bytes| fits(*bytes)).unwrap()
}

#[tokio::test]
async fn message_size_limit_is_used_fully() {
    let models: Vec<_> = (0..4).map(insert).collect();
    let limits = WriteLimits { message_bytes: exact_message_bytes(&models[..2]), ..limits() };
    let statements = Statements::of_models(models).unwrap();
    let batches = planned(&statements, true, &limits).unwrap();
    assert_eq!(shape(&batches), [(Verb::Insert, 2), (Verb::Insert, 2)]);
    let limits = WriteLimits { message_bytes: limits.message_bytes - 1, ..limits };
    assert_eq!(planned(&statements, true, &limits).unwrap().len(), 4);
}

#[tokio::test]
async fn the_frame_of_a_message_is_counted_exactly() {
    let models = [insert(0), insert(1)];
    let collection = collection();
    let statements = Statements::of_models(models.clone()).unwrap();
    let settings = settings_with(true);
    let batches = plan(&statements, &collection, &settings, &limits()).unwrap();
    let command = command(&collection, &settings, &batches[0], false).unwrap();

    let mut message = Vec::new();
    let outgoing = crate::connection::Outgoing {
        sequence: Some(statements.document_sequence(&batches[0])),
        ..crate::connection::Outgoing::new(&command.name, &command.database, &command.body)
    };
    outgoing.write(&mut message, 1, None).unwrap();
    // Except the bytes reserved for the fields of an attempt, such as `lsid`.
    assert_eq!(exact_message_bytes(&models) - 1024, message.len());
}

fn insert_of(bytes: usize) -> WriteModel {
    // {"_id": int32, "s": string}: 4 + 9 + (1 + 2 + 4 + text + 1) + 1
    InsertOneModel::new(doc! { "_id": 1, "s": "x".repeat(bytes - 22) }).into()
}

#[tokio::test]
async fn documents_above_max_bson_object_size_are_rejected() {
    let limits = WriteLimits { document_bytes: 1000, ..limits() };
    let largest = Statements::of_models([insert_of(1000)]).unwrap();
    assert_eq!(planned(&largest, true, &limits).unwrap()[0].bytes, 1000);
    let too_large = Statements::of_models([insert(0), insert_of(1001)]).unwrap();
    for ordered in [true, false] {
        let error = planned(&too_large, ordered, &limits).unwrap_err();
        assert!(error.is_invalid_argument());
        assert!(error.to_string().contains("document 1 is 1001 bytes long"), "{error}");
    }
}

#[tokio::test]
async fn update_may_exceed_the_document_limit_by_filter_and_options() {
    let limits = WriteLimits { document_bytes: 1000, ..limits() };
    let update_of = |text: usize| {
        let operators = doc! { "$set": { "s": "x".repeat(text) } };
        Statements::of_models::<Document>([UpdateOneModel::new(doc! {}, operators).into()]).unwrap()
    };
    assert!(planned(&update_of(1000), true, &limits).is_ok());
    assert!(planned(&update_of(16 * 1024 + 1000), true, &limits).is_err());
}

#[tokio::test]
async fn statement_larger_than_a_message_is_rejected() {
    let limits = WriteLimits { message_bytes: 1500, ..limits() };
    let statements = Statements::of_models([insert_of(1000)]).unwrap();
    assert!(planned(&statements, true, &limits).unwrap_err().is_invalid_argument());
}

#[tokio::test]
async fn batch_count_limit_of_zero_means_one() {
    let limits = WriteLimits { batch_count: 0, ..limits() };
    let statements = Statements::of_models([insert(0), insert(1)]).unwrap();
    assert_eq!(planned(&statements, true, &limits).unwrap().len(), 2);
}
