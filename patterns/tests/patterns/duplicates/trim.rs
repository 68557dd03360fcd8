//! Trims: deletion of surplus copies only.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast::{
    bson::{Document, doc, oid::ObjectId},
    options::{SelectionCriteria, WriteConcern},
};
use steadfast_patterns::duplicates::{Duplicates, Finding, Keep};

use super::{DuplicatesFixture, all, datacenter, id, numbers};

fn message(id: ObjectId, message_id: i32, datacenter: &str, text: &str) -> Document {
    doc! {
        "_id": id, "message_id": message_id, "datacenter": datacenter, "userid": message_id % 3,
        "text": text,
    }
}

#[tokio::test]
async fn trim_deletes_only_surplus_copies_and_only_without_dry_run() {
    let fixture = DuplicatesFixture::start().await;
    let mut documents = vec![
        message(id(1, 1), 1, "alfa", "a"),
        message(id(2, 1), 1, "bravo", "a"),
        message(id(3, 1), 2, "bravo", "b"),
        message(id(1, 2), 3, "alfa", "c"),
        message(id(2, 2), 3, "bravo", "not c"),
        message(id(4, 2), 3, "alfa", "c"),
    ];
    documents.extend([
        doc! { "_id": id(5, 1), "datacenter": "alfa", "userid": 1 },
        doc! { "_id": id(5, 2), "message_id": [1, 2], "datacenter": "alfa", "userid": 1 },
        doc! { "_id": "x", "message_id": 1, "datacenter": "alfa", "userid": 1, "text": "a" },
    ]);
    fixture.messages.insert_many(&documents).await.unwrap();
    let duplicates = fixture.duplicates();

    let report = duplicates.trim(doc! {}).await.unwrap();
    assert!(report.dry_run);
    assert_eq!((report.examined, report.duplicated), (9, 2));
    assert_eq!((report.surplus, report.deleted, report.differing), (2, 0, 1));
    assert_eq!((report.missing_key, report.array_key, report.not_object_id), (1, 1, 1));
    assert_eq!(fixture.messages.count_documents(doc! {}).await.unwrap(), 9);

    let found = Mutex::new(Vec::new());
    let each = |copy: &steadfast_patterns::duplicates::Surplus| {
        found.lock().unwrap().push((copy.kept.id, copy.copy.id, copy.finding));
    };
    let report = duplicates.trim(doc! {}).each(each).dry_run(false).await.unwrap();
    assert_eq!((report.surplus, report.deleted, report.differing), (2, 2, 1));
    assert_eq!(
        *found.lock().unwrap(),
        [
            (id(1, 1), id(2, 1), Finding::Surplus),
            (id(1, 2), id(2, 2), Finding::Differs),
            (id(1, 2), id(4, 2), Finding::Surplus),
        ]
    );
    documents.retain(|it| ![id(2, 1).into(), id(4, 2).into()].contains(&it["_id"]));
    documents.sort_by_key(|it| it.get_object_id("_id").ok());
    assert_eq!(all(&fixture.messages).await, documents, "no mark is left");

    let again = duplicates.trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!((again.surplus, again.deleted, again.differing), (0, 0, 1));
}

#[tokio::test]
async fn trim_of_several_deployments_keeps_one_copy() {
    for (keep, kept) in [(Keep::First, [2_u64, 1]), (Keep::Last, [1, 2])] {
        let (_alfa, alfa) = datacenter().await;
        let (_bravo, bravo) = datacenter().await;
        alfa.insert_many([message(id(1, 1), 1, "alfa", "a"), message(id(1, 2), 2, "alfa", "b")])
            .await
            .unwrap();
        bravo
            .insert_many([
                message(id(2, 1), 1, "bravo", "a"),
                message(id(2, 2), 2, "bravo", "b"),
                message(id(0, 3), 3, "bravo", "c"),
            ])
            .await
            .unwrap();
        // In one event, the copy in bravo is the older one.
        bravo.insert_one(message(id(1, 4), 4, "bravo", "d")).await.unwrap();
        alfa.insert_one(message(id(2, 4), 4, "alfa", "d")).await.unwrap();
        let both = Duplicates::over([&alfa, &bravo]).key(["message_id"]).keep(keep);
        let report = both.trim(doc! {}).dry_run(false).await.unwrap();
        assert_eq!((report.surplus, report.deleted), (3, 3));
        let [in_alfa, in_bravo] = kept;
        assert_eq!(alfa.count_documents(doc! {}).await.unwrap(), in_alfa);
        assert_eq!(bravo.count_documents(doc! {}).await.unwrap(), in_bravo + 1);
    }
}

