//! Session and transaction arguments of a command.

use bson::{Binary, Bson, Document, spec::BinarySubtype};
use steadfast_query::{Code, Fault, value::type_name};

use crate::oplog::SessionId;

/// User digest without authentication: the SHA-256 of the empty string.
pub(crate) const ANONYMOUS_DIGEST: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Arguments of a retryable write or of a transaction (`txnNumber`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionArguments {
    pub(crate) number: i64,
    /// `true` in a multi-document transaction (`autocommit: false`).
    pub(crate) multi_document: bool,
    /// `true` for the first command of a transaction (`startTransaction`).
    pub(crate) starts: bool,
}

impl TransactionArguments {
    pub(super) fn read(body: &Document, has_session: bool) -> Result<Option<Self>, Fault> {
        let number = match body.get("txnNumber") {
            None => None,
            Some(Bson::Int64(number)) => Some(*number),
            Some(other) => return Err(wrong_type("txnNumber", other, "long")),
        };
        let (multi_document, starts) = (flag(body, "autocommit")?, flag(body, "startTransaction")?);
        if multi_document == Some(true) {
            return Err(invalid("Specifying autocommit=true is not allowed."));
        }
        if starts == Some(false) {
            return Err(invalid("Specifying startTransaction=false is not allowed."));
        }
        if starts.is_some() && multi_document.is_none() {
            return Err(invalid(
                "'startTransaction' field requires 'autocommit' field to also be specified",
            ));
        }
        let Some(number) = number else {
            return match multi_document {
                Some(_) => Err(invalid(
                    "'autocommit' field requires a transaction number to also be specified",
                )),
                None => Ok(None),
            };
        };
        if !has_session {
            return Err(invalid("Transaction number requires a session ID to also be specified"));
        }
        if number < 0 {
            return Err(invalid("Transaction number cannot be negative"));
        }
        Ok(Some(Self {
            number,
            multi_document: multi_document.is_some(),
            starts: starts.is_some(),
        }))
    }
}

pub(super) fn read(body: &Document) -> Result<Option<SessionId>, Fault> {
    match body.get("lsid") {
        None => Ok(None),
        Some(Bson::Document(lsid)) => read_session(lsid, "OperationSessionInfo.lsid").map(Some),
        Some(other) => Err(wrong_type("lsid", other, "object")),
    }
}

/// Reads a session id: `{id: UUID}`, to which mongos may add the digest of the user (`uid`).
/// `place` names the field in errors.
pub(crate) fn read_session(lsid: &Document, place: &str) -> Result<SessionId, Fault> {
    let mut session = SessionId { id: Vec::new(), user: ANONYMOUS_DIGEST.to_vec() };
    for (field, value) in lsid {
        match (field.as_str(), value) {
            ("id", Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes })) => {
                session.id.clone_from(bytes);
            }
            ("uid", Bson::Binary(Binary { bytes, .. })) => session.user.clone_from(bytes),
            ("id", Bson::Binary(_)) => {
                return Err(Fault::type_mismatch(format!(
                    "BSON field '{place}.{field}' is the wrong binData type, expected type 'UUID'"
                )));
            }
            ("id" | "uid", other) => {
                return Err(Fault::type_mismatch(format!(
                    "BSON field '{place}.{field}' is the wrong type '{}', expected type 'binData'",
                    type_name(other)
                )));
            }
            _ => {
                return Err(Fault::location(
                    40415,
                    format!("BSON field '{place}.{field}' is an unknown field."),
                ));
            }
        }
    }
    if session.id.is_empty() {
        return Err(Fault::location(
            40414,
            format!("BSON field '{place}.id' is missing but a required field"),
        ));
    }
    Ok(session)
}

fn flag(body: &Document, field: &str) -> Result<Option<bool>, Fault> {
    match body.get(field) {
        None => Ok(None),
        Some(Bson::Boolean(flag)) => Ok(Some(*flag)),
        Some(other) => Err(wrong_type(field, other, "bool")),
    }
}

fn wrong_type(field: &str, value: &Bson, expected: &str) -> Fault {
    Fault::type_mismatch(format!(
        "BSON field 'OperationSessionInfo.{field}' is the wrong type '{}', expected type \
         '{expected}'",
        type_name(value)
    ))
}

fn invalid(message: &str) -> Fault {
    Fault::new(Code::INVALID_OPTIONS, message)
}
