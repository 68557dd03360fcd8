//! Authentication and authorization of a connection: users, SASL conversations, privileges.

pub(crate) mod commands;
pub(crate) mod privileges;
pub(crate) mod scram;
pub(crate) mod users;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use steadfast_query::{Code, Fault};

use self::{
    scram::{ScramConversation, ScramHash, ScramResponse},
    users::{UserName, Users},
};

/// Authentication state of a connection.
#[derive(Debug, Default)]
pub(crate) struct AuthState {
    user: Option<UserName>,
    conversation: Option<SaslConversation>,
    begun: i32,
}

#[derive(Debug)]
struct SaslConversation {
    id: i32,
    scram: ScramConversation,
    /// `true` omits the last, empty exchange (`skipEmptyExchange`).
    skip_empty_exchange: bool,
}

/// Supported mechanisms, in the order of preference.
pub(crate) const MECHANISMS: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha1];

impl AuthState {
    /// The authenticated user.
    pub(crate) fn user(&self) -> Option<&UserName> {
        self.user.as_ref()
    }

    /// Runs `logout`.
    pub(crate) fn log_out(&mut self) {
        self.user = None;
        self.conversation = None;
    }

    /// Runs `saslStart`. `nonce` is the server's part of the SCRAM nonce.
    pub(crate) fn sasl_start(
        &mut self,
        command: &Document,
        database: &str,
        users: &Users,
        nonce: &str,
    ) -> Result<Document, Fault> {
        self.conversation = None;
        let payload = payload(command, "saslStart")?;
        let Ok(mechanism) = command.get_str("mechanism") else {
            return Err(missing("saslStart", "mechanism"));
        };
        let Some(hash) = MECHANISMS.into_iter().find(|hash| hash.mechanism() == mechanism) else {
            let message =
                format!("Received authentication for mechanism {mechanism} which is not enabled");
            return Err(Fault::new(Code::named(334, "MechanismUnavailable"), message));
        };
        let (scram, reply) = ScramConversation::begin(hash, payload, nonce, |user| {
            users.credential(database, user, hash)
        })
        .ok_or_else(failed)?;
        self.begun += 1;
        let options = command.get_document("options").ok();
        self.conversation = Some(SaslConversation {
            id: self.begun,
            scram: scram.in_database(database),
            skip_empty_exchange: options
                .is_some_and(|options| options.get_bool("skipEmptyExchange").unwrap_or(false)),
        });
        Ok(step(self.begun, false, reply))
    }

    /// Runs `saslContinue`.
    pub(crate) fn sasl_continue(&mut self, command: &Document) -> Result<Document, Fault> {
        let payload = payload(command, "saslContinue")?;
        let Some(mut conversation) = self.conversation.take() else {
            return Err(Fault::new(Code::PROTOCOL_ERROR, "No SASL session state found"));
        };
        let id = command.get("conversationId").and_then(blackpipe_base::number::code);
        if id != Some(conversation.id) {
            let message = "sasl: Mismatched conversation id";
            return Err(Fault::new(Code::PROTOCOL_ERROR, message));
        }
        match conversation.scram.advance(payload).ok_or_else(failed)? {
            ScramResponse::ServerSignature(reply) => {
                let done = conversation.skip_empty_exchange;
                match done {
                    true => self.user = Some(conversation.scram.user()),
                    false => self.conversation = Some(conversation),
                }
                Ok(step(id.unwrap_or_default(), done, reply))
            }
            ScramResponse::Empty => {
                self.user = Some(conversation.scram.user());
                Ok(step(conversation.id, true, Vec::new()))
            }
        }
    }

    /// Runs `connectionStatus`.
    pub(crate) fn status(&self, command: &Document, users: &Users) -> Document {
        let (names, roles): (Vec<Bson>, Vec<Bson>) = match &self.user {
            Some(user) => (vec![user.to_document().into()], users.roles(user)),
            None => (Vec::new(), Vec::new()),
        };
        let mut info = doc! { "authenticatedUsers": names, "authenticatedUserRoles": roles };
        if command.get_bool("showPrivileges").unwrap_or(false) {
            info.insert("authenticatedUserPrivileges", Vec::<Bson>::new());
        }
        doc! { "authInfo": info, "ok": 1.0 }
    }
}

/// The error of every failed login. It does not reveal which users exist.
pub(crate) fn failed() -> Fault {
    Fault::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// The error of a required field that is missing.
pub(crate) fn missing(command: &str, field: &str) -> Fault {
    let message = format!("BSON field '{command}.{field}' is missing but a required field");
    Fault::location(40414, message)
}

fn step(id: i32, done: bool, payload: Vec<u8>) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: payload };
    doc! { "conversationId": id, "done": done, "payload": payload, "ok": 1.0 }
}

fn payload<'a>(command: &'a Document, name: &str) -> Result<&'a [u8], Fault> {
    match command.get("payload") {
        Some(Bson::Binary(payload)) => Ok(&payload.bytes),
        Some(_) => Err(failed()),
        None => Err(missing(name, "payload")),
    }
}

#[cfg(test)]
mod tests;
