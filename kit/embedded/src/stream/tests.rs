//! Change streams on an oplog.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp, Uuid, doc};
use steadfast_query::{Environment, Fault, Pipeline};

use super::{
    AwaitDataSource, ChangeStream, ChangeStreamOptions, ChangeStreamVersion, EventPoint, ImageMode,
    StreamPosition, StreamTarget, difference::difference,
};
use crate::{
    change::{Change, UpdateForm},
    namespace::Namespace,
    oplog::{
        MemberHistory, OpTime, Oplog, OplogEntry, OrderedTimestamp, SessionId, SessionUpdate,
        SessionUpdateKind, ShardLocator, StreamHistory,
    },
    store::Store,
};

/// An oplog with entries at the seconds 1, 2, 3 …
#[derive(Default)]
struct TestOplog {
    oplog: Oplog,
    store: Store,
}

impl TestOplog {
    fn new() -> Self {
        let mut lab = Self::default();
        lab.write(vec![create()]);
        lab
    }

    fn write(&mut self, changes: Vec<Change>) {
        self.write_as(changes, None);
    }

    fn write_as(&mut self, changes: Vec<Change>, record: Option<SessionUpdate>) {
        let timestamp = self.oplog.last().timestamp.next(self.oplog.last().timestamp.time + 1);
        let before = self.store.write(&changes).unwrap();
        let (at, wall) = (OpTime { term: 1, timestamp }, DateTime::from_millis(7));
        let entry = Arc::new(OplogEntry { at, wall, changes, record, step: None, before });
        self.oplog.push(entry, tokio::time::Instant::now(), &self.store);
    }

    /// Majority-committed entries up to a second.
    fn history(&self, until: u32) -> StreamHistory {
        let timestamp = OrderedTimestamp { time: until, increment: 1 };
        MemberHistory::new(&self.oplog, OpTime { term: 1, timestamp }, &self.store).into()
    }

    fn all(&self) -> StreamHistory {
        self.history(self.oplog.last().timestamp.time)
    }

    /// All events of a stream with these options.
    fn shown_events(&self, options: ChangeStreamOptions) -> Vec<Document> {
        let mut stream = stream(options, start());
        stream.set_history(&self.all());
        stream.take(usize::MAX).unwrap().documents
    }
}

fn start() -> StreamPosition {
    StreamPosition::start(OrderedTimestamp { time: 1, increment: 0 })
}

fn namespace() -> Namespace {
    Namespace::new("shop", "orders")
}

fn create() -> Change {
    let uuid = Uuid::from_bytes([1; 16]);
    Change::CreateCollection { namespace: namespace(), uuid, options: doc! {} }
}

fn insert(document: Document) -> Change {
    Change::Insert { namespace: namespace(), document: Arc::new(document) }
}

fn update(document: Document, update: Bson) -> Change {
    let by = UpdateForm::of(&update);
    Change::Replace { namespace: namespace(), document: Arc::new(document), by }
}

fn drop_it() -> Change {
    Change::DropCollection { namespace: namespace() }
}

fn options() -> ChangeStreamOptions {
    ChangeStreamOptions {
        target: StreamTarget::Collection(namespace()),
        full: ImageMode::Off,
        before: ImageMode::Off,
        expanded: false,
        version: ChangeStreamVersion { max_wire_version: 17 },
    }
}

fn stream(options: ChangeStreamOptions, position: StreamPosition) -> ChangeStream {
    let env = Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 0 }, 1);
    ChangeStream::new(options, Pipeline::parse(&[], "shop", &env).unwrap(), env, position)
}

fn kinds(events: &[Document]) -> Vec<&str> {
    events.iter().map(|event| event.get_str("operationType").unwrap()).collect()
}

#[test]
fn insert_event_has_full_document() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1, "a": 2 })]);
    let at = OrderedTimestamp { time: 2, increment: 1 };
    assert_eq!(
        lab.shown_events(options()),
        [doc! {
            "_id": StreamPosition { at, point: EventPoint::Event(0), shard: 0 }.token(),
            "operationType": "insert",
            "clusterTime": Timestamp::from(at),
            "wallTime": DateTime::from_millis(7),
            "fullDocument": { "_id": 1, "a": 2 },
            "ns": { "db": "shop", "coll": "orders" },
            "documentKey": { "_id": 1 },
        }]
    );
}

