//! Each write is in exactly one batch within the limits, for any writes and limits.

use proptest::prelude::*;

use super::*;
use crate::operation::{fixture, write::Verb};

/// Returns a write whose index is the `_id` in its document or filter.
fn model(verb: u8, index: usize, padding: usize) -> WriteModel {
    let id = doc! { "_id": i64::try_from(index).unwrap() };
    let text = "x".repeat(padding);
    match verb {
        0 => {
            let mut document = id;
            document.insert("s", text);
            InsertOneModel::new(document).into()
        }
        1 => UpdateOneModel::new(id, doc! { "$set": { "s": text } }).into(),
        2 => UpdateManyModel::new(id, doc! { "$set": { "s": text } }).into(),
        3 => ReplaceOneModel::new(id, doc! { "s": text }).into(),
        4 => DeleteOneModel::new(id).into(),
        _ => DeleteManyModel::new(id).into(),
    }
}

fn index_in(verb: Verb, statement: &Document) -> usize {
    let id = match verb {
        Verb::Insert => statement.get_i64("_id"),
        Verb::Update | Verb::Delete => statement.get_document("q").unwrap().get_i64("_id"),
    };
    usize::try_from(id.unwrap()).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn batches_hold_each_write_once_within_the_limits(
        writes in prop::collection::vec((0_u8..6, 0_usize..300), 1..60),
        ordered: bool,
        batch_count in 1_usize..12,
        // The largest write fits into a message.
        message_bytes in 1_700_usize..4_000,
    ) {
        let runtime = runtime();
        let _entered = runtime.enter();
        let collection = fixture::collection();
        let settings = settings_with(ordered);
        let limits = WriteLimits { message_bytes, batch_count, ..limits() };
        let models = writes.iter().enumerate().map(|(i, (verb, padding))| model(*verb, i, *padding));
        let statements = Statements::of_models(models).unwrap();
        let batches = plan(&statements, &collection, &settings, &limits).unwrap();

        let mut sent = Vec::new();
        for batch in &batches {
            let command = command(&collection, &settings, batch, false).unwrap();
            let statements_sent = super::sent(&statements, batch);
            prop_assert!(statements_sent.len() <= batch_count);
            prop_assert_eq!(statements_sent.len(), batch.len());
            let lent = statements.document_sequence(batch);
            prop_assert_eq!(lent.documents.bytes(), batch.bytes);

            let mut message = Vec::new();
            let outgoing = crate::connection::Outgoing {
                sequence: Some(lent),
                ..crate::connection::Outgoing::new(&command.name, &command.database, &command.body)
            };
            let written = outgoing.write(&mut message, 1, None).unwrap();
            prop_assert_eq!(written.length, message.len() + written.unbuffered_bytes);
            prop_assert!(written.length <= message_bytes);

            for (nth, statement) in statements_sent.iter().enumerate() {
                let index = index_in(batch.verb, statement);
                prop_assert_eq!(index, statements.index(batch, nth));
                sent.push(index);
            }
        }
        if ordered {
            prop_assert_eq!(sent, (0..writes.len()).collect::<Vec<_>>());
        } else {
            let verbs: Vec<_> = batches.iter().map(|batch| batch.verb).collect();
            prop_assert!(verbs.is_sorted());
            sent.sort_unstable();
            prop_assert_eq!(sent, (0..writes.len()).collect::<Vec<_>>());
        }
    }
}
