//! Cursors: batches, exhaustion, owners, idle timeout.

use std::sync::Arc;

use bson::{DateTime, Document, Timestamp, doc};
use steadfast_query::Environment;

use super::{batch::Batch, source::Live, *};

fn env_at(millis: i64) -> Environment {
    Environment::new(DateTime::from_millis(millis), Timestamp { time: 1, increment: 0 }, 7)
}

fn numbers(count: i32) -> Vec<Arc<Document>> {
    (1..=count).map(|number| Arc::new(doc! { "_id": number })).collect()
}

fn namespace() -> Namespace {
    Namespace::new("d", "c")
}

fn cursor(found: Found) -> Cursor {
    Cursor::new(namespace(), Owner::default(), Source::Found(found))
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
fn opened(count: i32, owner: Owner) -> (i64, Cursors) {
    let mut cursors = Cursors::default();
    let source = Source::Found(Found::new(numbers(count)));
    let reply =
        Cursor::new(namespace(), owner, source).open(Some(1), &mut cursors, &env_at(0)).unwrap();
    (id(&reply), cursors)
}

fn session(byte: u8) -> SessionId {
    SessionId { id: vec![byte; 16], user: vec![] }
}

fn more(cursors: &mut Cursors, id: i64, owner: &Owner) -> Result<Document, Fault> {
    cursors.more(id, &namespace(), owner, None, DateTime::from_millis(0))
}

#[test]
fn batches_come_one_after_the_other_until_the_end() {
    let mut cursors = Cursors::default();
    let first = cursor(Found::new(numbers(5))).open(Some(2), &mut cursors, &env_at(0)).unwrap();
    assert_eq!(ids(&first, "firstBatch"), [1, 2]);
    let id = id(&first);
    assert!(id > 0);
    let owner = Owner::default();
    let now = DateTime::from_millis(0);
    let second = cursors.more(id, &namespace(), &owner, Some(2), now).unwrap();
    assert_eq!((ids(&second, "nextBatch"), super::tests::id(&second)), (vec![3, 4], id));
    let third = cursors.more(id, &namespace(), &owner, None, now).unwrap();
    assert_eq!((ids(&third, "nextBatch"), super::tests::id(&third)), (vec![5], 0));
    assert_eq!(more(&mut cursors, id, &owner).unwrap_err().code, Code::CURSOR_NOT_FOUND);
}

#[test]
fn a_cursor_that_does_not_know_its_end_is_asked_once_more() {
    let mut cursors = Cursors::default();
    let reply = cursor(Found::new(numbers(2))).open(Some(2), &mut cursors, &env_at(0)).unwrap();
    assert_ne!(id(&reply), 0);
    let rest = more(&mut cursors, id(&reply), &Owner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch"), id(&rest)), (vec![], 0));

    let reply = cursor(Found::all(numbers(2))).open(Some(2), &mut cursors, &env_at(0)).unwrap();
    assert_eq!(id(&reply), 0);
}

#[test]
fn an_empty_first_batch_leaves_all_for_later() {
    let mut cursors = Cursors::default();
    let reply = cursor(Found::all(numbers(1))).open(Some(0), &mut cursors, &env_at(0)).unwrap();
    assert_ne!(id(&reply), 0);
    let rest = more(&mut cursors, id(&reply), &Owner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch"), id(&rest)), (vec![1], 0));
}

#[test]
fn a_batch_has_no_more_than_sixteen_megabytes() {
    let large = || Arc::new(doc! { "_id": 1, "text": "x".repeat(6 * 1024 * 1024) });
    let mut cursors = Cursors::default();
    let found = Found::new(vec![large(), large(), large()]);
    let reply = cursor(found).open(None, &mut cursors, &env_at(0)).unwrap();
    assert_eq!(ids(&reply, "firstBatch").len(), 2);
    let rest = more(&mut cursors, id(&reply), &Owner::default()).unwrap();
    assert_eq!((ids(&rest, "nextBatch").len(), id(&rest)), (1, 0));
}

#[test]
fn a_cursor_belongs_to_its_session_and_its_transaction() {
    let one = Owner { session: Some(session(1)), transaction: None };
    let other = Owner { session: Some(session(2)), transaction: None };
    let in_transaction = Owner { transaction: Some(5), ..one.clone() };
    let code = |opener: &Owner, asker: &Owner| {
        let (id, mut cursors) = opened(3, opener.clone());
        more(&mut cursors, id, asker).map_err(|fault| fault.code.number).err()
    };
    assert_eq!(code(&one, &one), None);
    assert_eq!(code(&Owner::default(), &one), Some(50736));
    assert_eq!(code(&one, &Owner::default()), Some(50737));
    assert_eq!(code(&one, &other), Some(50738));
    assert_eq!(code(&one, &in_transaction), Some(50739));
    assert_eq!(code(&in_transaction, &one), Some(50740));
    let later = Owner { transaction: Some(6), ..one };
    assert_eq!(code(&in_transaction, &later), Some(50741));
}

#[test]
fn another_namespace_gets_nothing_and_the_cursor_stays() {
    let (id, mut cursors) = opened(3, Owner::default());
    let other = Namespace::new("d", "x");
    let now = DateTime::from_millis(0);
    let fault = cursors.more(id, &other, &Owner::default(), None, now).unwrap_err();
    assert_eq!(fault.code, Code::UNAUTHORIZED);
    assert!(more(&mut cursors, id, &Owner::default()).is_ok());
}

#[test]
fn a_cursor_goes_with_its_session_or_its_transaction() {
    let owner = Owner { session: Some(session(1)), transaction: Some(5) };
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
fn a_cursor_is_closed_after_ten_idle_minutes_unless_it_was_to_stay() {
    let minutes = |count: i64| DateTime::from_millis(count * 60_000);
    let (id, mut cursors) = opened(5, Owner::default());
    cursors.expire(minutes(9));
    let owner = Owner::default();
    cursors.more(id, &namespace(), &owner, Some(1), minutes(9)).unwrap();
    cursors.expire(minutes(18));
    assert_eq!(cursors.len(), 1);
    let gone = cursors.more(id, &namespace(), &owner, Some(1), minutes(19)).unwrap_err();
    assert_eq!(gone.code, Code::CURSOR_NOT_FOUND);

    let mut staying = cursor(Found::new(numbers(3)));
    staying.stays = true;
    staying.open(Some(1), &mut cursors, &env_at(0)).unwrap();
    cursors.expire(minutes(1000));
    assert_eq!(cursors.len(), 1);
}

#[test]
fn killed_are_those_that_were_open() {
    let (id, mut cursors) = opened(3, Owner::default());
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
struct Stream(Vec<Document>);

impl Live for Stream {
    fn see(&mut self, _: &Histories) {}

    fn take(&mut self, most: usize) -> Result<Batch, Fault> {
        let count = most.min(self.0.len());
        let token = Some(doc! { "_data": "82" });
        Ok(Batch {
            documents: self.0.drain(..count).collect(),
            finished: false,
            invalidated: false,
            resume_token: token,
        })
    }
}

#[test]
fn a_live_cursor_outlives_an_empty_batch_and_says_where_it_is() {
    let mut cursors = Cursors::default();
    let source = Source::Live(Box::new(Stream(vec![doc! { "_id": 1 }])));
    let cursor = Cursor::new(namespace(), Owner::default(), source);
    let reply = cursor.open(Some(0), &mut cursors, &env_at(0)).unwrap();
    let id = id(&reply);
    assert!(cursors.awaits_data(id));
    for expected in [vec![1], vec![]] {
        let reply = more(&mut cursors, id, &Owner::default()).unwrap();
        assert_eq!((ids(&reply, "nextBatch"), super::tests::id(&reply)), (expected, id));
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get("postBatchResumeToken"), Some(&doc! { "_data": "82" }.into()));
    }
}
