//! Session commands, such as `startSession` and `killSessions`.

use bson::{Bson, Document, Uuid, doc};
use steadfast_query::{Fault, value::type_name};

use super::{CommandFailure, CommandOutcome, Node, RunningCommand};
use crate::{call::read_session, oplog::SessionId};

impl Node {
    pub(super) fn run_sessions(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let (name, body) = (running.call.name.as_str(), &running.call.body);
        match name {
            "startSession" => Ok(self.start_session().into()),
            "killAllSessions" | "killAllSessionsByPattern" => {
                self.kill_matching(name, body)?;
                Self::ok_reply()
            }
            _ => {
                let sessions = listed(name, body)?;
                // An empty list means all sessions.
                if sessions.is_empty() && name == "killSessions" {
                    self.kill_all();
                }
                for session in &sessions {
                    self.run_on_session(name, session);
                }
                Self::ok_reply()
            }
        }
    }

    fn start_session(&self) -> Document {
        self.shared.change_if_appended(|state, now| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&state.next_random().to_be_bytes());
            bytes[8..].copy_from_slice(&state.next_random().to_be_bytes());
            // Version 4 and the variant of RFC 4122.
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let user = crate::call::ANONYMOUS_DIGEST.to_vec();
            state.use_session(&SessionId { id: bytes.to_vec(), user }, now);
            let minutes = state.session_timeout().as_secs() / 60;
            doc! {
                "id": { "id": Uuid::from_bytes(bytes) },
                "timeoutMinutes": i32::try_from(minutes).unwrap_or(i32::MAX),
            }
        })
    }

    fn run_on_session(&self, name: &str, session: &SessionId) {
        self.shared.change(|state, now| match name {
            "refreshSessions" => state.use_session(session, now),
            "endSessions" => state.end_session(session),
            _ => state.kill_transactions(self.index, Some(session)),
        });
        if !matches!(name, "refreshSessions" | "endSessions") {
            self.cursors().kill_session(session);
        }
    }

    /// Kills the sessions that match a pattern. Patterns without an `lsid` match all sessions,
    /// of all users and roles.
    fn kill_matching(&self, name: &str, body: &Document) -> Result<(), Fault> {
        let mut some = Vec::new();
        for pattern in documents(name, body)? {
            match pattern.get("lsid") {
                Some(Bson::Document(lsid)) => some.push(read_session(lsid, "lsid")?),
                _ => {
                    some.clear();
                    break;
                }
            }
        }
        if some.is_empty() {
            self.kill_all();
        }
        for session in &some {
            self.run_on_session("killSessions", session);
        }
        Ok(())
    }

    fn kill_all(&self) {
        self.shared.change(|state, _| state.kill_transactions(self.index, None));
        self.close_cursors();
    }
}

fn listed(name: &str, body: &Document) -> Result<Vec<SessionId>, Fault> {
    let place = format!("{name}.{name}");
    documents(name, body)?.into_iter().map(|lsid| read_session(lsid, &place)).collect()
}

fn documents<'a>(name: &str, body: &'a Document) -> Result<Vec<&'a Document>, Fault> {
    let wrong = |value: &Bson, expected| {
        Fault::type_mismatch(format!(
            "BSON field '{name}.{name}' is the wrong type '{}', expected type '{expected}'",
            type_name(value)
        ))
    };
    match body.get(name) {
        Some(Bson::Array(list)) => list
            .iter()
            .map(|element| element.as_document().ok_or_else(|| wrong(element, "object")))
            .collect(),
        Some(other) => Err(wrong(other, "array")),
        None => Ok(Vec::new()),
    }
}
