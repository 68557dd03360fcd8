//! Errors of libraries and applications that make one operation of several calls.

use super::{Error, ErrorKind, History, Outcome};

impl Error {
    /// Returns an error for an argument that is rejected before anything is sent.
    ///
    /// For libraries that check arguments themselves and report errors as the driver does.
    ///
    /// ```
    /// use steadfast::error::{Error, Outcome};
    ///
    /// let error = Error::invalid_argument("the batch is empty");
    /// assert!(error.is_invalid_argument());
    /// assert_eq!(error.outcome(), Outcome::NotSent);
    /// ```
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument { message: message.into() })
    }

    /// Returns an error for a reply or document without the required contents.
    pub fn invalid_response(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidResponse { message: message.into() })
    }

    /// Returns an error for a server version without a required feature.
    pub fn incompatible_server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::IncompatibleServer { message: message.into() })
    }

    /// Takes over the server address, the labels, the [attempts](Self::attempts) and the
    /// [outcome](Self::outcome) of `other`.
    ///
    /// For an error that is raised in place of `other`: without its labels, a transaction would not be
    /// retried, and without its outcome, a caller could take a write for not applied. The outcome of an
    /// error of a batch also depends on the writes that its kind lists.
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// /// Adds a number of the application's own, for callers to match on.
    /// fn numbered(number: u32, error: Error) -> Error {
    ///     Error::custom(number).with_context_of(&error).with_source(error)
    /// }
    /// # let error = numbered(7, Error::invalid_response("no field"));
    /// # assert_eq!(error.get_custom(), Some(&7_u32));
    /// ```
    pub fn with_context_of(mut self, other: &Self) -> Self {
        let history = History::of(other);
        let details = self.details_mut();
        if details.server.is_none() {
            details.server = other.server_address().cloned();
        }
        details.labels.extend(other.labels().iter().cloned());
        details.history = Some(history);
        self
    }

    /// Sets the [`source`](std::error::Error::source), which [`contains_label`](Self::contains_label)
    /// asks as well.
    ///
    /// The source of an [`InsertMany`](ErrorKind::InsertMany) or [`BulkWrite`](ErrorKind::BulkWrite)
    /// error is the error that ended the batch: code, outcome and attempts follow from it.
    pub fn with_source(mut self, source: Self) -> Self {
        self.details_mut().source = Some(source);
        self
    }

    /// Sets the [outcome](Self::outcome).
    ///
    /// For a caller with more information than the error: it has read the document back, or the
    /// failed call was one of several.
    ///
    /// ```
    /// use steadfast::error::{Error, Outcome};
    ///
    /// let error = Error::custom("order 17 is incomplete").with_outcome(Outcome::MaybeApplied);
    /// assert!(!error.outcome().is_certainly_not_applied());
    /// ```
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.details_mut().outcome_of_call = Some(outcome);
        self
    }

    /// Adds `earlier`, the error of an earlier call that this error's call repeated.
    ///
    /// The [attempts](Self::attempts) of `earlier` come first, and the [outcome](Self::outcome) is the
    /// least certain of both: if the repeated call found no server, the earlier one may still have been
    /// applied.
    ///
    /// ```
    /// # use steadfast::{Collection, bson::Document, error::Result};
    /// /// Inserts a document with an `_id`; repeats it once. A duplicate key is left to the caller.
    /// async fn insert_twice(orders: &Collection<Document>, order: Document) -> Result<()> {
    ///     let Err(first) = orders.insert_one(&order).await else { return Ok(()) };
    ///     match orders.insert_one(&order).await {
    ///         Ok(_) => Ok(()),
    ///         Err(second) => Err(second.with_earlier(&first)),
    ///     }
    /// }
    /// ```
    pub fn with_earlier(mut self, earlier: &Self) -> Self {
        let mut history = History::of(earlier);
        history.append(&History::of(&self));
        let outcome = history.outcome;
        self.details_mut().history = Some(history);
        self.with_outcome(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::error::{
        CommandError, InsertManyError, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR,
        TRANSIENT_TRANSACTION_ERROR, TimeSpent, Timeout,
    };

    fn lost_reply() -> Error {
        Error::from(io::Error::from(io::ErrorKind::ConnectionReset))
            .with_outcome(Outcome::MaybeApplied)
    }

    fn no_server() -> Error {
        Error::new(ErrorKind::ServerSelection { message: "none".to_owned() })
    }

    #[test]
    fn outcome_of_repeated_calls_is_the_least_certain() {
        assert_eq!(no_server().with_earlier(&lost_reply()).outcome(), Outcome::MaybeApplied);
        assert_eq!(lost_reply().with_earlier(&no_server()).outcome(), Outcome::MaybeApplied);
        assert_eq!(no_server().with_earlier(&no_server()).outcome(), Outcome::NotSent);
        let third = no_server().with_earlier(&no_server().with_earlier(&lost_reply()));
        assert_eq!(third.outcome(), Outcome::MaybeApplied);
        assert!(third.is_server_selection_error());
    }

    #[test]
    fn replacement_error_keeps_labels_and_outcome() {
        let mut lost = lost_reply().with_server(&"db1:27017".parse().unwrap());
        lost.add_label(TRANSIENT_TRANSACTION_ERROR);
        let error = Error::custom(7_u32).with_context_of(&lost).with_source(lost);
        assert_eq!(error.get_custom(), Some(&7_u32));
        assert_eq!(error.outcome(), Outcome::MaybeApplied);
        assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR));
        assert_eq!(error.server_address().unwrap().to_string(), "db1:27017");
        assert!(std::error::Error::source(&error).is_some());
    }

    fn server_error(code: i32, label: Option<&str>) -> Error {
        let reply = bson::rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
        let mut error = CommandError::from_reply(&reply).unwrap();
        label.into_iter().for_each(|label| error.add_label(label));
        error
    }

    #[test]
    fn retryable_errors_are_transient_and_not_all_transient_errors_are_retryable() {
        let timeout = Timeout { timeout: Duration::from_millis(5), spent: TimeSpent::default() };
        let timeout = Error::wrapping(ErrorKind::Timeout(timeout), server_error(2, None));
        for (error, is_retryable, is_transient) in [
            (lost_reply(), true, true),
            (server_error(10107, None), true, true),
            (server_error(112, Some(RETRYABLE_WRITE_ERROR)), true, true),
            (server_error(462, Some(SYSTEM_OVERLOADED_ERROR)), false, true),
            (timeout, false, true),
            (no_server(), false, true),
            (server_error(64, None), false, true),
            (server_error(134, None), false, true),
            (server_error(13, None), false, false),
            (server_error(11000, None), false, false),
            (Error::authentication("no"), false, false),
            (Error::invalid_argument("no"), false, false),
        ] {
            assert_eq!(error.is_retryable(), is_retryable, "{error}");
            assert_eq!(error.is_transient(), is_transient, "{error}");
        }
    }

    #[test]
    fn error_that_ended_a_batch_names_its_server_once() {
        let end = lost_reply().with_server(&"db1:27017".parse().unwrap());
        let batch = ErrorKind::InsertMany(InsertManyError::default());
        let error = Error::new(batch).with_context_of(&end).with_source(end);
        assert_eq!(error.to_string().matches("db1:27017").count(), 1, "{error}");
        assert!(error.is_network_error());
    }
}
