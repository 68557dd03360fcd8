//! Errors of local writes.

use std::fmt;

use super::FailedAttempt;
use steadfast::error::Error;

/// Error of a document that no datacenter acknowledged. [`may_be_in`](Self::may_be_in) lists the datacenters
/// that may have a copy.
///
/// ```
/// use steadfast_patterns::local_writes::LocalWriteError;
///
/// fn explain(error: &LocalWriteError) -> &'static str {
///     match error {
///         LocalWriteError::AllDown { .. } => "write the document again later",
///         LocalWriteError::Rejected { .. } => "every datacenter would reject the document",
///         LocalWriteError::Invalid(_) => "nothing was sent: the document is invalid",
///         _ => "see the message",
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LocalWriteError {
    /// No datacenter acknowledged the document in time.
    #[non_exhaustive]
    AllDown {
        /// Failed attempts, in order.
        attempts: Vec<FailedAttempt>,
    },
    /// A datacenter rejected the document because of its content; or every datacenter rejected it with a code
    /// whose cause is unknown. None is marked down.
    #[non_exhaustive]
    Rejected {
        /// Failed attempts, in order. The last is the rejection; its outcome is in doubt only if a shard behind
        /// a mongos may have executed an earlier attempt.
        attempts: Vec<FailedAttempt>,
    },
    /// The document cannot be sent: it is not a document, or it has an `_id`.
    Invalid(Error),
}

impl LocalWriteError {
    /// Returns the failed attempts, in order; none if the document is [invalid](Self::Invalid).
    pub fn attempts(&self) -> &[FailedAttempt] {
        match self {
            Self::AllDown { attempts } | Self::Rejected { attempts } => attempts,
            Self::Invalid(_) => &[],
        }
    }

    /// Returns the [attempts](Self::attempts) that may have left a copy of the document.
    pub fn may_be_in(&self) -> impl Iterator<Item = &FailedAttempt> {
        self.attempts().iter().filter(|failed| failed.may_have_left_a_copy())
    }
}

impl fmt::Display for LocalWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllDown { attempts } => {
                f.write_str("all datacenters are down: none acknowledged the document")?;
                list(f, attempts)?;
                f.write_str(advice(self))
            }
            Self::Rejected { attempts } => match attempts.split_last() {
                Some((FailedAttempt { datacenter, error, .. }, earlier)) => {
                    write!(f, "datacenter {datacenter} rejected the document: {error}")?;
                    list(f, earlier)
                }
                None => f.write_str("the document was rejected"),
            },
            Self::Invalid(error) => write!(f, "the document cannot be written: {error}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, attempts: &[FailedAttempt]) -> fmt::Result {
    attempts.iter().try_for_each(|attempt| write!(f, "; {attempt}"))
}

/// Returns the advice of the message.
fn advice(error: &LocalWriteError) -> &'static str {
    if error.may_be_in().next().is_some() {
        ". Write the document again when a datacenter is up: a copy may exist, and reads that resolve \
         duplicates return one"
    } else {
        ". Write the document again when a datacenter is up: no copy exists"
    }
}

impl std::error::Error for LocalWriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::AllDown { attempts } | Self::Rejected { attempts } => {
                attempts.last().map(|last| &last.error as _)
            }
            Self::Invalid(error) => Some(error),
        }
    }
}
