//! The arguments of an operation: taken one by one, until none is left.

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
    stop::{Step, Stop},
};

/// The arguments of an operation that were not taken yet.
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

    /// Finds the session that the operation is to run in, if it names one.
    pub(super) async fn find_session(&mut self, entities: &Entities) -> Step<()> {
        if let Some(name) = self.optional::<String>("session")? {
            self.session = Some(entities.session(&name)?.take().await?);
        }
        Ok(())
    }

    /// Takes the session to run in, if there is one.
    pub(super) fn session(&mut self) -> Option<SessionInUse> {
        self.session.take()
    }

    /// Takes an argument that must be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, key: &str) -> Step<T> {
        let missing = || Stop::failed(format!("{} lacks the argument {key}", self.operation));
        let value = self.given.remove(key).ok_or_else(missing)?;
        read(key, value)
    }

    /// Takes an argument that may be there.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, key: &str) -> Step<Option<T>> {
        self.given.remove(key).map(|value| read(key, value)).transpose()
    }

    /// Whether an argument is there, not taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// Takes the argument as it is.
    pub(super) fn bson(&mut self, key: &str) -> Option<Bson> {
        self.given.remove(key)
    }

    /// Takes the time limit, where there are no options to read it.
    pub(super) fn timeout(&mut self) -> Step<Option<Duration>> {
        let millis: Option<u64> = self.optional("timeoutMS")?;
        Ok(millis.map(Duration::from_millis))
    }

    /// Takes what the time limit is for, which options do not read.
    pub(super) fn timeout_mode(&mut self) -> Step<Option<TimeoutMode>> {
        self.optional("timeoutMode")
    }

    /// Those of these arguments that there are, apart from the others.
    pub(super) fn apart(&mut self, keys: &[&str]) -> Self {
        let taken = keys.iter().filter_map(|&key| Some((key.to_owned(), self.given.remove(key)?)));
        let taken = taken.collect();
        Self::new(&self.operation, taken)
    }

    /// All that is left, as options of the driver. One that these do not have is an error: it must
    /// not be passed over.
    pub(super) fn options<T: DeserializeOwned>(self) -> Step<T> {
        self.has_no_session()?;
        let known = field_names::<T>();
        match self.given.keys().find(|key| !known.contains(&key.as_str())) {
            Some(unknown) => Err(self.unknown(unknown)),
            None => read("options", Bson::Document(self.given)),
        }
    }

    /// There is nothing left.
    pub(super) fn done(self) -> Step<()> {
        self.has_no_session()?;
        match self.given.keys().next() {
            Some(unknown) => Err(self.unknown(unknown)),
            None => Ok(()),
        }
    }

    /// A session must not be passed over either.
    fn has_no_session(&self) -> Step<()> {
        match &self.session {
            Some(_) => Err(Stop::failed(format!("{} takes no session", self.operation))),
            None => Ok(()),
        }
    }

    fn unknown(&self, key: &str) -> Stop {
        match key {
            "rawData" => Stop::needs("rawData, an internal option that drivers should leave out"),
            "encryptedFields" => Stop::needs("client-side encryption"),
            _ => Stop::failed(format!("{} knows no argument {key}", self.operation)),
        }
    }
}

fn read<T: DeserializeOwned>(key: &str, value: Bson) -> Step<T> {
    let shown = value.to_string();
    bson::deserialize_from_bson(value)
        .map_err(|error| Stop::failed(format!("{key}: {shown}: {error}")))
}

/// The names of a struct's fields, as it is deserialised.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It fails, having told the names.
    let _ = T::deserialize(Asked(&mut names));
    names
}

/// Is asked for a struct and notes which fields it is asked for.
struct Asked<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only its fields were asked for"))
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
    fn options_are_taken_and_unknown_ones_noticed() {
        let mut arguments =
            Arguments::new("find", doc! { "filter": {}, "batchSize": 2, "let": {} });
        assert_eq!(arguments.required::<Document>("filter"), Ok(doc! {}));
        let options: FindOptions = arguments.options().unwrap();
        assert_eq!((options.batch_size, options.let_vars), (Some(2), Some(doc! {})));
        let arguments = Arguments::new("find", doc! { "batch_size": 2 });
        assert!(matches!(arguments.options::<FindOptions>(), Err(Stop::Failed(_))));
        let arguments = Arguments::new("find", doc! { "rawData": true });
        assert!(matches!(arguments.options::<FindOptions>(), Err(Stop::Unsupported(_))));
    }

    #[test]
    fn time_limits_are_taken() {
        let given = doc! { "timeoutMS": 2, "timeoutMode": "iteration" };
        let mut arguments = Arguments::new("find", given);
        assert_eq!(arguments.timeout_mode(), Ok(Some(TimeoutMode::Iteration)));
        let options: FindOptions = arguments.options().unwrap();
        assert_eq!(options.timeout, Some(Duration::from_millis(2)));
        let arguments = Arguments::new("find", doc! { "timeoutMode": "iteration" });
        assert!(arguments.options::<FindOptions>().is_err(), "it is not passed over");
    }

    #[test]
    fn some_arguments_can_be_set_apart() {
        let mut arguments = Arguments::new("createIndex", doc! { "timeoutMS": 2, "name": "a" });
        let apart: FindOptions = arguments.apart(&["timeoutMS", "maxTimeMS"]).options().unwrap();
        assert_eq!(apart.timeout, Some(Duration::from_millis(2)));
        assert_eq!(arguments.required::<String>("name"), Ok("a".to_owned()));
        assert!(arguments.done().is_ok());
    }
}