#[test]
fn update_form_decides_event_type() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1, "a": 1, "b": 1 })]);
    let operators = doc! { "$set": { "a": 2 }, "$unset": { "b": 1 } };
    lab.write(vec![update(doc! { "_id": 1, "a": 2 }, operators.into())]);
    lab.write(vec![update(doc! { "_id": 1, "a": 3 }, doc! { "a": 3 }.into())]);
    let shown = lab.shown_events(options());
    assert_eq!(kinds(&shown), ["insert", "update", "replace"]);
    assert_eq!(
        shown[1].get_document("updateDescription").unwrap(),
        &doc! { "updatedFields": { "a": 2 }, "removedFields": ["b"], "truncatedArrays": [] }
    );
    assert!(!shown[1].contains_key("fullDocument"));
    assert_eq!(shown[2].get_document("fullDocument").unwrap(), &doc! { "_id": 1, "a": 3 });
}

#[test]
fn update_lookup_returns_current_document_or_null() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1 }), insert(doc! { "_id": 2 })]);
    for id in [1, 2] {
        let operators = doc! { "$set": { "a": 1 } };
        lab.write(vec![update(doc! { "_id": id, "a": 1 }, operators.into())]);
    }
    let operators = doc! { "$set": { "a": 2 } };
    lab.write(vec![update(doc! { "_id": 1, "a": 2 }, operators.into())]);
    lab.write(vec![Change::Delete { namespace: namespace(), id: 2.into() }]);
    let shown = lab.shown_events(ChangeStreamOptions { full: ImageMode::Lookup, ..options() });
    let full: Vec<_> = shown[2..5].iter().map(|event| event.get("fullDocument").unwrap()).collect();
    let now = Bson::from(doc! { "_id": 1, "a": 2 });
    assert_eq!(full, [&now, &Bson::Null, &now]);
    assert_eq!(kinds(&shown)[5], "delete");
}

#[test]
fn pre_and_post_images_follow_collection_option() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1 })]);
    let change = || update(doc! { "_id": 1, "a": 1 }, doc! { "$set": { "a": 1 } }.into());
    lab.write(vec![change()]);
    let both = |images| ChangeStreamOptions { full: images, before: images, ..options() };
    let shown = lab.shown_events(both(ImageMode::WhenAvailable));
    assert_eq!(shown[1].get("fullDocument"), Some(&Bson::Null));
    assert_eq!(shown[1].get("fullDocumentBeforeChange"), Some(&Bson::Null));
    let mut strict = stream(both(ImageMode::Required), start());
    strict.set_history(&lab.all());
    assert_eq!(strict.take(usize::MAX).unwrap_err().code.number, 47);

    let kept = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    lab.write(vec![Change::ModifyCollection { namespace: namespace(), options: kept }]);
    let operators = doc! { "$set": { "a": 2 } };
    lab.write(vec![update(doc! { "_id": 1, "a": 2 }, operators.into())]);
    let shown = lab.shown_events(both(ImageMode::WhenAvailable));
    assert_eq!(shown[2].get_document("fullDocument").unwrap(), &doc! { "_id": 1, "a": 2 });
    let before = shown[2].get_document("fullDocumentBeforeChange").unwrap();
    assert_eq!(before, &doc! { "_id": 1, "a": 1 });
}

#[test]
fn transaction_events_share_cluster_time() {
    let mut lab = TestOplog::new();
    let record = SessionUpdate {
        session: SessionId { id: vec![1; 16], user: vec![2; 32] },
        number: 5,
        what: SessionUpdateKind::Committed,
    };
    let set = doc! { "$set": { "a": 1 } };
    let changes = vec![insert(doc! { "_id": 1 }), update(doc! { "_id": 1, "a": 1 }, set.into())];
    lab.write_as(changes, Some(record));
    let shown = lab.shown_events(options());
    assert_eq!(kinds(&shown), ["insert", "update"]);
    assert_eq!(shown[0].get("clusterTime"), shown[1].get("clusterTime"));
    for event in &shown {
        assert_eq!(event.get_i64("txnNumber").unwrap(), 5);
        assert!(event.get_document("lsid").unwrap().contains_key("uid"));
    }
    // A stream resumes within a transaction.
    let after = StreamPosition::read(shown[0].get_document("_id").unwrap()).unwrap();
    let mut rest = stream(options(), after);
    rest.set_history(&lab.all());
    assert_eq!(kinds(&rest.take(9).unwrap().documents), ["update"]);
}

#[test]
fn migrated_documents_have_no_events() {
    let mut lab = TestOplog::new();
    let note = Change::migration("shop.orders");
    lab.write(vec![note, insert(doc! { "_id": 1 })]);
    assert!(lab.shown_events(options()).is_empty());
}

