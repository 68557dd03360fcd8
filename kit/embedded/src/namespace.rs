//! Namespaces: database and collection names.

use std::fmt;

use bson::Bson;
use steadfast_query::{Code, Fault, value};

/// `database.collection`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Namespace {
    pub(crate) database: String,
    pub(crate) collection: String,
}

impl Namespace {
    pub(crate) fn new(database: impl Into<String>, collection: impl Into<String>) -> Self {
        Self { database: database.into(), collection: collection.into() }
    }

    /// Namespace of a command, from its first argument.
    pub(crate) fn of_command(database: &str, argument: Option<&Bson>) -> Result<Self, Fault> {
        match argument {
            Some(Bson::String(name)) => Self::named(database, name),
            other => {
                let type_name = other.map_or("missing", value::type_name);
                Err(Fault::bad_value(format!("collection name has invalid type {type_name}")))
            }
        }
    }

    /// Namespace of `find`.
    pub(crate) fn of_find(database: &str, argument: Option<&Bson>) -> Result<Self, Fault> {
        Self::of_command(database, argument).map_err(|fault| match argument {
            Some(Bson::String(_)) => fault,
            _ => Fault::new(Code::INVALID_NAMESPACE, fault.message),
        })
    }

    /// Checks both names.
    pub(crate) fn named(database: &str, collection: &str) -> Result<Self, Fault> {
        let invalid = |message: String| Err(Fault::new(Code::INVALID_NAMESPACE, message));
        if collection.contains('\0') {
            return invalid("namespaces cannot have embedded null characters".to_owned());
        }
        if collection.starts_with('.') {
            return invalid(format!("Collection names cannot start with '.': {collection}"));
        }
        if collection.is_empty() || !is_database(database) {
            return invalid(format!("Invalid namespace specified '{database}.{collection}'"));
        }
        Ok(Self::new(database, collection))
    }

    /// Namespace of a command that writes.
    pub(crate) fn to_write(database: &str, argument: Option<&Bson>) -> Result<Self, Fault> {
        let namespace = Self::of_command(database, argument)?;
        namespace.check_writable()?;
        Ok(namespace)
    }

    /// Checks that a collection with this name can be written or created.
    pub(crate) fn check_writable(&self) -> Result<(), Fault> {
        let invalid = |message: String| Err(Fault::new(Code::INVALID_NAMESPACE, message));
        let name = self.collection.as_str();
        if name.contains('$') {
            return invalid(format!("Invalid collection name: {name}"));
        }
        if matches!(name, "system.profile" | "system.views") {
            return invalid(format!("cannot write to {self}"));
        }
        if let Some(system) = name.strip_prefix("system.")
            && !matches!(system, "users" | "roles" | "version" | "js" | "buckets")
        {
            return invalid(format!("Invalid system namespace: {self}"));
        }
        if self.database.len() + 1 + name.len() > MAX_NAMESPACE_BYTES {
            return invalid(format!(
                "Fully qualified namespace is too long. Namespace: {self} Max: {MAX_NAMESPACE_BYTES}"
            ));
        }
        Ok(())
    }
}

/// Maximum length of a namespace in bytes.
const MAX_NAMESPACE_BYTES: usize = 255;

/// Returns `true` for a valid database name.
fn is_database(name: &str) -> bool {
    !name.is_empty() && name.len() < 64 && !name.contains(['/', '\\', '.', ' ', '"', '$', '\0'])
        || name == "$external"
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}
