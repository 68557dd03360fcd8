//! The commands that carry a SASL conversation, and what is read from their replies.

use bson::{
    Binary, RawBson, RawDocument, RawDocumentBuf,
    raw::{RawBsonRef, cstr},
    rawdoc,
    spec::BinarySubtype,
};
use steadfast_core::credential::AuthMechanism;

use super::error::{AuthError, Cause};

/// The command that opens a conversation.
pub(super) fn start(mechanism: AuthMechanism, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = rawdoc! { "saslStart": 1_i32, "mechanism": mechanism.as_str() };
    command.append(cstr!("payload"), binary(payload));
    command.append(cstr!("autoAuthorize"), 1_i32);
    command
}

/// The command that opens a SCRAM conversation. Its option spares the empty exchange at the end, on
/// servers that know of it.
pub(super) fn start_scram(mechanism: AuthMechanism, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = start(mechanism, payload);
    command.append(cstr!("options"), rawdoc! { "skipEmptyExchange": true });
    command
}

/// The command that goes on with a conversation.
pub(super) fn proceed(conversation: &RawBson, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = rawdoc! { "saslContinue": 1_i32 };
    command.append(cstr!("conversationId"), conversation.clone());
    command.append(cstr!("payload"), binary(payload));
    command
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// A reply within a conversation.
pub(super) struct Reply {
    pub(super) conversation: RawBson,
    pub(super) payload: Vec<u8>,
    pub(super) done: bool,
}

impl Reply {
    pub(super) fn read(mechanism: AuthMechanism, reply: &RawDocument) -> Result<Self, AuthError> {
        refuse_failure(mechanism, reply)?;
        let malformed = |what| AuthError::new(mechanism, Cause::Malformed(what));
        let payload = match reply.get("payload") {
            Ok(Some(RawBsonRef::Binary(binary))) => binary.bytes.to_vec(),
            _ => return Err(malformed("no payload")),
        };
        let done = reply.get_bool("done").map_err(|_| malformed("no field `done`"))?;
        let conversation = match reply.get("conversationId") {
            Ok(Some(id)) => id.into(),
            // Only a conversation that goes on needs its number.
            _ if done => RawBson::Null,
            _ => return Err(malformed("no conversation id")),
        };
        Ok(Self { conversation, payload, done })
    }
}

/// Refuses a reply that says of itself that the command failed. The answer to a speculative
/// authentication has no field `ok`.
pub(super) fn refuse_failure(
    mechanism: AuthMechanism,
    reply: &RawDocument,
) -> Result<(), AuthError> {
    let failed = match reply.get("ok") {
        Ok(None) => false,
        Ok(Some(RawBsonRef::Double(ok))) => ok != 1.0,
        Ok(Some(RawBsonRef::Int32(ok))) => ok != 1,
        Ok(Some(RawBsonRef::Int64(ok))) => ok != 1,
        Ok(Some(RawBsonRef::Boolean(ok))) => !ok,
        Ok(Some(_)) | Err(_) => true,
    };
    match failed {
        false => Ok(()),
        true => {
            let message = reply.get_str("errmsg").unwrap_or("no reason given").to_owned();
            Err(AuthError::new(mechanism, Cause::Refused(message)))
        }
    }
}
