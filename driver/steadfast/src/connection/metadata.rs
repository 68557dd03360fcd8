//! Client metadata of the handshake: application, driver, operating system, platform and
//! environment.
//!
//! Servers write it to their logs and keep it for each connection. They accept 512 bytes. Fields
//! are omitted in the order of the handshake specification until it fits.

mod environment;
mod os;
#[cfg(test)]
mod tests;

use std::sync::{PoisonError, RwLock};

use bson::{RawDocumentBuf, raw::cstr};

use self::{
    environment::{Environment, Function},
    os::Os,
};
use crate::{
    error::{Error, Result},
    options::DriverInfo,
};

/// The largest document that a server takes.
const MAX_BYTES: usize = 512;
/// The longest name of an application that a server takes.
const MAX_APP_NAME_BYTES: usize = 128;
/// Stands between the driver's name and those of the libraries on top of it.
const DELIMITER: char = '|';

const NAME: &str = "steadfast";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const PLATFORM: &str = "Rust, tokio";

/// Returns `true` in a function-as-a-service environment. Such processes are suspended between
/// calls, so monitors poll instead of streaming.
pub(crate) fn runs_as_a_function() -> bool {
    Function::detect(&environment::variable).is_some()
}

/// Client metadata. Libraries on top of the driver can append to it.
#[derive(Debug)]
pub(crate) struct Metadata {
    facts: Facts,
    told: RwLock<Told>,
}

/// Metadata that does not change during the life of the client.
#[derive(Debug)]
struct Facts {
    app_name: Option<String>,
    os: Os,
    environment: Environment,
}

#[derive(Debug)]
struct Told {
    wrappers: Vec<Wrapper>,
    document: RawDocumentBuf,
}

impl Metadata {
    /// Of this process. An error if the application's name, or the library's, cannot be told.
    pub(crate) fn new(app_name: Option<&str>, wrapper: Option<&DriverInfo>) -> Result<Self> {
        Self::of(app_name, wrapper, Os::of_this_machine().clone(), Environment::of_this_process())
    }

    fn of(
        app_name: Option<&str>,
        wrapper: Option<&DriverInfo>,
        os: Os,
        environment: Environment,
    ) -> Result<Self> {
        let app_name = app_name.filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(length) = app_name.as_ref().map(String::len)
            && length > MAX_APP_NAME_BYTES
        {
            return Err(Error::invalid_argument(format!(
                "appName has {length} bytes; use at most {MAX_APP_NAME_BYTES}"
            )));
        }
        let facts = Facts { app_name, os, environment };
        let wrappers = Vec::from_iter(wrapper.map(Wrapper::parse).transpose()?);
        let document = facts.document(&wrappers)?;
        Ok(Self { facts, told: RwLock::new(Told { wrappers, document }) })
    }

    /// Adds a library on top of those that are there, unless it is there already.
    pub(crate) fn append(&self, info: &DriverInfo) -> Result<()> {
        let wrapper = Wrapper::parse(info)?;
        let mut told = self.told.write().unwrap_or_else(PoisonError::into_inner);
        if told.wrappers.contains(&wrapper) {
            return Ok(());
        }
        let mut wrappers = told.wrappers.clone();
        wrappers.push(wrapper);
        let document = self.facts.document(&wrappers)?;
        *told = Told { wrappers, document };
        Ok(())
    }

    /// The document to say hello with.
    pub(crate) fn document(&self) -> RawDocumentBuf {
        self.told.read().unwrap_or_else(PoisonError::into_inner).document.clone()
    }
}

/// A library on top of the driver; what is not set is empty, so that equal is what is told equally.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wrapper {
    name: String,
    version: String,
    platform: String,
}

impl Wrapper {
    fn parse(info: &DriverInfo) -> Result<Self> {
        let wrapper = Self {
            name: info.name.clone(),
            version: info.version.clone().unwrap_or_default(),
            platform: info.platform.clone().unwrap_or_default(),
        };
        for text in [&wrapper.name, &wrapper.version, &wrapper.platform] {
            if text.contains(DELIMITER) {
                return Err(Error::invalid_argument(format!(
                    "driver info {text:?} contains the delimiter {DELIMITER:?}"
                )));
            }
        }
        Ok(wrapper)
    }
}

/// Level of detail. Each level omits more than the one before.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Detail {
    Everything,
    EnvironmentByName,
    OsByType,
    NoEnvironment,
}

impl Facts {
    /// The document, cut down in the specification's order until it fits.
    fn document(&self, wrappers: &[Wrapper]) -> Result<RawDocumentBuf> {
        let platform = joined(PLATFORM, wrappers.iter().map(|wrapper| &wrapper.platform));
        let mut document = RawDocumentBuf::new();
        for detail in
            [Detail::Everything, Detail::EnvironmentByName, Detail::OsByType, Detail::NoEnvironment]
        {
            document = self.build(wrappers, &platform, detail);
            if document.as_bytes().len() <= MAX_BYTES {
                return Ok(document);
            }
        }
        let excess = document.as_bytes().len() - MAX_BYTES;
        let shorter = truncated(&platform, platform.len().saturating_sub(excess));
        let document = self.build(wrappers, shorter, Detail::NoEnvironment);
        if document.as_bytes().len() <= MAX_BYTES {
            return Ok(document);
        }
        Err(Error::invalid_argument(format!(
            "driver info is too long; the client metadata must not exceed {MAX_BYTES} bytes"
        )))
    }

    fn build(&self, wrappers: &[Wrapper], platform: &str, detail: Detail) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        if let Some(name) = &self.app_name {
            let mut application = RawDocumentBuf::new();
            application.append(cstr!("name"), name.as_str());
            document.append(cstr!("application"), application);
        }
        let mut driver = RawDocumentBuf::new();
        driver.append(cstr!("name"), joined(NAME, wrappers.iter().map(|w| &w.name)));
        driver.append(cstr!("version"), joined(VERSION, wrappers.iter().map(|w| &w.version)));
        document.append(cstr!("driver"), driver);
        document.append(cstr!("os"), self.os.document(detail < Detail::OsByType));
        if !platform.is_empty() {
            document.append(cstr!("platform"), platform);
        }
        if detail < Detail::NoEnvironment
            && let Some(env) = self.environment.document(detail < Detail::EnvironmentByName)
        {
            document.append(cstr!("env"), env);
        }
        document
    }
}

fn joined<'a>(ours: &str, theirs: impl Iterator<Item = &'a String>) -> String {
    let mut text = ours.to_owned();
    for addition in theirs.filter(|addition| !addition.is_empty()) {
        text.push(DELIMITER);
        text.push_str(addition);
    }
    text
}

/// As much of the text as fits, in whole characters.
fn truncated(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
