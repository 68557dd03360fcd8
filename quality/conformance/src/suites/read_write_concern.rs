//! Read and write concerns: in connection strings, as documents, in commands, and in the errors of servers.

use bson::{Bson, Document};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    connection_string::ConnectionString,
};

use super::parsed_uri::{check_options, equal};
use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "read_write_concern", load };

const WRITE_CONCERN_ERRORS: &str = "write-concern-errors";

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = load_cases(context, "connection-string", ConcernUriCase::check)?;
    cases.extend(load_cases(context, "document", DocumentCase::check)?);
    cases.extend(unified::cases(context, SUITE.name, &["operation"])?);
    // Only PyMongo's edition has this folder.
    if context.spec.suite_dir(SUITE.name)?.join(WRITE_CONCERN_ERRORS).is_dir() {
        cases.extend(unified::cases(context, SUITE.name, &[WRITE_CONCERN_ERRORS])?);
    }
    Ok(cases)
}

#[derive(Deserialize)]
struct ConcernFile<C> {
    tests: Vec<DescribedCase<C>>,
}

#[derive(Deserialize)]
struct DescribedCase<C> {
    description: String,
    #[serde(flatten)]
    case: C,
}

fn load_cases<C: DeserializeOwned + Send + 'static>(
    context: &Context,
    folder: &str,
    check: fn(&C) -> Result<(), String>,
) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files_in(SUITE.name, &[folder])? {
        let parsed: ConcernFile<C> = file.json()?;
        cases.extend(parsed.tests.into_iter().map(|DescribedCase { description, case }| {
            Case::new(file.name.clone(), description, move || check(&case))
        }));
    }
    Ok(cases)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConcernUriCase {
    uri: String,
    valid: bool,
    warning: Option<bool>,
    read_concern: Option<Map<String, Value>>,
    write_concern: Option<Map<String, Value>>,
}

impl ConcernUriCase {
    fn check(&self) -> Result<(), String> {
        match (ConnectionString::parse(&self.uri), self.valid) {
            (Ok(parsed), true) => self.compare(&parsed),
            (Err(error), true) => Err(format!("rejected: {error}")),
            (Err(_), false) => Ok(()),
            // `uri_options` expects an invalid value to be ignored with a warning (`wTimeoutMS=-2`). This suite says
            // nothing about a warning. The value must have no effect.
            (Ok(parsed), false) if self.warning.is_none() && !parsed.warnings.is_empty() => {
                equal("an invalid write concern", parsed.write_concern, None)
            }
            (Ok(_), false) => Err("was not rejected".to_owned()),
        }
    }

    fn compare(&self, parsed: &ConnectionString) -> Result<(), String> {
        equal("warned", !parsed.warnings.is_empty(), self.warning.unwrap_or(false))?;
        if let Some(expected) = &self.read_concern {
            equal("a read concern", parsed.read_concern.is_some(), !expected.is_empty())?;
            check_options(parsed, &renamed(expected, "level", "readConcernLevel"))?;
        }
        if let Some(expected) = &self.write_concern {
            equal("a write concern", parsed.write_concern.is_some(), !expected.is_empty())?;
            check_options(parsed, expected)?;
        }
        Ok(())
    }
}

fn renamed(map: &Map<String, Value>, old: &str, new: &str) -> Map<String, Value> {
    let rename = |name: &String| if name == old { new.to_owned() } else { name.clone() };
    map.iter().map(|(name, value)| (rename(name), value.clone())).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentCase {
    valid: bool,
    read_concern: Option<Value>,
    read_concern_document: Option<Value>,
    write_concern: Option<Value>,
    write_concern_document: Option<Value>,
    is_server_default: Option<bool>,
    is_acknowledged: Option<bool>,
}

impl DocumentCase {
    fn check(&self) -> Result<(), String> {
        match (&self.read_concern, &self.write_concern) {
            (Some(concern), None) => self.check_read_concern(concern),
            (None, Some(concern)) => self.check_write_concern(concern),
            _ => Err("the case has neither a read concern nor a write concern".to_owned()),
        }
    }

    fn check_read_concern(&self, written: &Value) -> Result<(), String> {
        // A client without a read concern sends none.
        let concern: Option<ReadConcern> = match written {
            Value::Object(fields) if fields.is_empty() => None,
            fields => Some(read(fields)?),
        };
        equal("the server's default", Some(concern.is_none()), self.is_server_default)?;
        let document = concern.as_ref().map(ReadConcern::to_document).unwrap_or_default();
        equal("the document", Some(plain(document)), self.read_concern_document.clone())?;
        equal("valid", true, self.valid)
    }

    fn check_write_concern(&self, written: &Value) -> Result<(), String> {
        let concern = match (read::<WriteConcern>(written), self.valid) {
            (Ok(concern), _) => concern,
            (Err(_), false) => return Ok(()),
            (Err(error), true) => return Err(error),
        };
        equal("valid", concern.validate().is_ok(), self.valid)?;
        if let Some(expected) = self.is_server_default {
            equal("the server's default", concern.is_empty(), expected)?;
        }
        if let Some(expected) = self.is_acknowledged {
            equal("acknowledged", concern.is_acknowledged(), expected)?;
        }
        if let Some(expected) = &self.write_concern_document {
            equal("the document", &plain(concern.to_document()), expected)?;
            let serialized = bson::serialize_to_document(&concern).map_err(|e| e.to_string())?;
            equal("the serialized document", &plain(serialized), expected)?;
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

fn plain(document: Document) -> Value {
    json!(Bson::Document(document).into_relaxed_extjson())
}
