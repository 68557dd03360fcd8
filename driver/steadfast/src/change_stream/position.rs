//! How far a change stream has come, and where it would go on. Pure: nothing here talks to a server.
//!
//! The rules are those of the specification: "Updating the Cached Resume Token", "Resume Process",
//! "startAtOperationTime".

use bson::{RawDocument, Timestamp};

use super::event::ResumeToken;
use crate::operation::change_stream::Beginning;
use crate::options::ChangeStreamOptions;

/// How far a change stream has come.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// What the stream would be taken up after.
    token: Option<ResumeToken>,
    /// The time it began at, if that was asked for, or what else is known of its beginning.
    time: Option<Timestamp>,
    /// It was begun with `startAfter` and has given no event: it may be going on from the event
    /// that ended another stream, after which no stream is resumed.
    starts_after: bool,
    /// Nobody said where to begin.
    begins_now: bool,
}

/// What came with a batch of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// Whether it has no events, or none any more.
    pub(super) is_empty: bool,
    /// `postBatchResumeToken`.
    pub(super) token_after: Option<&'a RawDocument>,
}

impl Position {
    /// The position of a stream with these options that has not been begun.
    pub(super) fn new(options: &ChangeStreamOptions) -> Self {
        let ChangeStreamOptions { start_after, resume_after, start_at_operation_time, .. } =
            options;
        Self {
            token: start_after.as_ref().or(resume_after.as_ref()).cloned(),
            time: *start_at_operation_time,
            starts_after: start_after.is_some(),
            begins_now: start_after.is_none()
                && resume_after.is_none()
                && start_at_operation_time.is_none(),
        }
    }

    /// The reply to the first `aggregate` came.
    pub(super) fn began(&mut self, batch: Batch<'_>, operation_time: Option<Timestamp>) {
        if self.begins_now && batch.is_empty && batch.token_after.is_none() {
            self.time = operation_time;
        }
        self.batch_came(batch);
    }

    /// Any other reply came.
    pub(super) fn batch_came(&mut self, batch: Batch<'_>) {
        if let Batch { is_empty: true, token_after: Some(token) } = batch {
            self.token = Some(token.into());
        }
    }

    /// An event is given out; `rest` is what is left of its batch.
    pub(super) fn event_given(&mut self, id: ResumeToken, rest: Batch<'_>) {
        self.starts_after = false;
        self.token = Some(match rest {
            Batch { is_empty: true, token_after: Some(token) } => token.into(),
            _ => id,
        });
    }

    /// What the stream would be taken up after.
    pub(super) fn token(&self) -> Option<&ResumeToken> {
        self.token.as_ref()
    }

    /// Where the stream is to be taken up again.
    pub(super) fn resumption(&self) -> Beginning {
        match (&self.token, self.time) {
            (Some(token), _) if self.starts_after => Beginning::StartAfter(token.clone()),
            (Some(token), _) => Beginning::ResumeAfter(token.clone()),
            (None, Some(time)) => Beginning::AtOperationTime(time),
            (None, None) => Beginning::AsAsked,
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

    fn empty(token_after: Option<&RawDocument>) -> Batch<'_> {
        Batch { is_empty: true, token_after }
    }

    fn full(token_after: Option<&RawDocument>) -> Batch<'_> {
        Batch { is_empty: false, token_after }
    }

    fn plain() -> Position {
        Position::new(&ChangeStreamOptions::default())
    }

    #[test]
    fn what_a_stream_was_begun_after_is_its_first_token() {
        assert_eq!(plain().token(), None);
        let resumed = ChangeStreamOptions::builder().resume_after(token("r")).build();
        assert_eq!(Position::new(&resumed).token(), Some(&token("r")));
        let both =
            ChangeStreamOptions::builder().resume_after(token("r")).start_after(token("s")).build();
        assert_eq!(Position::new(&both).token(), Some(&token("s")));
    }