#[test]
fn drop_invalidates_collection_stream_only() {
    let mut lab = TestOplog::new();
    lab.write(vec![drop_it()]);
    lab.write(vec![Change::DropDatabase { database: "shop".into() }]);
    let mut own = stream(options(), start());
    own.set_history(&lab.all());
    let batch = own.take(9).unwrap();
    assert_eq!(kinds(&batch.documents), ["drop", "invalidate"]);
    assert!(batch.finished && batch.invalidated);
    let database =
        ChangeStreamOptions { target: StreamTarget::Database("shop".into()), ..options() };
    assert_eq!(kinds(&lab.shown_events(database)), ["drop", "dropDatabase", "invalidate"]);
    let cluster = ChangeStreamOptions { target: StreamTarget::Cluster, ..options() };
    assert_eq!(kinds(&lab.shown_events(cluster)), ["drop", "dropDatabase"]);
}

#[test]
fn start_after_continues_after_invalidate() {
    let mut lab = TestOplog::new();
    lab.write(vec![drop_it()]);
    lab.write(vec![create()]);
    lab.write(vec![insert(doc! { "_id": 1 })]);
    let shown = lab.shown_events(options());
    let after =
        |event: &Document| StreamPosition::read(event.get_document("_id").unwrap()).unwrap();
    let next = |position| {
        let mut stream = stream(options(), position);
        stream.set_history(&lab.all());
        let documents = stream.take(9).unwrap().documents;
        kinds(&documents).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(next(after(&shown[0])), ["invalidate"]);
    assert_eq!(next(after(&shown[1])), ["insert"]);
}

#[test]
fn only_majority_committed_events_are_shown() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1 })]);
    lab.write(vec![insert(doc! { "_id": 2 })]);
    let mut stream = stream(options(), start());
    let mut ids = |history: &StreamHistory| -> Result<Vec<i32>, Fault> {
        stream.set_history(history);
        let documents = stream.take(9)?.documents;
        let id = |event: &Document| event.get_document("documentKey").unwrap().get_i32("_id");
        Ok(documents.iter().map(|event| id(event).unwrap()).collect())
    };
    assert_eq!(ids(&lab.history(2)).unwrap(), [1]);
    assert!(ids(&lab.history(2)).unwrap().is_empty());
    assert_eq!(ids(&lab.all()).unwrap(), [2]);
}

#[test]
fn batch_has_post_batch_resume_token() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1 })]);
    lab.write(vec![insert(doc! { "_id": 2 })]);
    lab.write(vec![Change::Noop(doc! {})]);
    let mut stream = stream(options(), start());
    let mut take = |max_count| {
        stream.set_history(&lab.all());
        stream.take(max_count).unwrap()
    };
    assert_eq!(take(0).resume_token, Some(start().token()));
    let first = take(1);
    assert_eq!(first.resume_token.as_ref(), first.documents[0].get_document("_id").ok());
    let rest = take(9);
    let newest = StreamPosition::start(OrderedTimestamp { time: 4, increment: 1 });
    assert_eq!((rest.documents.len(), rest.resume_token), (1, Some(newest.token())));
}

#[test]
fn resume_token_of_missing_event_is_rejected() {
    let mut lab = TestOplog::new();
    lab.write(vec![insert(doc! { "_id": 1 })]);
    let at = OrderedTimestamp { time: 2, increment: 1 };
    let mut lost = stream(options(), StreamPosition { at, point: EventPoint::Event(3), shard: 0 });
    lost.set_history(&lab.all());
    assert_eq!(lost.take(9).unwrap_err().code.number, 280);
    // Nor if the member does not know yet that it is committed.
    let mut early = stream(options(), StreamPosition { at, point: EventPoint::Event(0), shard: 0 });
    early.set_history(&lab.history(1));
    assert!(early.take(9).unwrap().documents.is_empty());
    early.set_history(&lab.all());
    assert!(early.take(9).unwrap().documents.is_empty());
}

#[test]
fn update_operators_have_field_level_descriptions() {
    let shown = |before: Document, after: Document, update: Document| {
        difference(&before, &after, &UpdateForm::of(&update.into())).unwrap()
    };
    let found = shown(
        doc! { "b": { "c": 1, "d": 1 }, "a": [1] },
        doc! { "b": { "c": 2, "d": 1 }, "a": [1, 2] },
        doc! { "$set": { "b.c": 2 }, "$push": { "a": 2 } },
    );
    assert_eq!(found, doc! { "sb": { "u": { "c": 2 } }, "sa": { "a": true, "u1": 2 } });
    let found = shown(
        doc! { "b": { "c": 1, "d": 1 } },
        doc! { "b": { "c": 2, "d": 1 } },
        doc! { "$set": { "b": { "c": 2, "d": 1 } } },
    );
    assert_eq!(found, doc! { "u": { "b": { "c": 2, "d": 1 } } });
    let many = doc! { "$set": { "a.$[]": 5 } };
    let found = shown(doc! { "a": [1, 2] }, doc! { "a": [5, 5] }, many.clone());
    assert_eq!(found, doc! { "u": { "a": [5, 5] } });
    let found = shown(doc! { "a": [5, 2] }, doc! { "a": [5, 5] }, many);
    assert_eq!(found, doc! { "sa": { "a": true, "u1": 5 } });
}

