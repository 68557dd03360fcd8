//! Arguments of an operation. Each is taken once; an argument that is not taken is an error.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value::Error},
    forward_to_deserialize_any,
};
use steadfast::options::TimeoutMode;

use crate::unified::{
    entities::{Entities, SessionInUse},
    test_error::{TestError, TestResult},
};

/// Arguments of an operation that are not taken yet.
#[derive(Debug)]
pub(super) struct Arguments {
    operation: String,
    given: Document,
    session: Option<SessionInUse>,
}

impl Arguments {
    pub(super) fn new(operation: &str, given: Document) -> Self {
        Self { operation: operation.to_owned(), given, session: None }
    }

    /// Locks the session that the operation names.
    pub(super) async fn lock_session(&mut self, entities: &Entities) -> TestResult<()> {
        if let Some(name) = self.optional::<String>("session")? {
            self.session = Some(entities.session(&name)?.lock().await?);
        }
        Ok(())
    }

    /// Takes the session, if the operation names one.
    pub(super) fn session(&mut self) -> Option<SessionInUse> {
        self.session.take()
    }

    /// Takes a required argument.
    pub(super) fn required<T: DeserializeOwned>(&mut self, key: &str) -> TestResult<T> {
        let missing = || TestError::failed(format!("{} lacks the argument {key}", self.operation));
        let value = self.given.remove(key).ok_or_else(missing)?;
        read(key, value)
    }

    /// Takes an optional argument.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, key: &str) -> TestResult<Option<T>> {
        self.given.remove(key).map(|value| read(key, value)).transpose()
    }

    /// Returns true if the argument is given and not taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// Takes an optional argument as BSON.
    pub(super) fn bson(&mut self, key: &str) -> Option<Bson> {
        self.given.remove(key)
    }

    /// Takes `timeoutMS` of an action without options.
    pub(super) fn timeout(&mut self) -> TestResult<Option<Duration>> {
        let millis: Option<u64> = self.optional("timeoutMS")?;
        Ok(millis.map(Duration::from_millis))
    }

    /// Takes `timeoutMode`, which is not a field of options.
    pub(super) fn timeout_mode(&mut self) -> TestResult<Option<TimeoutMode>> {
        self.optional("timeoutMode")
    }

    /// Takes the given ones of these arguments.
    pub(super) fn split_off(&mut self, keys: &[&str]) -> Self {
        let taken = keys.iter().filter_map(|&key| Some((key.to_owned(), self.given.remove(key)?)));
        let taken = taken.collect();
        Self::new(&self.operation, taken)
    }

    /// Converts the remaining arguments to options of the driver. An unknown option is an error.
    pub(super) fn options<T: DeserializeOwned>(self) -> TestResult<T> {
        self.has_no_session()?;
        let known = field_names::<T>();
        match self.given.keys().find(|key| !known.contains(&key.as_str())) {
            Some(unknown) => Err(self.unknown(unknown)),
            None => read("options", Bson::Document(self.given)),
        }
    }

    /// Fails if an argument is left.
    pub(super) fn done(self) -> TestResult<()> {
        self.has_no_session()?;
        match self.given.keys().next() {
            Some(unknown) => Err(self.unknown(unknown)),
            None => Ok(()),
        }
    }

    /// Fails if the session is not taken.
    fn has_no_session(&self) -> TestResult<()> {
        match &self.session {
            Some(_) => Err(TestError::failed(format!("{} takes no session", self.operation))),
            None => Ok(()),
        }
    }

    fn unknown(&self, key: &str) -> TestError {
        match key {
            "rawData" => {
                TestError::needs("rawData, an internal option that drivers should leave out")
            }
            "encryptedFields" => TestError::needs("client-side encryption"),
            _ => TestError::failed(format!("{} has no argument {key}", self.operation)),
        }
    }
}

fn read<T: DeserializeOwned>(key: &str, value: Bson) -> TestResult<T> {
    let shown = value.to_string();
    bson::deserialize_from_bson(value)
        .map_err(|error| TestError::failed(format!("{key}: {shown}: {error}")))
}

/// Returns the field names of a struct for deserialization.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Always fails, after it has recorded the names.
    let _ = T::deserialize(FieldNameProbe(&mut names));
    names
}

/// Deserializer that records the field names of a struct.
struct FieldNameProbe<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNameProbe<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only field names are recorded"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("only a struct has fields"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use steadfast::options::FindOptions;

    use super::*;

    #[test]
    fn unknown_and_unsupported_options_are_errors() {
        let mut arguments =
            Arguments::new("find", doc! { "filter": {}, "batchSize": 2, "let": {} });
        assert_eq!(arguments.required::<Document>("filter"), Ok(doc! {}));
        let options: FindOptions = arguments.options().unwrap();
        assert_eq!((options.batch_size, options.let_vars), (Some(2), Some(doc! {})));
        let arguments = Arguments::new("find", doc! { "batch_size": 2 });
        assert!(matches!(arguments.options::<FindOptions>(), Err(TestError::Failed(_))));
        let arguments = Arguments::new("find", doc! { "rawData": true });
        assert!(matches!(arguments.options::<FindOptions>(), Err(TestError::Unsupported(_))));
    }

    #[test]
    fn timeout_and_timeout_mode_are_taken() {
        let given = doc! { "timeoutMS": 2, "timeoutMode": "iteration" };
        let mut arguments = Arguments::new("find", given);
        assert_eq!(arguments.timeout_mode(), Ok(Some(TimeoutMode::Iteration)));
        let options: FindOptions = arguments.options().unwrap();
        assert_eq!(options.timeout, Some(Duration::from_millis(2)));
        let arguments = Arguments::new("find", doc! { "timeoutMode": "iteration" });
        assert!(arguments.options::<FindOptions>().is_err(), "timeoutMode is not ignored");
    }

    #[test]
    fn split_off_takes_only_the_named_arguments() {
        let mut arguments = Arguments::new("createIndex", doc! { "timeoutMS": 2, "name": "a" });
        let split_off: FindOptions =
            arguments.split_off(&["timeoutMS", "maxTimeMS"]).options().unwrap();
        assert_eq!(split_off.timeout, Some(Duration::from_millis(2)));
        assert_eq!(arguments.required::<String>("name"), Ok("a".to_owned()));
        assert!(arguments.done().is_ok());
    }
}
