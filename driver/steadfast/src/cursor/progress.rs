//! How far a cursor has come. Pure: nothing here talks to a server.

use bson::RawDocument;
use bytes::Bytes;

use super::batch::{Batch, CursorReply};
use crate::{
    Namespace,
    command::{Command, Target},
    error::Result,
    operation::get_more,
    operation::get_more::More,
};

/// How large a batch must be, in bytes, for the next to be asked for before it is read to its end.
const WORTH_READING_AHEAD: usize = 1024 * 1024;

/// What has come, what may still come, and how to ask for it.
#[derive(Debug)]
pub(super) struct Progress {
    /// Zero once the server has nothing more.
    id: i64,
    namespace: Namespace,
    batch: Batch,
    /// Of a change stream: the token of the place that the server has read on to.
    token_after: Option<Bytes>,
    /// How many documents may still be given out.
    remaining: Option<u64>,
    /// After how many bytes of the batch the next is asked for ahead of time, if at all.
    ahead_after: Option<usize>,
    more: More,
}

impl Progress {
    /// Begins with the reply of the command that made the cursor.
    pub(super) fn new(reply: &Bytes, more: More) -> Result<Self> {
        let CursorReply { id, namespace, batch, token_after } = CursorReply::read(reply)?;
        Ok(Self {
            id,
            namespace,
            batch,
            token_after,
            remaining: more.limit,
            ahead_after: None,
            more,
        })
    }

    /// Goes on to the next document of those that have come, and says whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let found = self.batch.advance()?;
        if found {
            self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        Ok(found)
    }

    /// Whether the next batch should be asked for now, though there are documents left; true once for
    /// a batch.
    ///
    /// So it is when a sixteenth of a large batch has been read, which is not the first one: then the
    /// application reads all there is, and the server can work meanwhile.
    pub(super) fn should_read_ahead(&mut self) -> bool {
        self.ahead_after.take_if(|after| self.batch.bytes_read() >= *after).is_some()
    }

    /// The document that it is at.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        self.batch.current()
    }

    /// Is at no document any more.
    pub(super) fn leave_current(&mut self) {
        self.batch.leave_current();
    }

    /// Whether each step has as much time as the call that made the cursor.
    pub(super) fn has_time_for_each_step(&self) -> bool {
        self.more.renewed
    }

    /// Whether documents have come that were not given out.
    pub(super) fn has_documents(&self) -> bool {
        !self.batch.is_empty()
    }

    /// The resume token that came with the batch.
    pub(super) fn token_after(&self) -> Option<&Bytes> {
        self.token_after.as_ref()
    }

    /// Whether the server may have more, and the limit allows for it.
    pub(super) fn wants_more(&self) -> bool {
        self.is_open() && self.remaining != Some(0)
    }

    /// Whether the server keeps the cursor.
    pub(super) fn is_open(&self) -> bool {
        self.id != 0
    }

    /// Asks for the next batch.
    pub(super) fn get_more(&self, target: Target) -> Result<Command> {
        get_more::get_more(target, &self.namespace, self.id, &self.more, self.remaining)
    }

    /// Takes in the reply to [`get_more`](Self::get_more).
    pub(super) fn accept(&mut self, reply: &Bytes) -> Result<()> {
        let CursorReply { id, namespace, batch, token_after } = CursorReply::read(reply)?;
        (self.id, self.namespace, self.batch) = (id, namespace, batch);
        self.token_after = token_after;
        let size = self.batch.size();
        let worth_it = self.more.ahead && self.wants_more() && size >= WORTH_READING_AHEAD;
        self.ahead_after = worth_it.then_some(size / 16);
        Ok(())
    }

    /// Forgets the cursor on the server: what makes the server forget it, too, if it has it.
    pub(super) fn close(&mut self) -> Option<impl FnOnce(Target) -> Command + use<>> {
        let id = std::mem::take(&mut self.id);
        let namespace = self.namespace.clone();
        (id != 0).then_some(move |target| get_more::kill(target, &namespace, id))
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::operation::fixture::body;

    fn reply(batch: &str, id: i64, count: i32) -> Bytes {
        let documents: Vec<_> = (0..count).map(|x| doc! { "x": x }).collect();
        let reply = doc! { "cursor": { batch: documents, "id": id, "ns": "db.coll" }, "ok": 1 };
        Bytes::from(bson::serialize_to_vec(&reply).unwrap())
    }

    fn drain(progress: &mut Progress) -> usize {
        std::iter::from_fn(|| progress.advance().unwrap().then_some(())).count()
    }

    fn asked(progress: &Progress) -> Document {
        body(&progress.get_more(Target::Write).unwrap())
    }

    #[test]
    fn a_cursor_exhausted_by_its_first_batch_asks_for_nothing() {
        // pitfall 20
        let mut progress = Progress::new(&reply("firstBatch", 0, 3), More::default()).unwrap();
        assert_eq!(drain(&mut progress), 3);
        assert!(!progress.wants_more() && progress.close().is_none());
    }

    #[test]
    fn batches_follow_until_the_id_is_zero() {
        let mut progress = Progress::new(&reply("firstBatch", 9, 2), More::default()).unwrap();
        assert_eq!(drain(&mut progress), 2);
        assert!(progress.wants_more());
        assert_eq!(asked(&progress), doc! { "getMore": 9_i64, "collection": "coll" });
        // An empty batch is not the end.
        progress.accept(&reply("nextBatch", 9, 0)).unwrap();
        assert!(progress.wants_more() && !progress.has_documents());
        progress.accept(&reply("nextBatch", 0, 1)).unwrap();
        assert_eq!(drain(&mut progress), 1);
        assert!(!progress.wants_more());
    }

    #[test]
    fn a_batch_never_goes_past_the_limit_and_the_cursor_is_killed_there() {
        let more = More { batch_size: Some(3), limit: Some(4), ..More::default() };
        let mut progress = Progress::new(&reply("firstBatch", 9, 3), more).unwrap();
        assert_eq!(drain(&mut progress), 3);
        let expected = doc! { "getMore": 9_i64, "collection": "coll", "batchSize": 1 };
        assert_eq!(asked(&progress), expected);
        // Servers from 5.0 on leave the cursor open here.
        progress.accept(&reply("nextBatch", 9, 1)).unwrap();
        assert_eq!(drain(&mut progress), 1);
        assert!(!progress.wants_more());
        let kill = progress.close().expect("the server still has it")(Target::Write);
        assert_eq!(body(&kill), doc! { "killCursors": "coll", "cursors": [9_i64] });
        assert!(progress.close().is_none(), "it is killed once");
    }
}
