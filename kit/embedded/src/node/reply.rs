//! Generic fields of replies: times, error labels, topology version.

use bson::{Binary, Bson, Document, Timestamp, doc, spec::BinarySubtype};
use steadfast_query::{Code, Fault};

use super::{CommandFailure, CommandOutcome, Node};
use crate::{call::Call, set::State};
use blackpipe_base::codes;

/// Commands whose replies have `opTime` and `electionId`.
const REPLIES_WITH_OPTIME: [&str; 4] = ["bulkWrite", "delete", "insert", "update"];

impl Node {
    pub(super) fn finish(
        &self,
        call: &Call,
        outcome: Result<CommandOutcome, CommandFailure>,
    ) -> Document {
        let state = self.shared.lock();
        match outcome {
            Ok(done) => self.succeed(&state, call, done),
            Err(failed) => self.fail(&state, call, &failed),
        }
    }

    /// Adds `operationTime` and `$clusterTime`, which all members of a set return.
    pub(crate) fn add_cluster_times(&self, reply: &mut Document) {
        let state = self.shared.lock();
        let at = state.member(self.index).last().timestamp;
        self.add_times(&state, reply, at.into());
    }

    fn succeed(&self, state: &State, call: &Call, done: CommandOutcome) -> Document {
        let CommandOutcome { mut reply, concern, at } = done;
        let at = at.unwrap_or(state.member(self.index).last());
        let ok = reply.remove("ok").unwrap_or(Bson::Double(1.0));
        if REPLIES_WITH_OPTIME.contains(&call.name.as_str()) && state.is_set() {
            reply.insert("electionId", state.election_id(self.index));
            reply.insert("opTime", at.to_document());
        }
        if let Some(fault) = &concern {
            let mut error = doc! {
                "code": fault.code.number,
                "codeName": fault.code.name().as_ref(),
                "errmsg": &fault.message,
            };
            error.extend(fault.details.clone());
            reply.insert("writeConcernError", error);
        }
        reply.insert("ok", ok);
        if let Some(fault) = &concern
            && is_retryable(call)
            && codes::is_retryable_write(fault.code.number)
        {
            reply.insert("errorLabels", ["RetryableWriteError"].as_slice());
        }
        self.add_times(state, &mut reply, at.timestamp.into());
        reply
    }

    fn fail(&self, state: &State, call: &Call, failed: &CommandFailure) -> Document {
        let CommandFailure { fault, wrote } = failed;
        let mut reply = Document::new();
        let labels = self.labels(call, fault, *wrote);
        if !labels.is_empty() {
            reply.insert("errorLabels", labels.as_slice());
        }
        if codes::is_state_change(fault.code.number) {
            reply.insert("topologyVersion", state.topology_version(self.index));
        }
        reply.extend(fault.to_reply());
        let at = state.member(self.index).last().timestamp;
        self.add_times(state, &mut reply, at.into());
        reply
    }

    fn labels(&self, call: &Call, fault: &Fault, wrote: bool) -> Vec<&'static str> {
        let code = fault.code.number;
        let mut labels = Vec::new();
        let is_end = ends_transaction(call);
        if call.in_transaction() && codes::is_transient_in_transaction(code, is_end) {
            labels.push("TransientTransactionError");
        }
        if call.in_transaction() && !is_end {
            return labels;
        }
        // Labelled by the driver instead: `ChangeStreamFatalError` and `ChangeStreamHistoryLost`.
        if matches!(code, 280 | 286) {
            labels.push("NonResumableChangeStreamError");
        }
        if codes::is_resumable(code) && self.uses_change_stream(&call.name, &call.body) {
            labels.push("ResumableChangeStreamError");
        }
        if is_retryable(call) && codes::is_retryable_write(code) {
            labels.push("RetryableWriteError");
            // A server that is not primary rejects the command before executing it.
            let is_begun = code != Code::NOT_WRITABLE_PRIMARY.number;
            if is_begun && !wrote && !is_end && self.has_no_writes_performed() {
                labels.push("NoWritesPerformed");
            }
        }
        labels
    }

    /// Returns `true` if this version has the label `NoWritesPerformed` (6.1 and later).
    fn has_no_writes_performed(&self) -> bool {
        let mut parts =
            self.server_info.version.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        version >= (6, 1)
    }

    fn add_times(&self, state: &State, reply: &mut Document, operation: Timestamp) {
        if !state.is_set() {
            return;
        }
        let unsigned = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        let time = Timestamp::from(state.cluster_time(self.index));
        reply.insert(
            "$clusterTime",
            doc! { "clusterTime": time, "signature": { "hash": unsigned, "keyId": 0_i64 } },
        );
        reply.insert("operationTime", operation);
    }
}

/// Returns `true` for commands that drivers retry: retryable writes, commit, abort.
fn is_retryable(call: &Call) -> bool {
    call.transaction.is_some_and(|it| !it.multi_document) || ends_transaction(call)
}

fn ends_transaction(call: &Call) -> bool {
    matches!(call.name.as_str(), "commitTransaction" | "abortTransaction")
}
