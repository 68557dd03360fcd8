//! A shard as routers call it: the member that a read preference chooses, again if that one is gone.

use std::{sync::Arc, time::Duration};

use blackpipe_base::codes::is_retryable_write;
use bson::{Bson, Document, doc, oid::ObjectId};
use steadfast_query::{Code, Fault};
use tokio::{sync::watch, time::Instant};

use super::preference::{Mode, Preference};
use crate::{
    call::Call,
    node::{Node, Power},
    set::ReplicaSet,
};

/// How long a router waits for a member that it may ask.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How often a router looks again while there is none. A set's members do not tell when one of them
/// is a fit.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How often a command is sent that may be.
const ATTEMPTS: usize = 3;

/// A shard.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) name: String,
    pub(crate) set: Arc<ReplicaSet>,
}

/// A call on its way to a shard.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) call: Call,
    pub(crate) preference: Preference,
    pub(crate) deadline: Instant,
    /// Whether it may be sent again if it is not known what became of it.
    pub(crate) repeatable: bool,
}

impl Shard {
    /// `name/host:port,host:port`, as `config.shards` shows it.
    pub(crate) fn host(&self) -> String {
        let addresses: Vec<String> =
            self.set.nodes().iter().map(|node| node.about().address.clone()).collect();
        format!("{}/{}", self.name, addresses.join(","))
    }

    /// Runs a call on it. An error that the shard answers with is one, also if it never answers.
    pub(crate) async fn run(&self, errand: Errand) -> Result<Document, Fault> {
        self.run_on_one(errand).await.map(|(_, reply)| reply)
    }

    /// The same, and which member it was that answered.
    pub(crate) async fn run_on_one(&self, errand: Errand) -> Result<(Arc<Node>, Document), Fault> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let selected = self.select(&errand.preference, errand.deadline).await;
            let node = selected.map_err(|fault| labelled(fault, &errand.call))?;
            let answer = ask(&node, errand.call.clone(), errand.deadline).await;
            let again = errand.repeatable && attempts < ATTEMPTS;
            match answer.and_then(read_reply) {
                Err(fault) if again && is_passing(&fault) => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(fault) => return Err(labelled(fault, &errand.call)),
                Ok(reply) => return Ok((node, reply)),
            }
        }
    }

    /// Runs a read and fetches its cursor to the end.
    pub(crate) async fn drain(&self, errand: Errand) -> Result<(Document, Vec<Document>), Fault> {
        let (call, deadline) = (errand.call.clone(), errand.deadline);
        let (node, mut reply) = self.run_on_one(errand).await?;
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
            reply = ask(&node, more, deadline).await.and_then(read_reply)?;
        }
        Ok((first, documents))
    }

    /// The member that a preference chooses, as soon as there is one.
    pub(crate) async fn select(
        &self,
        preference: &Preference,
        deadline: Instant,
    ) -> Result<Arc<Node>, Fault> {
        loop {
            if let Some(node) = self.fit(preference) {
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
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Its primary right now, if one runs.
    pub(crate) fn primary(&self) -> Option<Arc<Node>> {
        self.fit(&Preference::primary())
    }

    fn fit(&self, preference: &Preference) -> Option<Arc<Node>> {
        let running: Vec<(Arc<Node>, Document)> = self
            .set
            .nodes()
            .into_iter()
            .filter(|node| *node.power().borrow() == Power::On)
            .map(|node| {
                let hello = node.hello();
                (node, hello)
            })
            .collect();
        // One that has not heard yet that it was replaced says it is primary, too.
        let primary = running
            .iter()
            .filter(|(_, hello)| hello.get_bool("isWritablePrimary").unwrap_or(false))
            .max_by_key(|(_, hello)| election(hello));
        let secondary = || {
            running.iter().find(|(_, hello)| {
                hello.get_bool("secondary").unwrap_or(false) && preference.allows(hello)
            })
        };
        let tagged_primary = || primary.filter(|(_, hello)| preference.allows(hello));
        let chosen = match preference.mode {
            Mode::Primary => primary,
            Mode::PrimaryPreferred => primary.or_else(secondary),
            Mode::Secondary => secondary(),
            Mode::SecondaryPreferred => secondary().or(primary),
            Mode::Nearest => secondary().or_else(tagged_primary),
        };
        chosen.map(|(node, _)| node.clone())
    }
}

/// The call that fetches more from a cursor that this one opened.
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

fn election(hello: &Document) -> Option<ObjectId> {
    hello.get_object_id("electionId").ok()
}

/// Asks one member. The answer never comes if the member is killed first, and late if it is frozen.
pub(crate) async fn ask(node: &Node, call: Call, deadline: Instant) -> Result<Document, Fault> {
    let limited = call.max_time.is_some();
    let answered = async {
        thawed(node.power()).await;
        let reply = node.run(call).await;
        thawed(node.power()).await;
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
        () = gone(node.power()) => Err(unreachable(node)),
        reply = answered => Ok(reply),
        () = late => Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")),
    }
}

/// The error of a member whose process has ended.
pub(crate) fn unreachable(node: &Node) -> Fault {
    let address = &node.about().address;
    Fault::new(
        Code::HOST_UNREACHABLE,
        format!("Error connecting to {address} :: caused by :: Connection refused"),
    )
}

async fn thawed(mut power: watch::Receiver<Power>) {
    // An error means that there is no such member any more, which `gone` finds, too.
    let _ = power.wait_for(|power| *power != Power::Frozen).await;
}

async fn gone(mut power: watch::Receiver<Power>) {
    let _ = power.wait_for(|power| *power == Power::Off).await;
}

/// A reply that says `ok: 0` is an error.
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

/// An error as a document has it.
pub(crate) fn fault_of(mut reply: Document) -> Fault {
    let code = reply.remove("code").and_then(|code| code.as_i32()).unwrap_or(8);
    let message = match reply.remove("errmsg") {
        Some(Bson::String(message)) => message,
        _ => String::new(),
    };
    // What remains stands beside code and words, the name of the code included.
    Fault::new(Code::numbered(code), message).with(reply)
}

/// Whether it goes away with a new primary, or with a new attempt.
pub(crate) fn is_passing(fault: &Fault) -> bool {
    is_retryable_write(fault.code.number)
}

/// Whether a shard could not be reached, or has no primary.
pub(crate) fn is_absence(fault: &Fault) -> bool {
    is_passing(fault) || fault.code == Code::FAILED_TO_SATISFY_READ_PREFERENCE
}

/// An error that a client may answer with a retry says so.
fn labelled(fault: Fault, call: &Call) -> Fault {
    if fault.details.contains_key("errorLabels") {
        return fault;
    }
    let passing = is_absence(&fault);
    match call.transaction {
        Some(transaction) if transaction.several && passing => {
            let ends = matches!(call.name.as_str(), "commitTransaction" | "abortTransaction");
            let label = if ends { "RetryableWriteError" } else { "TransientTransactionError" };
            with_label(fault, label)
        }
        Some(transaction) if !transaction.several && passing => {
            with_label(fault, "RetryableWriteError")
        }
        Some(_) | None => fault,
    }
}

/// The error with another label.
pub(crate) fn with_label(mut fault: Fault, label: &str) -> Fault {
    let mut labels = fault.details.get_array("errorLabels").cloned().unwrap_or_default();
    if !labels.iter().any(|it| it.as_str() == Some(label)) {
        labels.push(label.into());
    }
    fault.details.insert("errorLabels", labels);
    fault
}
