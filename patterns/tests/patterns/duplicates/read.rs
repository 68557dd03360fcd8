//! Reads that return each event once.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::TryStreamExt;
use serde::Deserialize;
use steadfast::{
    Client,
    bson::{Document, doc, oid::ObjectId},
    error::{Error, ErrorKind},
    event::{EventHandler, command::CommandEvent},
    options::{ClientOptions, ReadPreference, SelectionCriteria},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::duplicates::{Duplicates, Keep};

use super::{DuplicatesFixture, datacenter, id, numbers};

fn copies() -> Vec<Document> {
    vec![
        doc! { "_id": id(1, 1), "message_id": 7, "datacenter": "alfa", "userid": 1, "n": 1 },
        doc! { "_id": id(2, 1), "message_id": 7, "datacenter": "bravo", "userid": 1, "n": 2 },
        doc! { "_id": id(3, 1), "message_id": 8, "datacenter": "bravo", "userid": 2, "n": 3 },
        doc! { "_id": id(2, 2), "message_id": 9, "datacenter": "bravo", "userid": 1, "n": 4 },
        // In the same second, the rest of the ObjectId decides.
        doc! { "_id": id(2, 3), "message_id": 9, "datacenter": "alfa", "userid": 1, "n": 5 },
    ]
}

#[tokio::test]
async fn read_of_a_cluster_returns_each_event_once() {
    let fixture = DuplicatesFixture::start().await;
    fixture.messages.insert_many(copies()).await.unwrap();
    let first = fixture.duplicates();
    assert_eq!(numbers(first.read(doc! {}).await.unwrap()).await, [1, 3, 4]);
    assert_eq!(numbers(first.read(doc! { "userid": 1 }).await.unwrap()).await, [1, 4]);
    let last = first.clone().keep(Keep::Last);
    assert_eq!(numbers(last.read(doc! {}).await.unwrap()).await, [2, 3, 5]);

    let mut found = last.read(doc! {}).await.unwrap();
    while found.advance().await.unwrap() {}
    assert_eq!(found.surplus(), 2);
}

#[tokio::test]
async fn read_preference_defaults_to_nearest() {
    let preferences = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&preferences);
    let fixture = DuplicatesFixture::watched(|options| {
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event
                && started.command_name == "find"
            {
                let preference = started.command.get_document("$readPreference").cloned();
                seen.lock().unwrap().push(preference.unwrap_or_default());
                let filter = started.command.get_document("filter").unwrap();
                assert_eq!(filter, &doc! { "userid": 1 });
            }
        }));
    })
    .await;
    fixture.messages.insert_many(copies()).await.unwrap();
    fixture.duplicates().read(doc! { "userid": 1 }).await.unwrap();
    let primary = SelectionCriteria::from(ReadPreference::primary_preferred(None));
    let preferred = fixture.duplicates().selection_criteria(primary);
    preferred.read(doc! { "userid": 1 }).await.unwrap();
    assert_eq!(
        *preferences.lock().unwrap(),
        [doc! { "mode": "nearest" }, doc! { "mode": "primaryPreferred" }]
    );
}

#[tokio::test]
async fn filter_on_the_datacenter_is_rejected_before_sending() {
    let fixture = DuplicatesFixture::start().await;
    let rejected = [
        fixture.duplicates().read(doc! { "datacenter": "alfa" }).await,
        fixture.duplicates().datacenter_field("dc").read(doc! { "$or": [{ "dc": 1 }] }).await,
        fixture.duplicates().key(["datacenter"]).read(doc! {}).await,
        Duplicates::of(&fixture.messages).read(doc! {}).await,
        Duplicates::over([]).key(["message_id"]).read(doc! {}).await,
    ];
    for rejected in rejected {
        let error = rejected.expect_err("a filter on the datacenter is rejected");
        assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }));
    }
    let error = fixture.duplicates().trim(doc! { "datacenter": "alfa" }).await.unwrap_err();
    assert!(error.source.to_string().contains("leave the field out"));
}

#[tokio::test]
async fn deployments_are_merged_by_keys_of_all_number_types() {
    let (_alfa, alfa) = datacenter().await;
    let (_bravo, bravo) = datacenter().await;
    alfa.insert_many([
        doc! { "_id": id(1, 1), "k": 1, "n": 1 },
        doc! { "_id": id(1, 2), "k": 2.5, "n": 2 },
        doc! { "_id": id(9, 3), "k": 3_i64, "n": 3 },
        doc! { "_id": id(1, 4), "k": "a", "n": 4 },
    ])
    .await
    .unwrap();
    bravo
        .insert_many([
            doc! { "_id": id(2, 1), "k": 1.0, "n": 11 },
            doc! { "_id": id(2, 2), "k": 2, "n": 12 },
            doc! { "_id": id(2, 3), "k": 3, "n": 13 },
            doc! { "_id": id(2, 4), "k": "A", "n": 14 },
            doc! { "_id": id(2, 5), "k": "a", "n": 15 },
        ])
        .await
        .unwrap();
    let both = Duplicates::over([&alfa, &bravo]).key(["k"]);
    assert_eq!(numbers(both.read(doc! {}).await.unwrap()).await, [1, 12, 2, 13, 14, 4]);
    let last = both.keep(Keep::Last);
    assert_eq!(numbers(last.read(doc! {}).await.unwrap()).await, [11, 12, 2, 3, 14, 15]);
}

