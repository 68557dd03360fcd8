//! Authentication: credentials in connection strings, and mechanisms on a deployment.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::{connection_string::ConnectionString, credential::Credential};

use super::parsed_uri::equal;
use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "auth", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files_in(SUITE.name, &["legacy"])? {
        let parsed: AuthFile = file.json()?;
        cases.extend(parsed.tests.into_iter().map(|case| {
            Case::new(file.name.clone(), case.description.clone(), move || case.check())
        }));
    }
    cases.extend(unified::cases(context, SUITE.name, &["unified"])?);
    Ok(cases)
}

#[derive(Deserialize)]
struct AuthFile {
    tests: Vec<AuthCase>,
}

#[derive(Deserialize)]
struct AuthCase {
    description: String,
    uri: String,
    valid: bool,
    credential: Option<ExpectedCredential>,
}

#[derive(Deserialize)]
struct ExpectedCredential {
    username: Option<String>,
    password: Option<String>,
    source: Option<String>,
    mechanism: Option<String>,
    mechanism_properties: Option<Map<String, Value>>,
}

impl AuthCase {
    fn check(&self) -> Result<(), String> {
        match (ConnectionString::parse(&self.uri), self.valid) {
            (Err(_), false) => Ok(()),
            (Err(error), true) => Err(format!("rejected: {error}")),
            (Ok(_), false) => Err("was not rejected".to_owned()),
            (Ok(parsed), true) => match (&parsed.credential, &self.credential) {
                (Some(credential), Some(expected)) => expected.compare(credential),
                (None, None) => Ok(()),
                (actual, _) => Err(format!("unexpected credential {actual:?}")),
            },
        }
    }
}

impl ExpectedCredential {
    fn compare(&self, actual: &Credential) -> Result<(), String> {
        equal("the user name", &actual.username, &self.username)?;
        equal("the password", &actual.password, &self.password)?;
        equal("the source", &actual.source, &self.source)?;
        let mechanism = actual.mechanism.map(|mechanism| mechanism.as_str());
        equal("the mechanism", mechanism, self.mechanism.as_deref())?;
        let properties = json!(actual.mechanism_properties);
        equal("the properties", properties, json!(self.mechanism_properties))
    }
}
