//! State of a cursor, without I/O.

use bson::RawDocument;
use bytes::Bytes;

use super::batch::{CursorBatch, CursorReply};
use crate::{
    Namespace,
    command::{Command, Target},
    error::Result,
    operation::get_more,
    operation::get_more::GetMoreOptions,
};

/// Minimum size in bytes of a batch during which the next one is requested.
const READ_AHEAD_MIN_BYTES: usize = 1024 * 1024;

/// Received documents, expected ones, and the options of the next `getMore`.
#[derive(Debug)]
pub(super) struct CursorProgress {
    /// Cursor id. Zero once the server has closed the cursor.
    id: i64,
    namespace: Namespace,
    batch: CursorBatch,
    /// `postBatchResumeToken` of a change stream.
    post_batch_token: Option<Bytes>,
    /// Number of documents left within the limit.
    remaining: Option<u64>,
    /// Offset in the batch after which the next one is requested, if at all.
    read_ahead_offset: Option<usize>,
    more: GetMoreOptions,
}

impl CursorProgress {
    /// Creates the state from the reply of the command.
    pub(super) fn new(reply: &Bytes, more: GetMoreOptions) -> Result<Self> {
        let CursorReply { id, namespace, batch, post_batch_token } = CursorReply::read(reply)?;
        Ok(Self {
            id,
            namespace,
            batch,
            post_batch_token,
            remaining: more.limit,
            read_ahead_offset: None,
            more,
        })
    }

    /// Advances to the next received document. Returns `false` if there is none.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let found = self.batch.advance()?;
        if found {
            self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        Ok(found)
    }

    /// Counts the rest of the batch as read, if there is a limit.
    pub(super) fn skip_batch(&mut self) -> Result<()> {
        while self.remaining.is_some() && self.advance()? {}
        Ok(())
    }

    /// Returns `true`, once for each batch, if the next batch should be requested before the end of
    /// this one.
    ///
    /// That is after a sixteenth of a large batch other than the first: the application is likely
    /// to read all documents, and the server can work at the same time.
    pub(super) fn should_read_ahead(&mut self) -> bool {
        self.read_ahead_offset.take_if(|after| self.batch.bytes_read() >= *after).is_some()
    }

    /// Returns the current document.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        self.batch.current()
    }

    /// Clears the current document.
    pub(super) fn clear_current(&mut self) {
        self.batch.clear_current();
    }

    /// Returns `true` if each iteration has the full time-out (`timeoutMode: "iteration"`).
    pub(super) fn renews_timeout(&self) -> bool {
        self.more.renewed
    }

    /// Returns `true` if received documents are left.
    pub(super) fn has_documents(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Returns the `postBatchResumeToken` of the batch.
    pub(super) fn post_batch_token(&self) -> Option<&Bytes> {
        self.post_batch_token.as_ref()
    }

    /// Returns `true` if the cursor is open and its limit is not reached.
    pub(super) fn needs_get_more(&self) -> bool {
        self.is_open() && self.remaining != Some(0)
    }

    /// Returns `true` if the cursor is open on the server.
    pub(super) fn is_open(&self) -> bool {
        self.id != 0
    }

    /// Builds a `getMore` for the next batch.
    pub(super) fn get_more(&self, target: Target) -> Result<Command> {
        get_more::get_more(target, &self.namespace, self.id, &self.more, self.remaining)
    }

    /// Processes the reply to [`get_more`](Self::get_more).
    pub(super) fn accept(&mut self, reply: &Bytes) -> Result<()> {
        let CursorReply { id, namespace, batch, post_batch_token } = CursorReply::read(reply)?;
        (self.id, self.namespace, self.batch) = (id, namespace, batch);
        self.post_batch_token = post_batch_token;
        let size = self.batch.size();
        let reads_ahead = self.more.ahead && self.needs_get_more() && size >= READ_AHEAD_MIN_BYTES;
        self.read_ahead_offset = reads_ahead.then_some(size / 16);
        Ok(())
    }

    /// Marks the cursor as closed. Returns the `killCursors` command if it is open on the server.
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

    fn drain(progress: &mut CursorProgress) -> usize {
        std::iter::from_fn(|| progress.advance().unwrap().then_some(())).count()
    }

    fn get_more_of(progress: &CursorProgress) -> Document {
        body(&progress.get_more(Target::Write).unwrap())
    }

    #[test]
    fn exhausted_cursor_sends_no_get_more() {
        // pitfall 20
        let mut progress =
            CursorProgress::new(&reply("firstBatch", 0, 3), GetMoreOptions::default()).unwrap();
        assert_eq!(drain(&mut progress), 3);
        assert!(!progress.needs_get_more() && progress.close().is_none());
    }

    #[test]
    fn batches_follow_until_the_id_is_zero() {
        let mut progress =
            CursorProgress::new(&reply("firstBatch", 9, 2), GetMoreOptions::default()).unwrap();
        assert_eq!(drain(&mut progress), 2);
        assert!(progress.needs_get_more());
        assert_eq!(get_more_of(&progress), doc! { "getMore": 9_i64, "collection": "coll" });
        // An empty batch does not end the cursor.
        progress.accept(&reply("nextBatch", 9, 0)).unwrap();
        assert!(progress.needs_get_more() && !progress.has_documents());
        progress.accept(&reply("nextBatch", 0, 1)).unwrap();
        assert_eq!(drain(&mut progress), 1);
        assert!(!progress.needs_get_more());
    }

    #[test]
    fn skipped_batches_count_towards_the_limit() {
        let more = GetMoreOptions { limit: Some(4), ..GetMoreOptions::default() };
        let mut progress = CursorProgress::new(&reply("firstBatch", 9, 3), more).unwrap();
        progress.skip_batch().unwrap();
        assert!(progress.needs_get_more());
        progress.accept(&reply("nextBatch", 9, 1)).unwrap();
        progress.skip_batch().unwrap();
        assert!(!progress.needs_get_more());
    }

    #[test]
    fn batches_respect_the_limit_and_the_cursor_is_killed() {
        let more =
            GetMoreOptions { batch_size: Some(3), limit: Some(4), ..GetMoreOptions::default() };
        let mut progress = CursorProgress::new(&reply("firstBatch", 9, 3), more).unwrap();
        assert_eq!(drain(&mut progress), 3);
        let expected = doc! { "getMore": 9_i64, "collection": "coll", "batchSize": 1 };
        assert_eq!(get_more_of(&progress), expected);
        // Servers of MongoDB 5.0 or later leave the cursor open here.
        progress.accept(&reply("nextBatch", 9, 1)).unwrap();
        assert_eq!(drain(&mut progress), 1);
        assert!(!progress.needs_get_more());
        let kill = progress.close().expect("the server still has it")(Target::Write);
        assert_eq!(body(&kill), doc! { "killCursors": "coll", "cursors": [9_i64] });
        assert!(progress.close().is_none(), "it is killed once");
    }
}
