//! Position of a change stream, without I/O.
//!
//! It follows the change streams specification: "Updating the Cached Resume Token", "Resume
//! Process" and "startAtOperationTime".

use bson::{RawDocument, Timestamp};

use super::event::ResumeToken;
use crate::operation::change_stream::StartPosition;
use crate::options::ChangeStreamOptions;

/// Position of a change stream.
#[derive(Clone, Debug)]
pub(super) struct ChangeStreamPosition {
    /// Cached resume token.
    token: Option<ResumeToken>,
    /// `startAtOperationTime`: that of the options, else the `operationTime` of the first reply.
    time: Option<Timestamp>,
    /// `true` if the stream was opened with `startAfter` and has not returned an event. Its token
    /// may be that of an invalidate event, which `resumeAfter` does not accept.
    starts_after: bool,
    /// `true` if the options contain no position.
    starts_now: bool,
}

/// State of a batch of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchState<'a> {
    /// `true` if no event is left.
    pub(super) is_empty: bool,
    /// `postBatchResumeToken`.
    pub(super) post_batch_token: Option<&'a RawDocument>,
}

impl ChangeStreamPosition {
    /// Returns the position of a stream that is not opened yet.
    pub(super) fn new(options: &ChangeStreamOptions) -> Self {
        let ChangeStreamOptions { start_after, resume_after, start_at_operation_time, .. } =
            options;
        Self {
            token: start_after.as_ref().or(resume_after.as_ref()).cloned(),
            time: *start_at_operation_time,
            starts_after: start_after.is_some(),
            starts_now: start_after.is_none()
                && resume_after.is_none()
                && start_at_operation_time.is_none(),
        }
    }

    /// Processes the reply to the first `aggregate`.
    pub(super) fn opened(&mut self, batch: BatchState<'_>, operation_time: Option<Timestamp>) {
        if self.starts_now && batch.is_empty && batch.post_batch_token.is_none() {
            self.time = operation_time;
        }
        self.batch_received(batch);
    }

    /// Processes any later reply.
    pub(super) fn batch_received(&mut self, batch: BatchState<'_>) {
        if let BatchState { is_empty: true, post_batch_token: Some(token) } = batch {
            self.token = Some(token.into());
        }
    }

    /// Processes the return of an event; `rest` is the remainder of its batch.
    pub(super) fn event_returned(&mut self, id: ResumeToken, rest: BatchState<'_>) {
        self.starts_after = false;
        self.token = Some(match rest {
            BatchState { is_empty: true, post_batch_token: Some(token) } => token.into(),
            _ => id,
        });
    }

    /// Returns the cached resume token.
    pub(super) fn token(&self) -> Option<&ResumeToken> {
        self.token.as_ref()
    }

    /// Returns the position at which the stream resumes.
    pub(super) fn resumption(&self) -> StartPosition {
        match (&self.token, self.time) {
            (Some(token), _) if self.starts_after => StartPosition::StartAfter(token.clone()),
            (Some(token), _) => StartPosition::ResumeAfter(token.clone()),
            (None, Some(time)) => StartPosition::AtOperationTime(time),
            (None, None) => StartPosition::FromOptions,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    const TIME: Timestamp = Timestamp { time: 5, increment: 1 };
    const LATER: Timestamp = Timestamp { time: 6, increment: 1 };

    fn raw(text: &str) -> RawDocumentBuf {
        rawdoc! { "_data": text }
    }

    fn token(text: &str) -> ResumeToken {
        ResumeToken::from(&*raw(text))
    }

    fn empty(post_batch_token: Option<&RawDocument>) -> BatchState<'_> {
        BatchState { is_empty: true, post_batch_token }
    }

    fn full(post_batch_token: Option<&RawDocument>) -> BatchState<'_> {
        BatchState { is_empty: false, post_batch_token }
    }

    fn plain() -> ChangeStreamPosition {
        ChangeStreamPosition::new(&ChangeStreamOptions::default())
    }

