//! Commands about the replica set, its sessions and its transactions.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, value::type_name};

use super::{CommandFailure, CommandOutcome, Node, RunningCommand, checks, wait::max_time_expired};
use crate::change::Change;

/// Commands of the database `admin` only.
const ADMIN: [&str; 12] = [
    "abortTransaction",
    "appendOplogNote",
    "commitTransaction",
    "replSetFreeze",
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetInitiate",
    "replSetMaintenance",
    "replSetReconfig",
    "replSetStepDown",
    "replSetStepUp",
    "replSetSyncFrom",
];

const ANY_DATABASE: [&str; 10] = [
    "_isSelf",
    "endSessions",
    "getLastError",
    "hello",
    "isMaster",
    "killAllSessions",
    "killAllSessionsByPattern",
    "killSessions",
    "refreshSessions",
    "startSession",
];

/// Commands of the stable API.
const STABLE: [&str; 6] = [
    "abortTransaction",
    "commitTransaction",
    "endSessions",
    "hello",
    "killSessions",
    "refreshSessions",
];

pub(super) fn is_set_command(name: &str) -> bool {
    ADMIN.contains(&name) || ANY_DATABASE.contains(&name)
}

impl Node {
    pub(super) async fn run_set_command(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let call = running.call;
        let name = call.name.as_str();
        let is_set = self.server_info.set_name.is_some();
        if call.api_strict && !STABLE.contains(&name) {
            return Err(checks::not_stable(name).into());
        }
        if ADMIN.contains(&name) && call.database != "admin" {
            let message = format!("{name} may only be run against the admin database.");
            return Err(Fault::new(Code::UNAUTHORIZED, message).into());
        }
        if name.starts_with("replSet") && !is_set {
            let message = "not running with --replSet";
            return Err(Fault::new(Code::NO_REPLICATION_ENABLED, message).into());
        }
        checks::check_write_concern(&call.write_concern, is_set)?;
        match name {
            "commitTransaction" | "abortTransaction" => self.run_end(running).await,
            "hello" => Ok(self.hello().into()),
            "isMaster" => {
                let mut hello = self.hello();
                if let Some(writable) = hello.remove("isWritablePrimary") {
                    hello.insert("ismaster", writable);
                }
                Ok(hello.into())
            }
            "_isSelf" => Ok(doc! { "id": running.process }.into()),
            "getLastError" => {
                Err(Fault::location(5_739_000, "getLastError command is not supported").into())
            }
            "appendOplogNote" => self.append_note(running).await,
            "startSession"
            | "endSessions"
            | "refreshSessions"
            | "killSessions"
            | "killAllSessions"
            | "killAllSessionsByPattern" => self.run_sessions(running),
            "replSetGetStatus" => {
                let now = self.shared.clock.now();
                Ok(self.shared.lock().status(self.index, now).into())
            }
            "replSetGetConfig" => {
                let config = self.shared.lock().configuration(self.index);
                Ok(doc! { "config": config }.into())
            }
            "replSetStepDown" => self.run_step_down(running).await,
            "replSetFreeze" => self.run_freeze(running),
            "replSetStepUp" => {
                self.shared.change(|state, now| state.elect(self.index, now))?;
                Self::ok_reply()
            }
            "replSetInitiate" => {
                Err(Fault::new(Code::named(23, "AlreadyInitialized"), "already initialized").into())
            }
            other => Err(Fault::new(
                Code::COMMAND_NOT_SUPPORTED,
                format!("{other} is not supported by this server"),
            )
            .into()),
        }
    }

    async fn append_note(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let data = match running.call.body.get("data") {
            Some(Bson::Document(data)) => data.clone(),
            Some(other) => return Err(wrong_type("data", other, "object").into()),
            None => return Err(missing("data").into()),
        };
        let written = self
            .wait_until(running.deadline, |state, now| {
                Some(self.check_primary(state).and_then(|()| {
                    let note = vec![Change::Noop(data.clone())];
                    let at = state.append(self.index, note, None, now)?;
                    state.replicate(now);
                    Ok((at, state.member(self.index).epoch()))
                }))
            })
            .await;
        let Some(written) = written else { return Err(max_time_expired().into()) };
        let (at, epoch) = written?;
        let concern = &running.call.write_concern;
        let concern = self.await_write_concern(running, at, concern, epoch).await;
        Ok(CommandOutcome { reply: Document::new(), concern, at: Some(at) })
    }
}

fn missing(field: &str) -> Fault {
    let message = format!("Missing expected field \"{field}\"");
    Fault::new(Code::named(4, "NoSuchKey"), message)
}

fn wrong_type(field: &str, value: &Bson, expected: &str) -> Fault {
    Fault::type_mismatch(format!(
        "\"{field}\" had the wrong type. Expected {expected}, found {}",
        type_name(value)
    ))
}
