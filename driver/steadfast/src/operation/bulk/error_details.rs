//! Details of the error of a bulk write.

use bson::RawDocumentBuf;
use steadfast_core::address::ServerAddress;

use crate::error::{Error, ErrorKind, History};

/// Details of the error of a bulk write, in addition to its kind.
pub(crate) struct BulkErrorDetails {
    pub(crate) labels: Vec<String>,
    /// Last reply with an error, and its server.
    pub(crate) error_reply: Option<(RawDocumentBuf, ServerAddress)>,
    /// Failed attempts of batches with error replies.
    pub(crate) history: Option<History>,
    /// Error of a batch without a reply.
    pub(crate) batch_error: Option<Error>,
}

impl BulkErrorDetails {
    /// Creates the error of this kind.
    pub(crate) fn of(self, kind: ErrorKind) -> Error {
        let mut error = Error::new(kind);
        for label in self.labels {
            error.add_label(label);
        }
        if let Some(mut history) = self.history {
            if let Some(later) = self.batch_error.as_ref().and_then(Error::attempt_log) {
                history.attempts.append(later);
            }
            error = error.with_history(history);
        }
        if let Some(batch_error) = self.batch_error {
            if let Some(server) = batch_error.server_address() {
                error = error.with_server(server);
            }
            error = error.with_source(batch_error);
        }
        if let Some((reply, server)) = self.error_reply {
            error = error.with_server(&server).with_response(reply);
        }
        error
    }
}
