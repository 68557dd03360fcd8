//! Cursors: batches, exhaustion, owners, idle timeout.

use std::sync::Arc;

use bson::{DateTime, Document, Timestamp, doc};
use steadfast_query::Environment;

use super::{batch::CursorBatch, source::AwaitDataSource, *};

fn env_at(millis: i64) -> Environment {
    Environment::new(DateTime::from_millis(millis), Timestamp { time: 1, increment: 0 }, 7)
}

fn numbers(count: i32) -> Vec<Arc<Document>> {
    (1..=count).map(|number| Arc::new(doc! { "_id": number })).collect()
}

fn namespace() -> Namespace {
    Namespace::new("d", "c")
}

fn cursor(found: FoundDocuments) -> Cursor {
    Cursor::new(namespace(), CursorOwner::default(), CursorSource::FoundDocuments(found))
}

fn ids(reply: &Document, batch: &str) -> Vec<i32> {
    let cursor = reply.get_document("cursor").unwrap();
    let documents = cursor.get_array(batch).unwrap();
    documents.iter().map(|it| it.as_document().unwrap().get_i32("_id").unwrap()).collect()
}

fn id(reply: &Document) -> i64 {
    reply.get_document("cursor").unwrap().get_i64("id").unwrap()
}

/// Opens a cursor and returns its id.
fn opened(count: i32, owner: CursorOwner) -> (i64, Cursors) {
    let mut cursors = Cursors::default();
    let source = CursorSource::FoundDocuments(FoundDocuments::new(numbers(count)));
    let reply =
        Cursor::new(namespace(), owner, source).open(Some(1), &mut cursors, &env_at(0)).unwrap();
    (id(&reply), cursors)
}

fn session(byte: u8) -> SessionId {
    SessionId { id: vec![byte; 16], user: vec![] }
}

fn more(cursors: &mut Cursors, id: i64, owner: &CursorOwner) -> Result<Document, Fault> {
    cursors.get_more(id, &namespace(), owner, None, DateTime::from_millis(0))
}

#[test]
fn get_more_returns_batches_until_exhausted() {
    let mut cursors = Cursors::default();
    let first =
        cursor(FoundDocuments::new(numbers(5))).open(Some(2), &mut cursors, &env_at(0)).unwrap();
    assert_eq!(ids(&first, "firstBatch"), [1, 2]);
    let id = id(&first);
    assert!(id > 0);
    let owner = CursorOwner::default();
    let now = DateTime::from_millis(0);
    let second = cursors.get_more(id, &namespace(), &owner, Some(2), now).unwrap();
    assert_eq!((ids(&second, "nextBatch"), super::tests::id(&second)), (vec![3, 4], id));
    let third = cursors.get_more(id, &namespace(), &owner, None, now).unwrap();
    assert_eq!((ids(&third, "nextBatch"), super::tests::id(&third)), (vec![5], 0));
    assert_eq!(more(&mut cursors, id, &owner).unwrap_err().code, Code::CURSOR_NOT_FOUND);
}

