//! What a local write fails with.

use std::fmt;

use super::Failed;
use crate::error::Error;

/// Why a document was not written to any datacenter, and where a copy of it may be even so.
///
/// ```
/// use steadfast::patterns::local_writes::LocalWriteError;
///
/// fn explain(error: &LocalWriteError) -> &'static str {
///     match error {
///         LocalWriteError::AllDown { .. } => "keep the document, and write it again later",
///         LocalWriteError::Refused { .. } => "no datacenter would take the document as it is",
///         LocalWriteError::Invalid(_) => "nothing was sent: the document cannot be written at all",
///         _ => "see its text",
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LocalWriteError {
    /// No datacenter acknowledged the document in time.
    #[non_exhaustive]
    AllDown {
        /// What became of it in each, in the order in which they were tried.
        attempts: Vec<Failed>,
    },
    /// A datacenter refused the document itself, as any other would; or every datacenter rejected it, with
    /// codes that tell nothing of a datacenter. It marks nothing down.
    #[non_exhaustive]
    Refused {
        /// What became of it in each that was tried. The last is the one that refused it, with its reason;
        /// nothing was applied there, unless a router cannot tell what its shards did.
        attempts: Vec<Failed>,
    },
    /// The document cannot be sent: it is no document, or it has an `_id`.
    Invalid(Error),
}

impl LocalWriteError {
    /// What became of the document in each datacenter that was tried, in order; none if the document is
    /// [invalid](Self::Invalid).
    pub fn attempts(&self) -> &[Failed] {
        match self {
            Self::AllDown { attempts } | Self::Refused { attempts } => attempts,
            Self::Invalid(_) => &[],
        }
    }

    /// Those of the [attempts](Self::attempts) of which it is not certain that they left nothing: a copy of
    /// the document may be there.
    pub fn may_be_in(&self) -> impl Iterator<Item = &Failed> {
        self.attempts().iter().filter(|failed| failed.may_have_left_a_copy())
    }
}

impl fmt::Display for LocalWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllDown { attempts } => {
                f.write_str(
                    "all datacenters are down, the document was not acknowledged by any of them",
                )?;
                list(f, attempts)?;
                f.write_str(advice(self))
            }
            Self::Refused { attempts } => match attempts.split_last() {
                Some((Failed { datacenter, error, .. }, earlier)) => {
                    write!(f, "the document was refused by datacenter {datacenter}: {error}")?;
                    list(f, earlier)
                }
                None => f.write_str("the document was refused"),
            },
            Self::Invalid(error) => write!(f, "the document cannot be written: {error}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, attempts: &[Failed]) -> fmt::Result {
    attempts.iter().try_for_each(|attempt| write!(f, "; {attempt}"))
}

/// What the application can do about it.
fn advice(error: &LocalWriteError) -> &'static str {
    if error.may_be_in().next().is_some() {
        ". Keep the document and write it again when one is back: a copy may be there already, which \
         readers that resolve duplicates show once"
    } else {
        ". Keep the document and write it again when one is back: there is no copy of it anywhere"
    }
}

impl std::error::Error for LocalWriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::AllDown { attempts } | Self::Refused { attempts } => {
                attempts.last().map(|last| &last.error as _)
            }
            Self::Invalid(error) => Some(error),
        }
    }
}
