//! Writes without faults, rejected documents, and invalid options.

use std::time::Duration;

use serde::Serialize;
use steadfast::{
    bson::{doc, oid::ObjectId},
    error::Outcome,
    options::{Acknowledgment, WriteConcern},
};
use steadfast_patterns::local_writes::{LocalWriteError, LocalWriter, LocalWriterBuilder};

use super::*;

#[tokio::test]
async fn document_goes_to_the_nearest_datacenter() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let receipt = pair.writer.insert(&message(1)).await.unwrap();
    assert_eq!(receipt.datacenter(), "alfa");
    assert!(receipt.failed().is_empty());
    assert_eq!(receipt.may_also_be_in().count(), 0);
    assert_eq!(only_copy(&pair.at_alfa, 1).await, written(receipt.id(), 1, "alfa"));
    assert!(copies(&pair.at_bravo, 1).await.is_empty());
    assert_eq!(up(&pair.writer), [true, true]);
}

#[tokio::test]
async fn serializable_types_are_written() {
    #[derive(Serialize)]
    struct Message<'a> {
        message_id: i64,
        text: &'a str,
        datacenter: Option<&'a str>,
    }
    let (pair, _clock) = TwoDatacenters::start().await;
    let text = "hello".to_owned();
    let sent = Message { message_id: 1, text: &text, datacenter: None };
    let receipt = pair.writer.insert(&sent).await.unwrap();
    let expected =
        doc! { "_id": receipt.id(), "message_id": 1_i64, "text": "hello", "datacenter": "alfa" };
    assert_eq!(only_copy(&pair.at_alfa, 1).await, expected);
}

#[tokio::test]
async fn datacenter_field_can_be_renamed() {
    let (pair, _clock) = TwoDatacenters::with(|builder| builder.datacenter_field("site")).await;
    pair.writer.insert(&doc! { "message_id": 1_i64, "site": "x", "datacenter": 5 }).await.unwrap();
    let found = only_copy(&pair.at_alfa, 1).await;
    assert_eq!(found.get_str("site").unwrap(), "alfa");
    assert_eq!(found.get_i32("datacenter").unwrap(), 5);
}

#[tokio::test]
async fn document_with_an_id_is_rejected_before_sending() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let error = pair.writer.insert(&doc! { "_id": 1 }).await.unwrap_err();
    let LocalWriteError::Invalid(inner) = &error else { panic!("{error}") };
    assert!(inner.is_invalid_argument());
    assert_eq!(inner.outcome(), Outcome::NotSent);
    assert!(error.to_string().contains("_id"), "{error}");
    assert_eq!(pair.at_alfa.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn rejected_document_marks_no_datacenter_down_and_is_not_retried() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let unique = steadfast::IndexModel::builder()
        .keys(doc! { "message_id": 1 })
        .options(steadfast::options::IndexOptions::builder().unique(true).build())
        .build();
    pair.at_alfa.create_index(unique).await.unwrap();
    pair.writer.insert(&message(1)).await.unwrap();
    for _ in 0..3 {
        let error = pair.writer.insert(&message(1)).await.unwrap_err();
        let LocalWriteError::Rejected { attempts, .. } = error else { panic!("{error}") };
        let [rejection] = &attempts[..] else { panic!("{attempts:?}") };
        assert_eq!(rejection.datacenter, "alfa");
        assert!(rejection.error.is_duplicate_key_error(), "{rejection}");
        assert_eq!(rejection.outcome, Outcome::NotApplied);
    }
    assert_eq!(up(&pair.writer), [true, true]);
    assert!(copies(&pair.at_bravo, 1).await.is_empty());
    let metrics = pair.writer.metrics();
    assert_eq!((metrics.rejected, metrics.switched, metrics.all_down), (3, 0, 0));
    assert_eq!(metrics.datacenter("alfa").unwrap().written, 1);
    assert_eq!(metrics.datacenter("alfa").unwrap().failed, 0);
}

#[tokio::test]
async fn too_large_document_is_rejected_by_the_first_datacenter() {
    let (pair, _clock) =
        TwoDatacenters::with(|builder| builder.acknowledged_within(TEST_TIMEOUT)).await;
    let large = doc! { "message_id": 1_i64, "text": "x".repeat(17 << 20) };
    let error = pair.writer.insert(&large).await.unwrap_err();
    assert!(matches!(error, LocalWriteError::Rejected { .. }), "{error}");
    assert_eq!(up(&pair.writer), [true, true]);
}

#[tokio::test]
async fn write_concern_defaults_to_majority() {
    let (pair, clock) = TwoDatacenters::start().await;
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 1);
    let receipt = past_limit(&clock, pair.writer.insert(&message(1)), there).await.unwrap();
    assert_eq!(receipt.datacenter(), "bravo");
    let writer_with_w1 = LocalWriter::builder()
        .datacenter("alfa", &pair.at_alfa)
        .write_concern(WriteConcern::from(Acknowledgment::Nodes(1)))
        .build()
        .unwrap();
    assert_eq!(writer_with_w1.insert(&message(2)).await.unwrap().datacenter(), "alfa");
}

#[tokio::test]
async fn clones_of_a_writer_share_state_and_can_be_sent_to_tasks() {
    fn is_shareable<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let (pair, _clock) = TwoDatacenters::start().await;
    is_shareable(&pair.writer);
    let clone = pair.writer.clone();
    let receipt = tokio::spawn(async move { is_send(clone.insert(&message(1))).await.unwrap() })
        .await
        .unwrap();
    assert_eq!(receipt.datacenter(), "alfa");
    assert_eq!(pair.writer.metrics().datacenter("alfa").unwrap().written, 1);
    is_send(pair.writer.insert_many([message(2)])).await.remove(0).unwrap();
}

#[tokio::test]
async fn builder_rejects_invalid_options() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let one = || LocalWriter::builder().datacenter("alfa", &pair.at_alfa);
    let assert_build_error = |builder: LocalWriterBuilder, word: &str| {
        let error = builder.build().unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    assert_build_error(LocalWriter::builder(), "needs a datacenter");
    assert_build_error(one().datacenter("alfa", &pair.at_bravo), "two datacenters");
    assert_build_error(
        LocalWriter::builder().cluster(&pair.at_alfa, ["a", "b", "a"]),
        "two datacenters",
    );
    assert_build_error(one().datacenter("", &pair.at_bravo), "empty");
    for field in ["", "_id", "a.b", "$a", "a\0"] {
        assert_build_error(one().datacenter_field(field), "datacenter field");
    }
    assert_build_error(one().acknowledged_within(Duration::ZERO), "acknowledged_within");
    assert_build_error(one().probe_every(Duration::ZERO), "probe_every");
    assert_build_error(one().write_concern(WriteConcern::from(Acknowledgment::Nodes(0))), "w: 0");
    let nameless = pair.at_alfa.client().database("app").collection::<Document>("");
    assert_build_error(LocalWriter::builder().datacenter("alfa", nameless), "collection name");
    one().build().unwrap();
}

#[tokio::test]
async fn copies_have_different_ids_with_their_creation_time() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let first = pair.writer.insert(&message(1)).await.unwrap().id();
    let second = pair.writer.insert(&message(1)).await.unwrap().id();
    assert_ne!(first, second);
    assert!(first.timestamp() <= ObjectId::new().timestamp());
    assert_eq!(copies(&pair.at_alfa, 1).await.len(), 2);
}
