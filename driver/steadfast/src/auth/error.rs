//! Errors of authentication. They contain no secrets.

use steadfast_core::credential::{AuthMechanism, InvalidCredential};

use super::scram::{MAX_ITERATIONS, MIN_ITERATIONS};

/// A failed authentication: which mechanism, and why.
///
/// What a server says in an error reply is not here: that is the command's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mechanism}: {cause}")]
pub(crate) struct AuthError {
    mechanism: &'static str,
    cause: Cause,
}

/// Cause of an authentication error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cause {
    /// The credential lacks something, or holds something that the mechanism does not take.
    #[error("{0}")]
    Credential(#[from] InvalidCredential),
    /// A mechanism that a connection string may name, but that this driver does not speak.
    #[error(
        "the mechanism is not supported by this driver; SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509 \
         and PLAIN are"
    )]
    Unsupported,
    /// SASLprep (RFC 4013) does not allow the password.
    #[error("the password contains characters that SASLprep forbids")]
    ForbiddenPassword,
    /// The parts of a PLAIN message are separated by NUL, so none can contain it.
    #[error("the user name or the password contains a NUL character")]
    NulCharacter,
    /// The system has no randomness to give.
    #[error("no random nonce could be made: {0}")]
    NoRandomness(String),
    /// The server's reply has no sense in this place of the conversation.
    #[error("the server's reply is malformed: {0}")]
    Malformed(&'static str),
    /// The server named an error (SCRAM's `e=`), or said so in a reply.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server's nonce does not continue ours: the reply belongs to another conversation.
    #[error("the server's nonce does not begin with the client's")]
    ForeignNonce,
    /// So few rounds would make the password easy to guess from the conversation.
    #[error("the server asks for {0} iterations, fewer than the {MIN_ITERATIONS} that are safe")]
    TooFewIterations(u32),
    /// So many rounds would keep this machine busy on a stranger's behalf.
    #[error("the server asks for {0} iterations, more than the {MAX_ITERATIONS} allowed")]
    TooManyIterations(u32),
    /// The server does not know the password, so it is not the server it claims to be.
    #[error("the server's signature is wrong: it does not know the password")]
    WrongSignature,
    /// The server called the conversation finished before proving that it knows the password.
    #[error("the server ended the conversation before proving who it is")]
    EndedEarly,
    /// The server proved who it is, yet does not end the conversation.
    #[error("the server did not end the conversation")]
    NeverEnds,
    /// The task that derives the keys was cancelled: the runtime is shutting down.
    #[error("the keys could not be derived: the runtime is shutting down")]
    Interrupted,
}

impl AuthError {
    pub(super) fn new(mechanism: AuthMechanism, cause: impl Into<Cause>) -> Self {
        Self { mechanism: mechanism.as_str(), cause: cause.into() }
    }

    /// Of a credential whose mechanism is yet to be negotiated.
    pub(super) fn of_credential(mechanism: Option<AuthMechanism>, cause: impl Into<Cause>) -> Self {
        let mechanism = mechanism.map_or("SCRAM", AuthMechanism::as_str);
        Self { mechanism, cause: cause.into() }
    }

    /// Returns the cause.
    #[cfg(test)]
    pub(crate) fn cause(&self) -> &Cause {
        &self.cause
    }
}
