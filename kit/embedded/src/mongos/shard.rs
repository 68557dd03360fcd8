//! Calls of a shard: server selection by read preference, and retries.

use std::{sync::Arc, time::Duration};

use blackpipe_base::codes::is_retryable_write;
use bson::{Bson, Document, doc, oid::ObjectId};
use steadfast_query::{Code, Fault};
use tokio::{sync::watch, time::Instant};

use super::preference::{ReadPreference, ReadPreferenceMode};
use crate::{
    call::Call,
    node::{Node, ProcessState},
    set::ReplicaSet,
};

/// Server selection timeout of a `mongos`.
pub(crate) const SELECTION_TIMEOUT: Duration = Duration::from_secs(20);

/// Poll interval of server selection. Members do not notify about eligibility.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Attempts of a retryable command.
const ATTEMPTS: usize = 3;

/// A shard as its callers see it.
#[derive(Clone, Debug)]
pub(crate) struct ShardClient {
    pub(crate) name: String,
    pub(crate) set: Arc<ReplicaSet>,
}

/// A command for a shard.
#[derive(Clone, Debug)]
pub(crate) struct ShardCommand {
    pub(crate) call: Call,
    pub(crate) preference: ReadPreference,
    pub(crate) deadline: Instant,
    /// `true` if the command can be retried after an unknown outcome.
    pub(crate) repeatable: bool,
}

impl ShardClient {
    /// `name/host:port,host:port`, as `config.shards` shows it.
    pub(crate) fn host(&self) -> String {
        let addresses: Vec<String> =
            self.set.nodes().iter().map(|node| node.server_info().address.clone()).collect();
        format!("{}/{}", self.name, addresses.join(","))
    }

    /// Runs a command. Error replies and missing replies are errors.
    pub(crate) async fn run(&self, shard_command: ShardCommand) -> Result<Document, Fault> {
        self.run_with_member(shard_command).await.map(|(_, reply)| reply)
    }