#[tokio::test]
async fn event_with_a_young_copy_is_not_trimmed() {
    let fixture = DuplicatesFixture::start().await;
    fixture
        .messages
        .insert_many([
            message(id(1, 1), 1, "alfa", "a"),
            message(ObjectId::new(), 1, "bravo", "a"),
            message(id(1, 2), 2, "alfa", "b"),
            message(id(2, 2), 2, "bravo", "b"),
        ])
        .await
        .unwrap();
    let duplicates = fixture.duplicates();
    let report = duplicates.trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!((report.duplicated, report.too_young, report.deleted), (2, 1, 1));
    // A copy of the current second is not older than zero seconds.
    let later = duplicates.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await.unwrap();
    assert_eq!((later.too_young, later.deleted), (0, 1));
}

#[tokio::test]
async fn indistinguishable_copies_are_not_trimmed() {
    let (_alfa, alfa) = datacenter().await;
    let (_bravo, bravo) = datacenter().await;
    // The same document, with its `_id`, is in both deployments.
    let same = message(id(1, 1), 1, "alfa", "a");
    alfa.insert_one(&same).await.unwrap();
    bravo.insert_one(&same).await.unwrap();
    // Copies with different datacenters can be distinguished.
    alfa.insert_one(message(id(1, 2), 2, "alfa", "b")).await.unwrap();
    bravo.insert_one(message(id(1, 2), 2, "bravo", "b")).await.unwrap();
    for deployments in [[&alfa, &bravo], [&bravo, &alfa]] {
        let both = Duplicates::over(deployments).key(["message_id"]);
        let report = both.trim(doc! {}).await.unwrap();
        assert_eq!((report.surplus, report.indistinguishable), (1, 1));
    }
    let both = Duplicates::over([&bravo, &alfa]).key(["message_id"]);
    assert_eq!(both.trim(doc! {}).dry_run(false).await.unwrap().deleted, 1);
    assert_eq!(alfa.count_documents(doc! {}).await.unwrap(), 2);
    assert_eq!(bravo.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn key_with_too_many_copies_deletes_nothing() {
    let (_alfa, alfa) = datacenter().await;
    alfa.insert_many(
        (0..1_500).map(|n| doc! { "_id": ObjectId::from_bytes(bytes(n)), "kind": "sale" }),
    )
    .await
    .unwrap();
    let report = Duplicates::of(&alfa).key(["kind"]).trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!((report.duplicated, report.too_many_copies, report.deleted), (1, 1, 0));
    assert_eq!(alfa.count_documents(doc! {}).await.unwrap(), 1_500);
}

fn bytes(n: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    bytes
}

#[tokio::test]
async fn many_copies_are_trimmed_in_batches() {
    let fixture = DuplicatesFixture::start().await;
    let documents = (0..350_u32).flat_map(|n| {
        let number = i32::try_from(n).unwrap();
        let id = |copy: u32| ObjectId::from_bytes(bytes(n * 2 + copy));
        [message(id(0), number, "alfa", "x"), message(id(1), number, "bravo", "x")]
    });
    fixture.messages.insert_many(documents).await.unwrap();
    let reported = Mutex::new(Vec::new());
    let report = fixture
        .duplicates()
        .trim(doc! {})
        .progress(|report| reported.lock().unwrap().push(report.deleted))
        .dry_run(false)
        .await
        .unwrap();
    assert_eq!((report.examined, report.duplicated, report.deleted), (700, 350, 350));
    let reported = reported.into_inner().unwrap();
    assert!(
        reported.len() > 3 && reported.is_sorted() && reported.last() == Some(&350),
        "{reported:?}"
    );
    assert_eq!(fixture.messages.count_documents(doc! { "datacenter": "alfa" }).await.unwrap(), 350);
    assert_eq!(fixture.messages.count_documents(doc! {}).await.unwrap(), 350);
}

#[tokio::test]
async fn failed_trim_keeps_a_copy_and_can_be_repeated() {
    for (command, skip, marks) in [
        ("find", 0, 0),
        ("find", 1, 0),
        ("update", 0, 0),
        ("update", 1, 1),
        ("update", 2, 2),
        ("delete", 0, 1),
    ] {
        let (deployment, alfa) = datacenter().await;
        alfa.insert_many([message(id(1, 1), 1, "alfa", "a"), message(id(2, 1), 1, "bravo", "a")])
            .await
            .unwrap();
        let duplicates = Duplicates::of(&alfa).key(["message_id"]);
        let failure = doc! {
            "configureFailPoint": "failCommand",
            "mode": { "skip": skip },
            "data": { "failCommands": [command], "errorCode": 8000 },
        };
        deployment.faults().configure_fail_point(0, failure).unwrap();
        let error = duplicates.trim(doc! {}).dry_run(false).await.unwrap_err();
        deployment.faults().disable_fail_point(0, "failCommand").unwrap();
        assert_eq!(
            (error.source.code(), error.report.deleted),
            (Some(8000), 0),
            "{command} {skip}"
        );
        assert_eq!(alfa.count_documents(doc! {}).await.unwrap(), 2, "{command} {skip}");
        let marked = doc! { "steadfast_trim": { "$exists": true } };
        assert_eq!(alfa.count_documents(marked).await.unwrap(), marks, "{command} {skip}");

        // A read does not return the mark of the last copy.
        let mut found = duplicates.clone().keep(Keep::Last).read(doc! {}).await.unwrap();
        assert!(found.advance().await.unwrap());
        assert_eq!(found.deserialize_current().unwrap(), message(id(2, 1), 1, "bravo", "a"));

        // The next trim can keep either copy, whatever the failed one kept.
        let keep = if skip == 0 { Keep::First } else { Keep::Last };
        let report = duplicates.keep(keep).trim(doc! {}).dry_run(false).await.unwrap();
        assert_eq!(report.deleted, 1);
        let kept = match keep {
            Keep::First => message(id(1, 1), 1, "alfa", "a"),
            Keep::Last => message(id(2, 1), 1, "bravo", "a"),
        };
        assert_eq!(all(&alfa).await, [kept]);
    }
}

#[tokio::test]
async fn trim_rereads_copies_from_the_primary_before_deleting() {
    let deployment = steadfast_embedded::Deployment::replica_set(3).start();
    let client = steadfast::Client::with_uri_str(deployment.uri()).await.unwrap();
    let messages = client.database("app").collection::<Document>("messages");
    let copies = [message(id(1, 1), 1, "alfa", "a"), message(id(2, 1), 1, "bravo", "a")];
    messages.insert_many(&copies).await.unwrap();
    deployment.wait_for_replication().await;
    // The copy to keep is deleted, and a secondary has not replicated that.
    let primary = deployment.primary().unwrap();
    let lagging = (0..3).find(|member| *member != primary).unwrap();
    deployment.faults().hold_replication(lagging);
    messages
        .delete_one(doc! { "_id": id(1, 1) })
        .write_concern(WriteConcern::majority())
        .await
        .unwrap();
    let address = deployment.member(lagging).address().to_string();
    let lagging = SelectionCriteria::Predicate(Arc::new(move |server| {
        server.address().to_string() == address
    }));
    let duplicates = Duplicates::of(&messages).key(["message_id"]).selection_criteria(lagging);
    assert_eq!(numbers_of(&duplicates).await, 2);
    let report = duplicates.trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!((report.examined, report.missing, report.deleted), (2, 1, 0));
    assert_eq!(all(&messages).await, copies[1..]);
}

/// Returns the number of documents, copies included.
async fn numbers_of(duplicates: &Duplicates<Document>) -> u64 {
    let mut found = duplicates.read(doc! {}).await.unwrap();
    let mut documents = 0;
    while found.advance().await.unwrap() {
        documents += 1;
    }
    documents + found.surplus()
}

#[tokio::test]
async fn trim_does_not_change_the_result_of_reads() {
    let fixture = DuplicatesFixture::start().await;
    let documents = (0..60).map(|n: i32| {
        let byte = u8::try_from(n).unwrap();
        let datacenter = if n % 2 == 0 { "alfa" } else { "bravo" };
        doc! {
            "_id": id(byte % 7, byte), "message_id": n % 17, "datacenter": datacenter,
            "userid": 1, "n": n % 17,
        }
    });
    fixture.messages.insert_many(documents).await.unwrap();
    let duplicates = fixture.duplicates();
    let before = numbers(duplicates.read(doc! {}).await.unwrap()).await;
    assert_eq!(before, (0..17).collect::<Vec<_>>());
    assert_eq!(duplicates.trim(doc! {}).dry_run(false).await.unwrap().deleted, 43);
    assert_eq!(numbers(duplicates.read(doc! {}).await.unwrap()).await, before);
    assert_eq!(fixture.messages.count_documents(doc! {}).await.unwrap(), 17);
}

#[tokio::test]
async fn copy_that_cannot_be_marked_is_kept_and_the_others_are_trimmed() {
    let (_deployment, messages) = datacenter().await;
    let large = "x".repeat((16 << 20) - 90);
    let copy =
        |rest: u8| doc! { "_id": id(1, rest), "message_id": 1, "datacenter": "alfa", "t": &large };
    // The mark would exceed the size limit of documents.
    messages.insert_one(copy(1)).await.unwrap();
    messages.insert_one(copy(2)).await.unwrap();
    let others = [message(id(2, 1), 2, "alfa", "b"), message(id(2, 2), 2, "bravo", "b")];
    messages.insert_many(others).await.unwrap();

    let duplicates = Duplicates::of(&messages).key(["message_id"]);
    let error = duplicates.trim(doc! {}).dry_run(false).await.unwrap_err();
    assert_eq!((error.report.surplus, error.report.deleted), (2, 1), "{:?}", error.source);
    assert_eq!(messages.count_documents(doc! { "message_id": 1 }).await.unwrap(), 2);
    assert_eq!(messages.count_documents(doc! { "message_id": 2 }).await.unwrap(), 1);
}

#[tokio::test]
async fn marks_of_an_interrupted_trim_are_removed_by_the_next() {
    let (_deployment, messages) = datacenter().await;
    let marked = |mut document: Document| {
        document.insert("steadfast_trim", ObjectId::new());
        document
    };
    let documents = [
        marked(message(id(1, 1), 1, "alfa", "the only copy")),
        message(id(1, 2), 2, "alfa", "one"),
        marked(message(id(2, 2), 2, "bravo", "another")),
        marked(message(id(1, 3), 3, "alfa", "c")),
        marked(message(id(2, 3), 3, "bravo", "c")),
    ];
    messages.insert_many(&documents).await.unwrap();
    let duplicates = Duplicates::of(&messages).key(["message_id"]);
    let marks = || messages.count_documents(doc! { "steadfast_trim": { "$exists": true } });

    let report = duplicates.trim(doc! {}).await.unwrap();
    assert_eq!((report.duplicated, report.surplus, report.differing), (2, 1, 1));
    assert_eq!(marks().await.unwrap(), 4, "a dry run changes nothing");
    let report = duplicates.trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!((report.duplicated, report.deleted, report.differing), (2, 1, 1));
    assert_eq!(marks().await.unwrap(), 0);
    assert_eq!(messages.count_documents(doc! {}).await.unwrap(), 4);
}
