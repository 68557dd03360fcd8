//! A command with its generic arguments: session, transaction, concerns, time limit.

mod concern;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bson::{Bson, Document, Timestamp};
use steadfast_query::{Code, Fault, value::type_name};

use super::{
    fail_point::transactional_write::TransactionalWriteFailPoint, namespace::Namespace,
    oplog::SessionId,
};

pub(crate) use concern::{ReadConcern, WriteConcern, WriteConcernW};
pub(crate) use session::{ANONYMOUS_DIGEST, TransactionArguments, read_session};

/// A parsed command.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) database: String,
    /// The whole command document.
    pub(crate) body: Document,
    pub(crate) session: Option<SessionId>,
    pub(crate) transaction: Option<TransactionArguments>,
    pub(crate) read_concern: ReadConcern,
    pub(crate) write_concern: WriteConcern,
    pub(crate) max_time: Option<Duration>,
    /// `true` if the read preference allows a secondary.
    pub(crate) secondary_ok: bool,
    /// Newest cluster time of the client (`$clusterTime`).
    pub(crate) cluster_time: Option<Timestamp>,
    /// `true` allows only commands and fields of the stable API (`apiStrict`).
    pub(crate) api_strict: bool,
    /// Fail point that its writes can trigger.
    pub(crate) write_fail_point: Option<TransactionalWriteFailPoint>,
    /// `true` hides its writes from change streams. The oplog entries of another shard show them
    /// already.
    pub(crate) hidden_from_change_streams: bool,
}

impl Call {
    /// Parses a command. `body` is the whole document, `name` the name of its first field.
    pub(crate) fn read(
        name: impl Into<String>,
        database: impl Into<String>,
        body: Document,
    ) -> Result<Self, Fault> {
        let session = session::read(&body)?;
        let transaction = TransactionArguments::read(&body, session.is_some())?;
        Ok(Self {
            transaction,
            session,
            read_concern: ReadConcern::read(&body)?,
            write_concern: WriteConcern::read(&body)?,
            max_time: max_time(&body)?,
            secondary_ok: secondary_ok(&body)?,
            cluster_time: cluster_time(&body)?,
            api_strict: api_strict(&body)?,
            write_fail_point: None,
            hidden_from_change_streams: false,
            name: name.into(),
            database: database.into(),
            body,
        })
    }

    /// The collection that the command names, if any.
    pub(crate) fn namespace(&self) -> Option<Namespace> {
        Namespace::of_command(&self.database, self.body.get(&self.name)).ok()
    }

    /// Returns `true` for a command of a multi-document transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction.is_some_and(|transaction| transaction.multi_document)
    }
}

/// Reads `maxTimeMS`: a whole number in the range of an int. 0 means no limit.
fn max_time(body: &Document) -> Result<Option<Duration>, Fault> {
    let out_of_range = |value: &dyn std::fmt::Display| {
        bad_value(format!("{value} value for maxTimeMS is out of range"))
    };
    let milliseconds = match body.get("maxTimeMS") {
        None | Some(Bson::Null) => return Ok(None),
        Some(Bson::Int32(value)) => i64::from(*value),
        Some(Bson::Int64(value)) => *value,
        Some(Bson::Double(value)) if value.fract() != 0.0 || !value.is_finite() => {
            return Err(bad_value("maxTimeMS has non-integral value"));
        }
        Some(Bson::Double(value)) => {
            #[expect(clippy::cast_possible_truncation)] // saturates, and is then out of range
            let whole = *value as i64;
            whole
        }
        Some(_) => return Err(bad_value("maxTimeMS must be a number")),
    };
    let fitting = i32::try_from(milliseconds).map_err(|_| out_of_range(&milliseconds))?;
    let fitting = u64::try_from(fitting).map_err(|_| out_of_range(&milliseconds))?;
    Ok((fitting > 0).then(|| Duration::from_millis(fitting)))
}

fn secondary_ok(body: &Document) -> Result<bool, Fault> {
    let preference = match body.get("$readPreference") {
        None => return Ok(false),
        Some(Bson::Document(preference)) => preference,
        Some(other) => {
            return Err(Fault::type_mismatch(format!(
                "$readPreference has incorrect type: expected object but got {}",
                type_name(other)
            )));
        }
    };
    match preference.get("mode") {
        Some(Bson::String(mode)) => match mode.as_str() {
            "primary" => match preference.get_array("tags") {
                Ok(tags)
                    if tags.iter().any(|set| set.as_document().is_none_or(|it| !it.is_empty())) =>
                {
                    Err(bad_value("Only empty tags are allowed with primary read preference"))
                }
                _ => Ok(false),
            },
            "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest" => Ok(true),
            other => Err(bad_value(format!(
                "Could not parse $readPreference mode '{other}'. Only the modes 'primary', \
                 'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are \
                 supported. :: caused by :: Enumeration value '{other}' for field 'mode' is not a \
                 valid value."
            ))),
        },
        Some(other) => Err(Fault::type_mismatch(format!(
            "BSON field '$readPreference.mode' is the wrong type '{}', expected type 'string'",
            type_name(other)
        ))),
        None => Err(Fault::location(
            40414,
            "BSON field '$readPreference.mode' is missing but a required field",
        )),
    }
}

fn cluster_time(body: &Document) -> Result<Option<Timestamp>, Fault> {
    let missing = |field| {
        let code = Code::named(4, "NoSuchKey");
        Fault::new(code, format!("Missing expected field \"{field}\""))
    };
    match body.get("$clusterTime") {
        None => Ok(None),
        Some(Bson::Document(time)) => match time.get("clusterTime") {
            Some(Bson::Timestamp(_)) if !time.contains_key("signature") => {
                Err(missing("signature"))
            }
            Some(Bson::Timestamp(time)) => Ok(Some(*time)),
            Some(other) => Err(Fault::type_mismatch(format!(
                "\"clusterTime\" had the wrong type. Expected timestamp, found {}",
                type_name(other)
            ))),
            None => Err(missing("clusterTime")),
        },
        Some(_) => {
            Err(Fault::location(10065, "invalid parameter: expected an object ($clusterTime)"))
        }
    }
}

pub(crate) fn api_strict(body: &Document) -> Result<bool, Fault> {
    let wrong = |field, value, expected| {
        Fault::type_mismatch(format!(
            "BSON field 'APIParametersFromClient.{field}' is the wrong type '{}', expected type \
             '{expected}'",
            type_name(value)
        ))
    };
    let flag = |field| match body.get(field) {
        None => Ok(None),
        Some(Bson::Boolean(flag)) => Ok(Some(*flag)),
        Some(other) => Err(wrong(field, other, "bool")),
    };
    let (strict, deprecation) = (flag("apiStrict")?, flag("apiDeprecationErrors")?);
    match body.get("apiVersion") {
        None if strict.is_some() || deprecation.is_some() => Err(Fault::location(
            4_886_600,
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
        )),
        None => Ok(false),
        Some(Bson::String(version)) if version == "1" => Ok(strict.unwrap_or(false)),
        Some(Bson::String(version)) => {
            Err(Fault::new(Code::API_VERSION_ERROR, format!("Cannot accept API version {version}")))
        }
        Some(other) => Err(wrong("apiVersion", other, "string")),
    }
}

fn bad_value(message: impl Into<String>) -> Fault {
    Fault::bad_value(message)
}
