//! Details of the error of a batch.

use bson::RawDocumentBuf;
use steadfast_core::address::ServerAddress;

use crate::error::{Error, ErrorKind, History};

/// Details of the error of a batch, next to its kind.
pub(crate) struct Evidence {
    pub(crate) labels: Vec<String>,
    /// The last reply that told of an error, and whose it was.
    pub(crate) told: Option<(RawDocumentBuf, ServerAddress)>,
    /// The attempts at the batches that were answered with errors.
    pub(crate) history: Option<History>,
    /// The error that kept a batch from being answered.
    pub(crate) broken: Option<Error>,
}

impl Evidence {
    /// The error of this kind.
    pub(crate) fn of(self, kind: ErrorKind) -> Error {
        let mut error = Error::new(kind);
        for label in self.labels {
            error.add_label(label);
        }
        if let Some(mut history) = self.history {
            if let Some(later) = self.broken.as_ref().and_then(Error::attempt_log) {
                history.attempts.append(later);
            }
            error = error.with_history(history);
        }
        if let Some(broken) = self.broken {
            if let Some(server) = broken.server_address() {
                error = error.with_server(server);
            }
            error = error.with_source(broken);
        }
        if let Some((reply, server)) = self.told {
            error = error.with_server(&server).with_response(reply);
        }
        error
    }
}
