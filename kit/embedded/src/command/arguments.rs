//! Strict parsing of command arguments with the errors of a server.

use bson::{Bson, Document};
use steadfast_query::{Code, Fault, value::type_name};

use super::super::call::Call;

/// Arguments of a command, or of a document within one.
#[derive(Clone, Debug)]
pub(crate) struct Arguments<'a> {
    /// Prefix of fields in errors: `find`, `collMod.index`.
    name: String,
    fields: &'a Document,
}

impl<'a> Arguments<'a> {
    /// Arguments of a command. Rejects fields other than these and the generic ones.
    pub(crate) fn of(call: &'a Call, name: &str, known: &[&str]) -> Result<Self, Fault> {
        Self::check(call.body.keys().skip(1), name, |key| {
            known.contains(&key) || GENERIC.contains(&key)
        })?;
        Ok(Self { name: name.to_owned(), fields: &call.body })
    }

    /// Arguments of a nested document. Rejects fields other than these.
    pub(crate) fn within(fields: &'a Document, name: &str, known: &[&str]) -> Result<Self, Fault> {
        Self::check(fields.keys(), name, |key| known.contains(&key))?;
        Ok(Self { name: name.to_owned(), fields })
    }

    fn check<'k>(
        mut keys: impl Iterator<Item = &'k String>,
        name: &str,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), Fault> {
        match keys.find(|key| !known(key)) {
            Some(key) => Err(Fault::location(
                40415,
                format!("BSON field '{name}.{key}' is an unknown field."),
            )),
            None => Ok(()),
        }
    }

    /// Rejects these fields if the client sets `apiStrict`.
    pub(crate) fn without(&self, unstable: &[&str]) -> Result<(), Fault> {
        let is_strict = self.fields.get("apiStrict").and_then(truth).unwrap_or(false);
        match self.fields.keys().find(|key| is_strict && unstable.contains(&key.as_str())) {
            Some(key) => Err(Fault::new(
                Code::API_STRICT_ERROR,
                format!("BSON field '{}.{key}' is not allowed with apiStrict:true.", self.name),
            )),
            None => Ok(()),
        }
    }

    /// Value of a field. Null counts as missing.
    pub(crate) fn value(&self, field: &str) -> Option<&'a Bson> {
        self.fields.get(field).filter(|value| !matches!(value, Bson::Null | Bson::Undefined))
    }

    /// Value of a field, including null.
    pub(crate) fn raw(&self, field: &str) -> Option<&'a Bson> {
        self.fields.get(field)
    }

    pub(crate) fn document(&self, field: &str) -> Result<Option<&'a Document>, Fault> {
        match self.value(field) {
            None => Ok(None),
            Some(Bson::Document(document)) => Ok(Some(document)),
            Some(other) => Err(self.mistyped(field, other, "type 'object'")),
        }
    }

    pub(crate) fn array(&self, field: &str) -> Result<Option<&'a [Bson]>, Fault> {
        match self.value(field) {
            None => Ok(None),
            Some(Bson::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.mistyped(field, other, "type 'array'")),
        }
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<&'a str>, Fault> {
        match self.value(field) {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.mistyped(field, other, "type 'string'")),
        }
    }

    pub(crate) fn boolean(&self, field: &str) -> Result<bool, Fault> {
        match self.value(field) {
            None => Ok(false),
            Some(value) => truth(value).ok_or_else(|| {
                self.mistyped(field, value, "types '[bool, long, int, decimal, double']")
            }),
        }
    }

    /// Boolean field that accepts no number.
    pub(crate) fn flag(&self, field: &str) -> Result<Option<bool>, Fault> {
        match self.value(field) {
            None => Ok(None),
            Some(Bson::Boolean(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.mistyped(field, other, "type 'bool'")),
        }
    }

    /// Whole number. A fraction is truncated.
    pub(crate) fn integer(&self, field: &str) -> Result<Option<i64>, Fault> {
        match self.value(field) {
            None => Ok(None),
            Some(value) => match whole(value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.mistyped(field, value, "types '[long, int, decimal, double']")),
            },
        }
    }

    /// Whole number that is not negative.
    pub(crate) fn natural(&self, field: &str) -> Result<Option<usize>, Fault> {
        let Some(number) = self.integer(field)? else { return Ok(None) };
        match usize::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Fault::location(
                51024,
                format!("BSON field '{field}' value must be >= 0, actual value '{number}'"),
            )),
        }
    }

    /// `batchSize` within `cursor`.
    pub(crate) fn batch_size(&self) -> Result<Option<usize>, Fault> {
        match self.document("cursor")? {
            Some(cursor) => Self::within(cursor, "cursor", &["batchSize"])?.natural("batchSize"),
            None => Ok(None),
        }
    }

    /// Unwraps a required field, or returns the error that it is missing.
    pub(crate) fn required<T>(&self, field: &str, read: Option<T>) -> Result<T, Fault> {
        read.ok_or_else(|| {
            let name = &self.name;
            Fault::location(
                40414,
                format!("BSON field '{name}.{field}' is missing but a required field"),
            )
        })
    }

    /// Error of a field with a wrong type.
    pub(crate) fn mistyped(&self, field: &str, value: &Bson, expected: &str) -> Fault {
        let (name, found) = (&self.name, type_name(value));
        Fault::type_mismatch(format!(
            "BSON field '{name}.{field}' is the wrong type '{found}', expected {expected}"
        ))
    }

    /// Error of a string that is not one of the allowed values.
    pub(crate) fn unlisted(&self, field: &str, word: &str) -> Fault {
        let name = &self.name;
        Fault::bad_value(format!(
            "Enumeration value '{word}' for field '{name}.{field}' is not a valid value."
        ))
    }
}

/// Generic arguments of every command.
const GENERIC: &[&str] = &[
    "$audit",
    "$client",
    "$clusterTime",
    "$configServerState",
    "$configTime",
    "$db",
    "$oplogQueryData",
    "$queryOptions",
    "$readPreference",
    "$replData",
    "$topologyTime",
    "allowImplicitCollectionCreation",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "autocommit",
    "clientOperationKey",
    "comment",
    "coordinator",
    "databaseVersion",
    "help",
    "lsid",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "readConcern",
    "shardVersion",
    "startTransaction",
    "tracking_info",
    "txnNumber",
    "txnRetryCounter",
    "writeConcern",
];

/// Rejects a command outside of the database `admin`.
pub(crate) fn only_on_admin(call: &Call) -> Result<(), Fault> {
    if call.database == "admin" {
        return Ok(());
    }
    let name = &call.name;
    Err(Fault::new(
        Code::UNAUTHORIZED,
        format!("{name} may only be run against the admin database."),
    ))
}

/// A number without its fraction.
#[allow(clippy::cast_possible_truncation)] // a double saturates, as it does on a server
pub(crate) fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64),
        Bson::Decimal128(number) => {
            number.to_string().parse::<f64>().ok().map(|number| number as i64)
        }
        _ => None,
    }
}

/// A boolean, or a number as a boolean.
pub(crate) fn truth(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(it) => Some(*it),
        Bson::Double(number) => Some(*number != 0.0),
        other => whole(other).map(|number| number != 0),
    }
}
