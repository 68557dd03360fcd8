//! Errors of authentication. They contain no secrets.

use steadfast_core::credential::{AuthMechanism, InvalidCredential};

use super::scram::{MAX_ITERATIONS, MIN_ITERATIONS};

/// Authentication error: the mechanism and the cause.
///
/// An error reply of the server is a command error, not an `AuthError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mechanism}: {cause}")]
pub(crate) struct AuthError {
    mechanism: &'static str,
    cause: Cause,
}

/// Cause of an authentication error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cause {
    /// The credential lacks a part, or has one that the mechanism does not allow.
    #[error("{0}")]
    Credential(#[from] InvalidCredential),
    /// The mechanism can be named in a connection string, but this driver does not support it.
    #[error(
        "the mechanism is not supported by this driver; SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509 \
         and PLAIN are"
    )]
    Unsupported,
    /// SASLprep (RFC 4013) does not allow the password.
    #[error("the password contains characters that SASLprep forbids")]
    ForbiddenPassword,
    /// The user name or the password of a PLAIN message contains its separator, NUL.
    #[error("the user name or the password contains a NUL character")]
    NulCharacter,
    /// The system's random number generator failed.
    #[error("no random nonce could be made: {0}")]
    NoRandomness(String),
    /// The server's reply has a wrong form.
    #[error("the server's reply is malformed: {0}")]
    Malformed(&'static str),
    /// The server reported an error: SCRAM's `e=`, or `ok: 0` in a reply.
    #[error("the server reported: {0}")]
    ServerError(String),
    /// The server's nonce does not begin with the client's nonce.
    #[error("the server's nonce does not begin with the client's")]
    NonceMismatch,
    /// The number of iterations is too small to protect the password from guessing.
    #[error("the server asks for {0} iterations, fewer than the {MIN_ITERATIONS} that are safe")]
    TooFewIterations(u32),
    /// The number of iterations would let a malicious server exhaust the CPU.
    #[error("the server asks for {0} iterations, more than the {MAX_ITERATIONS} allowed")]
    TooManyIterations(u32),
    /// The server does not know the password, so its identity is not proven.
    #[error("the server's signature is wrong: it does not know the password")]
    WrongSignature,
    /// The server ended the conversation before its signature was verified.
    #[error("the server ended the conversation before sending its signature")]
    EndedEarly,
    /// The server proved that it knows the password, but did not set `done`.
    #[error("the server did not end the conversation")]
    NotDone,
    /// The task that derives the keys was cancelled: the runtime is shutting down.
    #[error("the keys could not be derived: the runtime is shutting down")]
    Interrupted,
}

impl AuthError {
    pub(super) fn new(mechanism: AuthMechanism, cause: impl Into<Cause>) -> Self {
        Self { mechanism: mechanism.as_str(), cause: cause.into() }
    }

    /// Returns an error for a credential whose mechanism is not negotiated yet.
    pub(super) fn of_credential(mechanism: Option<AuthMechanism>, cause: impl Into<Cause>) -> Self {
        let mechanism = mechanism.as_ref().map_or("SCRAM", AuthMechanism::as_str);
        Self { mechanism, cause: cause.into() }
    }

    /// Returns the cause.
    #[cfg(test)]
    pub(crate) fn cause(&self) -> &Cause {
        &self.cause
    }
}
