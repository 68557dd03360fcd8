//! Which errors are retryable, by the labels and codes of the specifications.

use super::{
    codes,
    facts::{Cause, Failure, Operation, Phase, RetrySettings, ServerFacts},
};

/// Whether the driver puts [`RETRYABLE_WRITE_ERROR`](super::RETRYABLE_WRITE_ERROR) on an error.
///
/// Only for commands that bear a transaction id: a retryable write with `retryWrites` on, outside
/// of a transaction and acknowledged, or a commit or an abort whatever `retryWrites` says.
///
/// | the failure                                      | labelled |
/// |--------------------------------------------------|----------|
/// | the network, or PoolCleared, before sending       | always |
/// | a reply to the handshake with a retryable code    | always: which version it is was still to be found out |
/// | the network, while sending or waiting             | if the server supports retryable writes |
/// | a reply with a retryable code at its top          | if the server supports retryable writes and is older than 4.4 |
/// | a reply with a retryable write concern error only | the same, and if it is not a router |
/// | a reply with `writeErrors`                        | never |
/// | a reply that cannot be read, an error of our own  | never |
pub fn retryable_write_label(
    settings: RetrySettings,
    operation: &Operation,
    server: &ServerFacts,
    failure: &Failure<'_>,
) -> bool {
    if !operation.is_retryable_write(settings) {
        return false;
    }
    let labelled_by_us = server.supports_retryable_writes() && !server.labels_its_errors();
    match (failure.phase, failure.cause) {
        (_, Cause::WriteErrors { .. } | Cause::UnreadableReply | Cause::Driver) => false,
        (Phase::BeforeSending, Cause::Network { .. } | Cause::PoolCleared) => true,
        (Phase::BeforeSending, Cause::Refused { code, .. }) => codes::is_retryable_write(code),
        (Phase::BeforeSending, Cause::WriteConcern { .. }) => false,
        (Phase::Sending, Cause::Network { .. } | Cause::PoolCleared) => {
            server.supports_retryable_writes()
        }
        (Phase::Sending, Cause::Refused { code, .. }) => {
            labelled_by_us && codes::is_retryable_write(code)
        }
        (Phase::Sending, Cause::WriteConcern { code }) => {
            labelled_by_us && !server.is_router() && codes::is_retryable_write(code)
        }
    }
}

/// Whether a read that failed so may be tried again. Reads go by codes, not by labels.
pub(super) fn is_retryable_read(failure: &Failure<'_>) -> bool {
    match failure.cause {
        Cause::Network { .. } | Cause::PoolCleared => true,
        Cause::Refused { code, .. } => codes::is_retryable_read(code),
        Cause::WriteErrors { .. }
        | Cause::WriteConcern { .. }
        | Cause::UnreadableReply
        | Cause::Driver => false,
    }
}

/// Whether the server's storage engine knows nothing of transaction ids (`MMAPv1`).
pub(super) fn is_without_transaction_numbers(failure: &Failure<'_>) -> bool {
    matches!(failure.cause, Cause::Refused { code: codes::ILLEGAL_OPERATION, message }
        if message.starts_with("Transaction numbers"))
}
