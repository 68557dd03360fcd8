//! Commands and replies of SASL conversations.

use bson::{
    Binary, RawBson, RawDocument, RawDocumentBuf,
    raw::{RawBsonRef, cstr},
    rawdoc,
    spec::BinarySubtype,
};
use steadfast_core::credential::AuthMechanism;

use super::error::{AuthError, Cause};

/// Returns the `saslStart` command.
pub(super) fn start(mechanism: AuthMechanism, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = rawdoc! { "saslStart": 1_i32, "mechanism": mechanism.as_str() };
    command.append(cstr!("payload"), binary(payload));
    command.append(cstr!("autoAuthorize"), 1_i32);
    command
}

/// Returns the `saslStart` command for SCRAM. `skipEmptyExchange` avoids the empty exchange at the
/// end on servers from 4.4 on.
pub(super) fn start_scram(mechanism: AuthMechanism, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = start(mechanism, payload);
    command.append(cstr!("options"), rawdoc! { "skipEmptyExchange": true });
    command
}

/// Returns the `saslContinue` command.
pub(super) fn continuation(conversation: &RawBson, payload: Vec<u8>) -> RawDocumentBuf {
    let mut command = rawdoc! { "saslContinue": 1_i32 };
    command.append(cstr!("conversationId"), conversation.clone());
    command.append(cstr!("payload"), binary(payload));
    command
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}

/// Reply in a SASL conversation.
pub(super) struct SaslReply {
    pub(super) conversation: RawBson,
    pub(super) payload: Vec<u8>,
    pub(super) done: bool,
}

impl SaslReply {
    pub(super) fn read(mechanism: AuthMechanism, reply: &RawDocument) -> Result<Self, AuthError> {
        check_ok(mechanism, reply)?;
        let malformed = |what| AuthError::new(mechanism, Cause::Malformed(what));
        let payload = match reply.get("payload") {
            Ok(Some(RawBsonRef::Binary(binary))) => binary.bytes.to_vec(),
            _ => return Err(malformed("no payload")),
        };
        let done = reply.get_bool("done").map_err(|_| malformed("no field `done`"))?;
        let conversation = match reply.get("conversationId") {
            Ok(Some(id)) => bson::to_raw_bson(id),
            // Only `saslContinue` needs the conversation id.
            _ if done => RawBson::Null,
            _ => return Err(malformed("no conversation id")),
        };
        Ok(Self { conversation, payload, done })
    }
}

/// Returns an error if the reply has an `ok` other than 1. The reply to a speculative
/// authentication has no field `ok`.
pub(super) fn check_ok(mechanism: AuthMechanism, reply: &RawDocument) -> Result<(), AuthError> {
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
            Err(AuthError::new(mechanism, Cause::ServerError(message)))
        }
    }
}
