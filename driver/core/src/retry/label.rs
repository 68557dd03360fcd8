//! Retryable errors, by the labels and codes of the specifications.

use super::{
    codes,
    facts::{AttemptFailure, AttemptPhase, CommandFacts, FailureCause, RetrySettings, ServerFacts},
};

/// Returns `true` if the driver adds [`RETRYABLE_WRITE_ERROR`](super::RETRYABLE_WRITE_ERROR) to an
/// error.
///
/// Applies only to commands with a `txnNumber`: a retryable write with `retryWrites`, outside of a
/// transaction and acknowledged, or the end of a transaction, whatever the value of `retryWrites`.
///
/// | failure                                           | label added |
/// |---------------------------------------------------|-------------|
/// | network error or PoolCleared, before sending      | always |
/// | retryable code in a reply to the handshake        | always: the server version is not known yet |
/// | network error, after sending                      | if the server supports retryable writes |
/// | retryable code at the top level of a reply        | if the server supports retryable writes and is older than 4.4 |
/// | retryable write concern error as the only error   | likewise, and if it is not a mongos or load balancer |
/// | reply with `writeErrors`                          | never |
/// | malformed reply, driver error                     | never |
pub fn adds_retryable_write_label(
    settings: RetrySettings,
    operation: &CommandFacts,
    server: &ServerFacts,
    failure: &AttemptFailure<'_>,
) -> bool {
    if !operation.is_retryable_write(settings) {
        return false;
    }
    let labelled_by_us = server.supports_retryable_writes() && !server.adds_error_labels();
    match (failure.phase, failure.cause) {
        (
            _,
            FailureCause::WriteErrors { .. } | FailureCause::MalformedReply | FailureCause::Driver,
        ) => false,
        (AttemptPhase::BeforeSend, FailureCause::Network { .. } | FailureCause::PoolCleared) => {
            true
        }
        (AttemptPhase::BeforeSend, FailureCause::CommandError { code, .. }) => {
            codes::is_retryable_write(code)
        }
        (AttemptPhase::BeforeSend, FailureCause::WriteConcern { .. }) => false,
        (AttemptPhase::Sent, FailureCause::Network { .. } | FailureCause::PoolCleared) => {
            server.supports_retryable_writes()
        }
        (AttemptPhase::Sent, FailureCause::CommandError { code, .. }) => {
            labelled_by_us && codes::is_retryable_write(code)
        }
        (AttemptPhase::Sent, FailureCause::WriteConcern { code }) => {
            labelled_by_us
                && !server.is_mongos_or_load_balancer()
                && codes::is_retryable_write(code)
        }
    }
}

/// Returns `true` if a failed read can be retried. Reads are classified by codes, not by labels.
pub(super) fn is_retryable_read(failure: &AttemptFailure<'_>) -> bool {
    match failure.cause {
        FailureCause::Network { .. } | FailureCause::PoolCleared => true,
        FailureCause::CommandError { code, .. } => codes::is_retryable_read(code),
        FailureCause::WriteErrors { .. }
        | FailureCause::WriteConcern { .. }
        | FailureCause::MalformedReply
        | FailureCause::Driver => false,
    }
}

/// Returns `true` if the server's storage engine does not support transaction numbers (`MMAPv1`).
pub(super) fn is_txn_number_unsupported(failure: &AttemptFailure<'_>) -> bool {
    matches!(failure.cause, FailureCause::CommandError { code: codes::ILLEGAL_OPERATION, message }
        if message.starts_with("Transaction numbers"))
}