    #[test]
    fn an_empty_batch_brings_the_token_of_how_far_the_server_read() {
        let mut position = plain();
        position.began(empty(Some(&raw("a"))), Some(TIME));
        assert_eq!(position.token(), Some(&token("a")));
        position.batch_came(empty(Some(&raw("b"))));
        assert_eq!(position.token(), Some(&token("b")));
        position.batch_came(empty(None));
        assert_eq!(position.token(), Some(&token("b")));
        assert_eq!(position.resumption(), Beginning::ResumeAfter(token("b")));
    }

    #[test]
    fn a_batch_with_events_moves_on_only_as_they_are_given_out() {
        let mut position = plain();
        let after = raw("after");
        position.began(full(Some(&after)), Some(TIME));
        assert_eq!(position.token(), None);
        position.event_given(token("1"), full(Some(&after)));
        assert_eq!(position.token(), Some(&token("1")));
        // The last one of the batch stands for all that the server has read.
        position.event_given(token("2"), empty(Some(&after)));
        assert_eq!(position.token(), Some(&token("after")));
        position.event_given(token("3"), empty(None));
        assert_eq!(position.token(), Some(&token("3")));
    }

    #[test]
    fn the_time_of_the_beginning_counts_only_where_nothing_else_is_known() {
        let resumed_after = |batch: Batch<'_>| {
            let mut position = plain();
            position.began(batch, Some(TIME));
            position.resumption()
        };
        assert_eq!(resumed_after(empty(None)), Beginning::AtOperationTime(TIME));
        assert_eq!(resumed_after(full(None)), Beginning::AsAsked);
        assert_eq!(resumed_after(empty(Some(&raw("a")))), Beginning::ResumeAfter(token("a")));
        assert_eq!(resumed_after(full(Some(&raw("a")))), Beginning::AsAsked);

        let mut timeless = plain();
        timeless.began(empty(None), None);
        assert_eq!(timeless.resumption(), Beginning::AsAsked);
    }

    #[test]
    fn a_time_that_was_asked_for_stays_until_there_is_a_token() {
        let options = ChangeStreamOptions::builder().start_at_operation_time(TIME).build();
        let mut position = Position::new(&options);
        position.began(empty(None), Some(LATER));
        assert_eq!(position.resumption(), Beginning::AtOperationTime(TIME));
        // Resumed, and again nothing came.
        position.batch_came(empty(None));
        assert_eq!(position.resumption(), Beginning::AtOperationTime(TIME));
        position.event_given(token("1"), full(None));
        assert_eq!(position.resumption(), Beginning::ResumeAfter(token("1")));
    }

    #[test]
    fn a_token_that_was_asked_for_is_not_replaced_by_a_time() {
        for options in [
            ChangeStreamOptions::builder().resume_after(token("r")).build(),
            ChangeStreamOptions::builder().start_after(token("r")).build(),
        ] {
            let mut position = Position::new(&options);
            position.began(empty(None), Some(TIME));
            assert_eq!(position.token(), Some(&token("r")));
            assert!(!matches!(position.resumption(), Beginning::AtOperationTime(_)));
        }
    }

    #[test]
    fn what_began_with_start_after_goes_on_so_until_it_has_given_an_event() {
        let options = ChangeStreamOptions::builder().start_after(token("s")).build();
        let mut position = Position::new(&options);
        position.began(empty(None), Some(TIME));
        assert_eq!(position.resumption(), Beginning::StartAfter(token("s")));
        // A newer token without an event changes nothing in that.
        position.batch_came(empty(Some(&raw("t"))));
        assert_eq!(position.resumption(), Beginning::StartAfter(token("t")));
        position.event_given(token("1"), full(None));
        assert_eq!(position.resumption(), Beginning::ResumeAfter(token("1")));
        position.batch_came(empty(Some(&raw("u"))));
        assert_eq!(position.resumption(), Beginning::ResumeAfter(token("u")));
    }
}