#[test]
fn pipeline_update_has_difference_unless_large() {
    let long = "x".repeat(100);
    let before = doc! { "_id": 1, "a": [&long, 2, 3], "b": 1 };
    let found = |after: Document| difference(&before, &after, &UpdateForm::Pipeline);
    let inside = doc! { "a": true, "l": 2, "u1": 7 };
    assert_eq!(
        found(doc! { "_id": 1, "a": [&long, 7] }),
        Some(doc! { "d": { "b": false }, "sa": inside })
    );
    // A field that moved is a new one.
    assert_eq!(
        found(doc! { "_id": 1, "b": 1, "a": [&long, 2, 3] }),
        None,
        "as large as the document itself"
    );
    assert_eq!(found(doc! { "_id": 1, "a": 1, "b": 1 }), None);
}

/// Two shards, with the shard key `k`.
#[derive(Debug)]
struct ByK;

impl ShardLocator for ByK {
    fn shard_key(&self, _: Uuid, _: OrderedTimestamp) -> Option<Vec<String>> {
        Some(vec![String::from("k")])
    }

    fn owner(&self, _: &Namespace, document: &Document) -> Option<usize> {
        usize::try_from(document.get_i32("k").ok()?).ok()
    }
}

fn cluster(shards: [&TestOplog; 2], until: [u32; 2]) -> StreamHistory {
    let history = |(lab, until): (&TestOplog, u32)| {
        let timestamp = OrderedTimestamp { time: until, increment: 1 };
        MemberHistory::new(&lab.oplog, OpTime { term: 1, timestamp }, &lab.store)
    };
    StreamHistory::of_shards(shards.into_iter().zip(until).map(history).collect(), Arc::new(ByK))
}

fn ids_of(documents: &[Document]) -> Vec<i32> {
    let id = |it: &Document| it.get_document("documentKey").unwrap().get_i32("_id").unwrap();
    documents.iter().map(id).collect()
}

#[test]
fn entries_with_equal_timestamps_have_distinct_tokens() {
    let mut labs = [TestOplog::new(), TestOplog::new()];
    for (shard, lab) in (0..).zip(&mut labs) {
        for id in 0..3 {
            lab.write(vec![insert(doc! { "_id": 10 * id + shard, "k": shard })]);
        }
    }
    let seen = cluster([&labs[0], &labs[1]], [4, 4]);
    let mut whole = stream(options(), start());
    whole.set_history(&seen);
    let all = whole.take(usize::MAX).unwrap().documents;
    assert_eq!(ids_of(&all), [0, 1, 10, 11, 20, 21]);
    assert_eq!(*all[1].get_document("documentKey").unwrap(), doc! { "k": 1, "_id": 1 });
    for (place, event) in all.iter().enumerate() {
        let token = StreamPosition::read(event.get_document("_id").unwrap()).unwrap();
        let mut rest = stream(options(), token);
        rest.set_history(&seen);
        assert_eq!(rest.take(usize::MAX).unwrap().documents, all[place + 1..]);
        // The same events with batches of one.
        let mut slowly = stream(options(), token);
        for expected in &all[place + 1..] {
            slowly.set_history(&seen);
            assert_eq!(slowly.take(1).unwrap().documents, std::slice::from_ref(expected));
        }
    }
}

#[test]
fn event_waits_for_oplogs_of_all_shards() {
    let mut labs = [TestOplog::new(), TestOplog::new()];
    labs[0].write(vec![insert(doc! { "_id": 1, "k": 0 })]);
    labs[0].write(vec![insert(doc! { "_id": 2, "k": 0 })]);
    let behind = cluster([&labs[0], &labs[1]], [3, 1]);
    assert_eq!(behind.delayed_until(), Some(OrderedTimestamp { time: 3, increment: 1 }));
    let mut stream = stream(options(), start());
    stream.set_history(&behind);
    let batch = stream.take(usize::MAX).unwrap();
    assert!(batch.documents.is_empty());
    labs[1].write(vec![insert(doc! { "_id": 3, "k": 1 })]);
    labs[1].write(vec![Change::Noop(doc! {})]);
    let level = cluster([&labs[0], &labs[1]], [3, 3]);
    assert_eq!(level.delayed_until(), None);
    stream.set_history(&level);
    assert_eq!(ids_of(&stream.take(usize::MAX).unwrap().documents), [1, 3, 2]);
}