    #[test]
    fn start_position_is_the_first_token() {
        assert_eq!(plain().token(), None);
        let resumed = ChangeStreamOptions::builder().resume_after(token("r")).build();
        assert_eq!(ChangeStreamPosition::new(&resumed).token(), Some(&token("r")));
        let both =
            ChangeStreamOptions::builder().resume_after(token("r")).start_after(token("s")).build();
        assert_eq!(ChangeStreamPosition::new(&both).token(), Some(&token("s")));
    }

    #[test]
    fn empty_batch_updates_the_token() {
        let mut position = plain();
        position.opened(empty(Some(&raw("a"))), Some(TIME));
        assert_eq!(position.token(), Some(&token("a")));
        position.batch_received(empty(Some(&raw("b"))));
        assert_eq!(position.token(), Some(&token("b")));
        position.batch_received(empty(None));
        assert_eq!(position.token(), Some(&token("b")));
        assert_eq!(position.resumption(), StartPosition::ResumeAfter(token("b")));
    }

    #[test]
    fn token_advances_with_returned_events() {
        let mut position = plain();
        let after = raw("after");
        position.opened(full(Some(&after)), Some(TIME));
        assert_eq!(position.token(), None);
        position.event_returned(token("1"), full(Some(&after)));
        assert_eq!(position.token(), Some(&token("1")));
        // The last event of a batch: the token of the batch applies.
        position.event_returned(token("2"), empty(Some(&after)));
        assert_eq!(position.token(), Some(&token("after")));
        position.event_returned(token("3"), empty(None));
        assert_eq!(position.token(), Some(&token("3")));
    }

    #[test]
    fn operation_time_applies_without_a_token() {
        let resumed_after = |batch: BatchState<'_>| {
            let mut position = plain();
            position.opened(batch, Some(TIME));
            position.resumption()
        };
        assert_eq!(resumed_after(empty(None)), StartPosition::AtOperationTime(TIME));
        assert_eq!(resumed_after(full(None)), StartPosition::FromOptions);
        assert_eq!(resumed_after(empty(Some(&raw("a")))), StartPosition::ResumeAfter(token("a")));
        assert_eq!(resumed_after(full(Some(&raw("a")))), StartPosition::FromOptions);

        let mut timeless = plain();
        timeless.opened(empty(None), None);
        assert_eq!(timeless.resumption(), StartPosition::FromOptions);
    }

    #[test]
    fn start_at_operation_time_lasts_until_a_token() {
        let options = ChangeStreamOptions::builder().start_at_operation_time(TIME).build();
        let mut position = ChangeStreamPosition::new(&options);
        position.opened(empty(None), Some(LATER));
        assert_eq!(position.resumption(), StartPosition::AtOperationTime(TIME));
        // Resumed, without an event.
        position.batch_received(empty(None));
        assert_eq!(position.resumption(), StartPosition::AtOperationTime(TIME));
        position.event_returned(token("1"), full(None));
        assert_eq!(position.resumption(), StartPosition::ResumeAfter(token("1")));
    }

    #[test]
    fn token_takes_precedence_over_operation_time() {
        for options in [
            ChangeStreamOptions::builder().resume_after(token("r")).build(),
            ChangeStreamOptions::builder().start_after(token("r")).build(),
        ] {
            let mut position = ChangeStreamPosition::new(&options);
            position.opened(empty(None), Some(TIME));
            assert_eq!(position.token(), Some(&token("r")));
            assert!(!matches!(position.resumption(), StartPosition::AtOperationTime(_)));
        }
    }

    #[test]
    fn start_after_is_used_until_the_first_event() {
        let options = ChangeStreamOptions::builder().start_after(token("s")).build();
        let mut position = ChangeStreamPosition::new(&options);
        position.opened(empty(None), Some(TIME));
        assert_eq!(position.resumption(), StartPosition::StartAfter(token("s")));
        // A newer token without an event does not change that.
        position.batch_received(empty(Some(&raw("t"))));
        assert_eq!(position.resumption(), StartPosition::StartAfter(token("t")));
        position.event_returned(token("1"), full(None));
        assert_eq!(position.resumption(), StartPosition::ResumeAfter(token("1")));
        position.batch_received(empty(Some(&raw("u"))));
        assert_eq!(position.resumption(), StartPosition::ResumeAfter(token("u")));
    }
}