#[tokio::test]
async fn key_can_be_compound_and_nested() {
    let (_alfa, alfa) = datacenter().await;
    let (_bravo, bravo) = datacenter().await;
    let document = |second: u8, device: &str, count: i32, n: i32| {
        doc! { "_id": id(second, 0), "from": { "device": device, "at": n }, "count": count, "n": n }
    };
    alfa.insert_many([document(1, "a", 1, 1), document(2, "a", 2, 2), document(3, "b", 1, 3)])
        .await
        .unwrap();
    bravo.insert_many([document(4, "a", 2, 4), document(5, "b", 2, 5)]).await.unwrap();
    let both = Duplicates::over([&alfa, &bravo]).key(["from.device", "count"]);
    assert_eq!(numbers(both.read(doc! {}).await.unwrap()).await, [1, 2, 3, 5]);
}

#[tokio::test]
async fn documents_without_a_scalar_key_or_object_id_are_all_read() {
    let (_alfa, alfa) = datacenter().await;
    let (_bravo, bravo) = datacenter().await;
    for (messages, n) in [(&alfa, 0), (&bravo, 10)] {
        let second = u8::try_from(n).unwrap();
        messages
            .insert_many([
                doc! { "_id": id(second, 1), "n": n + 1 },
                doc! { "_id": id(second, 2), "k": null, "n": n + 2 },
                doc! { "_id": id(second, 3), "k": [1, 5], "n": n + 3 },
                doc! { "_id": n, "k": 1, "n": n + 4 },
                doc! { "_id": id(second, 5), "k": 1, "n": n + 5 },
            ])
            .await
            .unwrap();
    }
    let both = Duplicates::over([&alfa, &bravo]).key(["k"]);
    let mut read = numbers(both.read(doc! {}).await.unwrap()).await;
    read.sort_unstable();
    assert_eq!(read, [1, 2, 3, 4, 5, 11, 12, 13, 14]);
}

#[tokio::test]
async fn documents_are_deserialized_as_the_type_of_the_collection() {
    #[derive(Debug, Deserialize)]
    struct Message {
        #[serde(rename = "_id")]
        id: ObjectId,
        message_id: i64,
    }

    let fixture = DuplicatesFixture::start().await;
    fixture.messages.insert_many(copies()).await.unwrap();
    let messages = fixture.messages.clone_with_type::<Message>();
    let found = Duplicates::of(&messages).key(["message_id"]).read(doc! {}).await.unwrap();
    let found: Vec<Message> = found.try_collect().await.unwrap();
    let found: Vec<_> = found.iter().map(|it| (it.message_id, it.id)).collect();
    assert_eq!(found, [(7, id(1, 1)), (8, id(3, 1)), (9, id(2, 2))]);
}

#[tokio::test]
async fn lost_datacenter_is_an_error_and_not_the_end() {
    let (_alfa, alfa) = datacenter().await;
    let lost = Deployment::replica_set(1).start();
    let mut options = ClientOptions::parse(lost.uri()).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_secs(2));
    let bravo = Client::with_options(options).unwrap().database("app").collection("messages");
    let document = |n: i32| doc! { "k": n, "n": n };
    // More documents than one batch.
    alfa.insert_many((0..1_000).step_by(2).map(document)).await.unwrap();
    bravo.insert_many((1..1_000).step_by(2).map(document)).await.unwrap();
    let both = Duplicates::over([&alfa, &bravo]).key(["k"]);
    let mut found = both.read(doc! {}).await.unwrap();
    assert!(found.advance().await.unwrap());
    lost.faults().kill(0);
    let error = loop {
        match found.advance().await {
            Ok(true) => {}
            Ok(false) => panic!("documents of bravo are missing"),
            Err(error) => break error,
        }
    };
    assert!(is_lost_server(&error), "{error}");
    assert!(found.advance().await.is_err());

    lost.faults().restart(0);
    let mut found = both.read(doc! {}).await.unwrap();
    lost.faults().kill(0);
    let mut items = 0;
    let ended = loop {
        match found.try_next().await {
            Ok(Some(_)) => items += 1,
            Ok(None) => panic!("documents of bravo are missing"),
            Err(error) => break error,
        }
    };
    assert!(is_lost_server(&ended) && items < 1_000, "{ended}");
    assert!(found.try_next().await.unwrap().is_none(), "a stream ends with its error");
}

/// Returns `true` for a network error or a server selection error.
fn is_lost_server(error: &Error) -> bool {
    error.is_network_error() || matches!(&*error.kind, ErrorKind::ServerSelection { .. })
}

#[tokio::test]
async fn documents_without_object_id_are_sorted_by_key() {
    let (_one, alfa) = datacenter().await;
    let (_other, bravo) = datacenter().await;
    let first = [doc! { "_id": id(1, 1), "k": 1, "n": 1 }, doc! { "_id": 7, "k": 5, "n": 5 }];
    alfa.insert_many(first).await.unwrap();
    let second = [doc! { "_id": id(1, 2), "k": 3, "n": 3 }, doc! { "_id": "x", "k": 4, "n": 4 }];
    bravo.insert_many(second).await.unwrap();
    for keep in [Keep::First, Keep::Last] {
        let duplicates = Duplicates::over([&alfa, &bravo]).key(["k"]).keep(keep);
        assert_eq!(numbers(duplicates.read(doc! {}).await.unwrap()).await, [1, 3, 4, 5]);
    }
}