    /// Runs a command and also returns the member that replied.
    pub(crate) async fn run_with_member(
        &self,
        shard_command: ShardCommand,
    ) -> Result<(Arc<Node>, Document), Fault> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let selected = self.select(&shard_command.preference, shard_command.deadline).await;
            let node = selected.map_err(|fault| labelled(fault, &shard_command.call))?;
            let answer =
                run_on_member(&node, shard_command.call.clone(), shard_command.deadline).await;
            let again = shard_command.repeatable && attempts < ATTEMPTS;
            match answer.and_then(read_reply) {
                Err(fault) if again && is_retryable_error(&fault) => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(fault) => return Err(labelled(fault, &shard_command.call)),
                Ok(reply) => return Ok((node, reply)),
            }
        }
    }

    /// Runs a read and fetches all batches of its cursor.
    pub(crate) async fn drain(
        &self,
        shard_command: ShardCommand,
    ) -> Result<(Document, Vec<Document>), Fault> {
        let (call, deadline) = (shard_command.call.clone(), shard_command.deadline);
        let (node, mut reply) = self.run_with_member(shard_command).await?;
        let mut documents = Vec::new();
        let mut first = reply.clone();
        first.remove("cursor");
        while let Ok(cursor) = reply.get_document_mut("cursor") {
            for batch in ["firstBatch", "nextBatch"] {
                if let Some(Bson::Array(batch)) = cursor.remove(batch) {
                    documents.extend(batch.into_iter().filter_map(|it| match it {
                        Bson::Document(document) => Some(document),
                        _ => None,
                    }));
                }
            }
            let id = cursor.get_i64("id").unwrap_or(0);
            if id == 0 {
                break;
            }
            let namespace = cursor.get_str("ns").unwrap_or_default();
            let collection = namespace.split_once('.').map_or("", |(_, name)| name).to_owned();
            let more = more(&call, id, &collection)?;
            reply = run_on_member(&node, more, deadline).await.and_then(read_reply)?;
        }
        Ok((first, documents))
    }

    /// Selects a member for a read preference. Waits until there is one.
    pub(crate) async fn select(
        &self,
        preference: &ReadPreference,
        deadline: Instant,
    ) -> Result<Arc<Node>, Fault> {
        loop {
            if let Some(node) = self.matching_member(preference) {
                return Ok(node);
            }
            if Instant::now() >= deadline {
                return Err(Fault::new(
                    Code::FAILED_TO_SATISFY_READ_PREFERENCE,
                    format!(
                        "Could not find host matching read preference {{ mode: \"{}\" }} for set {}",
                        preference.mode.name(),
                        self.name
                    ),
                ));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Current primary, if it runs.
    pub(crate) fn primary(&self) -> Option<Arc<Node>> {
        self.matching_member(&ReadPreference::primary())
    }

    fn matching_member(&self, preference: &ReadPreference) -> Option<Arc<Node>> {
        let running: Vec<(Arc<Node>, Document)> = self
            .set
            .nodes()
            .into_iter()
            .filter(|node| *node.process_state().borrow() == ProcessState::Running)
            .map(|node| {
                let hello = node.hello();
                (node, hello)
            })
            .collect();
        // A stale primary has not noticed yet that it was replaced. The newest election wins.
        let primary = running
            .iter()
            .filter(|(_, hello)| hello.get_bool("isWritablePrimary").unwrap_or(false))
            .max_by_key(|(_, hello)| election_id(hello));
        let secondary = || {
            running.iter().find(|(_, hello)| {
                hello.get_bool("secondary").unwrap_or(false) && preference.allows(hello)
            })
        };
        let tagged_primary = || primary.filter(|(_, hello)| preference.allows(hello));
        let chosen = match preference.mode {
            ReadPreferenceMode::Primary => primary,
            ReadPreferenceMode::PrimaryPreferred => primary.or_else(secondary),
            ReadPreferenceMode::Secondary => secondary(),
            ReadPreferenceMode::SecondaryPreferred => secondary().or(primary),
            ReadPreferenceMode::Nearest => secondary().or_else(tagged_primary),
        };
        chosen.map(|(node, _)| node.clone())
    }
}

/// `getMore` of a cursor that `opened` has opened.
fn more(opened: &Call, id: i64, collection: &str) -> Result<Call, Fault> {
    let mut body = doc! { "getMore": id, "collection": collection };
    for field in ["lsid", "txnNumber", "autocommit", "$db", "$clusterTime", "$readPreference"] {
        if let Some(value) = opened.body.get(field) {
            body.insert(field, value.clone());
        }
    }
    let mut call = Call::read("getMore", &opened.database, body)?;
    call.session.clone_from(&opened.session);
    Ok(call)
}

fn election_id(hello: &Document) -> Option<ObjectId> {
    hello.get_object_id("electionId").ok()
}

/// Runs a command on one member. Fails if the member is killed, waits while it is frozen.
pub(crate) async fn run_on_member(
    node: &Node,
    call: Call,
    deadline: Instant,
) -> Result<Document, Fault> {
    let limited = call.max_time.is_some();
    let answered = async {
        wait_until_thawed(node.process_state()).await;
        let reply = node.run(call).await;
        wait_until_thawed(node.process_state()).await;
        reply
    };
    let late = async {
        tokio::time::sleep_until(deadline).await;
        if !limited {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = killed(node.process_state()) => Err(unreachable(node)),
        reply = answered => Ok(reply),
        () = late => Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")),
    }
}

/// Error of a member whose process has ended.
pub(crate) fn unreachable(node: &Node) -> Fault {
    let address = &node.server_info().address;
    Fault::new(
        Code::HOST_UNREACHABLE,
        format!("Error connecting to {address} :: caused by :: Connection refused"),
    )
}

async fn wait_until_thawed(mut process_state: watch::Receiver<ProcessState>) {
    // An error means that the member does not exist any more. `gone` detects that.
    let _ = process_state.wait_for(|process_state| *process_state != ProcessState::Frozen).await;
}

async fn killed(mut process_state: watch::Receiver<ProcessState>) {
    let _ = process_state.wait_for(|process_state| *process_state == ProcessState::Killed).await;
}

/// Returns an error for a reply with `ok: 0`.
pub(crate) fn read_reply(mut reply: Document) -> Result<Document, Fault> {
    let ok = match reply.get("ok") {
        Some(Bson::Double(ok)) => *ok == 1.0,
        Some(Bson::Int32(ok)) => *ok == 1,
        Some(Bson::Boolean(ok)) => *ok,
        _ => false,
    };
    if ok {
        return Ok(reply);
    }
    reply.remove("ok");
    reply.remove("topologyVersion");
    Err(fault_of(reply))
}

/// Converts an error document.
pub(crate) fn fault_of(mut reply: Document) -> Fault {
    let code = reply.remove("code").and_then(|code| code.as_i32()).unwrap_or(8);
    let message = match reply.remove("errmsg") {
        Some(Bson::String(message)) => message,
        _ => String::new(),
    };
    // Remaining fields are extra information of the error, besides `codeName`.
    Fault::new(Code::numbered(code), message).with(reply)
}

/// Returns `true` for errors that a new primary or another attempt may resolve.
pub(crate) fn is_retryable_error(fault: &Fault) -> bool {
    is_retryable_write(fault.code.number)
}

/// Returns `true` if the shard was unreachable or had no primary.
pub(crate) fn is_unreachable(fault: &Fault) -> bool {
    is_retryable_error(fault) || fault.code == Code::FAILED_TO_SATISFY_READ_PREFERENCE
}

/// Adds the label of errors that a client can retry.
fn labelled(fault: Fault, call: &Call) -> Fault {
    if fault.details.contains_key("errorLabels") {
        return fault;
    }
    let passing = is_unreachable(&fault);
    match call.transaction {
        Some(transaction) if transaction.multi_document && passing => {
            let ends = matches!(call.name.as_str(), "commitTransaction" | "abortTransaction");
            let label = if ends { "RetryableWriteError" } else { "TransientTransactionError" };
            with_label(fault, label)
        }
        Some(transaction) if !transaction.multi_document && passing => {
            with_label(fault, "RetryableWriteError")
        }
        Some(_) | None => fault,
    }
}

/// Adds a label to an error.
pub(crate) fn with_label(mut fault: Fault, label: &str) -> Fault {
    let mut labels = fault.details.get_array("errorLabels").cloned().unwrap_or_default();
    if !labels.iter().any(|it| it.as_str() == Some(label)) {
        labels.push(label.into());
    }
    fault.details.insert("errorLabels", labels);
    fault
}