#[test]
fn cursor_with_unknown_end_needs_another_get_more() {
    let mut cursors = Cursors::default();
    let reply =
        cursor(FoundDocuments::new(numbers(2))).open(Some(2), &mut cursors, &env_at(0)).unwrap();
    assert_ne!(id(&reply), 0);
    let rest = more(&mut cursors, id(&reply), &CursorOwner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch"), id(&rest)), (vec![], 0));

    let reply = cursor(FoundDocuments::with_known_end(numbers(2)))
        .open(Some(2), &mut cursors, &env_at(0))
        .unwrap();
    assert_eq!(id(&reply), 0);
}

#[test]
fn batch_size_zero_returns_empty_first_batch() {
    let mut cursors = Cursors::default();
    let reply = cursor(FoundDocuments::with_known_end(numbers(1)))
        .open(Some(0), &mut cursors, &env_at(0))
        .unwrap();
    assert_ne!(id(&reply), 0);
    let rest = more(&mut cursors, id(&reply), &CursorOwner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch"), id(&rest)), (vec![1], 0));
}

#[test]
fn batch_is_limited_to_16_megabytes() {
    let large = || Arc::new(doc! { "_id": 1, "text": "x".repeat(6 * 1024 * 1024) });
    let mut cursors = Cursors::default();
    let found = FoundDocuments::new(vec![large(), large(), large()]);
    let reply = cursor(found).open(None, &mut cursors, &env_at(0)).unwrap();
    assert_eq!(ids(&reply, "firstBatch").len(), 2);
    let rest = more(&mut cursors, id(&reply), &CursorOwner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch").len(), id(&rest)), (1, 0));
}

#[test]
fn get_more_requires_session_and_transaction_of_cursor() {
    let one = CursorOwner { session: Some(session(1)), transaction: None };
    let other = CursorOwner { session: Some(session(2)), transaction: None };
    let in_transaction = CursorOwner { transaction: Some(5), ..one.clone() };
    let code = |opener: &CursorOwner, asker: &CursorOwner| {
        let (id, mut cursors) = opened(3, opener.clone());
        more(&mut cursors, id, asker).map_err(|fault| fault.code.number).err()
    };
    assert_eq!(code(&one, &one), None);
    assert_eq!(code(&CursorOwner::default(), &one), Some(50736));
    assert_eq!(code(&one, &CursorOwner::default()), Some(50737));
    assert_eq!(code(&one, &other), Some(50738));
    assert_eq!(code(&one, &in_transaction), Some(50739));
    assert_eq!(code(&in_transaction, &one), Some(50740));
    let later = CursorOwner { transaction: Some(6), ..one };
    assert_eq!(code(&in_transaction, &later), Some(50741));
}

#[test]
fn get_more_with_other_namespace_fails_and_keeps_cursor() {
    let (id, mut cursors) = opened(3, CursorOwner::default());
    let other = Namespace::new("d", "x");
    let now = DateTime::from_millis(0);
    let fault = cursors.get_more(id, &other, &CursorOwner::default(), None, now).unwrap_err();
    assert_eq!(fault.code, Code::UNAUTHORIZED);
    assert!(more(&mut cursors, id, &CursorOwner::default()).is_ok());
}

#[test]
fn cursor_is_closed_with_its_session_or_transaction() {
    let owner = CursorOwner { session: Some(session(1)), transaction: Some(5) };
    let (_, mut cursors) = opened(3, owner.clone());
    cursors.kill_session(&session(2));
    cursors.kill_transaction(&session(1), 4);
    assert_eq!(cursors.len(), 1);
    cursors.kill_transaction(&session(1), 5);
    assert_eq!(cursors.len(), 0);
    let (_, mut cursors) = opened(3, owner);
    cursors.kill_session(&session(1));
    assert_eq!(cursors.len(), 0);
}

#[test]
fn idle_cursor_times_out_unless_no_cursor_timeout() {
    let minutes = |count: i64| DateTime::from_millis(count * 60_000);
    let (id, mut cursors) = opened(5, CursorOwner::default());
    cursors.expire(minutes(9));
    let owner = CursorOwner::default();
    cursors.get_more(id, &namespace(), &owner, Some(1), minutes(9)).unwrap();
    cursors.expire(minutes(18));
    assert_eq!(cursors.len(), 1);
    let gone = cursors.get_more(id, &namespace(), &owner, Some(1), minutes(19)).unwrap_err();
    assert_eq!(gone.code, Code::CURSOR_NOT_FOUND);

    let mut staying = cursor(FoundDocuments::new(numbers(3)));
    staying.no_cursor_timeout = true;
    staying.open(Some(1), &mut cursors, &env_at(0)).unwrap();
    cursors.expire(minutes(1000));
    assert_eq!(cursors.len(), 1);
}

#[test]
fn kill_cursors_reports_open_cursors() {
    let (id, mut cursors) = opened(3, CursorOwner::default());
    let reply = cursors.kill(&[id, 5]);
    assert_eq!(
        reply,
        doc! {
            "cursorsKilled": [id],
            "cursorsNotFound": [5_i64],
            "cursorsAlive": [],
            "cursorsUnknown": [],
        }
    );
}

/// A source that returns its documents and never ends.
#[derive(Debug)]
struct EndlessSource(Vec<Document>);

impl AwaitDataSource for EndlessSource {
    fn set_history(&mut self, _: &StreamHistory) {}

    fn take(&mut self, max_count: usize) -> Result<CursorBatch, Fault> {
        let count = max_count.min(self.0.len());
        let token = Some(doc! { "_data": "82" });
        Ok(CursorBatch {
            documents: self.0.drain(..count).collect(),
            finished: false,
            invalidated: false,
            resume_token: token,
        })
    }
}

#[test]
fn empty_batch_keeps_change_stream_open_with_resume_token() {
    let mut cursors = Cursors::default();
    let source = CursorSource::AwaitDataSource(Box::new(EndlessSource(vec![doc! { "_id": 1 }])));
    let cursor = Cursor::new(namespace(), CursorOwner::default(), source);
    let reply = cursor.open(Some(0), &mut cursors, &env_at(0)).unwrap();
    let id = id(&reply);
    assert!(cursors.awaits_data(id));
    for expected in [vec![1], vec![]] {
        let reply = more(&mut cursors, id, &CursorOwner::default()).unwrap();
        assert_eq!((ids(&reply, "nextBatch"), super::tests::id(&reply)), (expected, id));
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get("postBatchResumeToken"), Some(&doc! { "_data": "82" }.into()));
    }
}
