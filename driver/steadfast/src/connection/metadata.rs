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

/// Maximum size of the document.
const MAX_BYTES: usize = 512;
/// Maximum length of `appName`.
const MAX_APP_NAME_BYTES: usize = 128;
/// Separates the names of the driver and of wrapping libraries.
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
    current: RwLock<CurrentMetadata>,
}

/// Metadata that does not change during the life of the client.
#[derive(Debug)]
struct Facts {
    app_name: Option<String>,
    os: Os,
    environment: Environment,
}

#[derive(Debug)]
struct CurrentMetadata {
    wrappers: Vec<Wrapper>,
    document: RawDocumentBuf,
}

impl Metadata {
    /// Creates the metadata of this process. Returns an error if `app_name` or `wrapper` is
    /// invalid.
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
        Ok(Self { facts, current: RwLock::new(CurrentMetadata { wrappers, document }) })
    }

    /// Appends a wrapping library, unless it is there already.
    pub(crate) fn append(&self, info: &DriverInfo) -> Result<()> {
        let wrapper = Wrapper::parse(info)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.wrappers.contains(&wrapper) {
            return Ok(());
        }
        let mut wrappers = current.wrappers.clone();
        wrappers.push(wrapper);
        let document = self.facts.document(&wrappers)?;
        *current = CurrentMetadata { wrappers, document };
        Ok(())
    }

    /// Returns the document for `hello` (`client`).
    pub(crate) fn document(&self) -> RawDocumentBuf {
        self.current.read().unwrap_or_else(PoisonError::into_inner).document.clone()
    }
}

/// Wrapping library. Unset fields are empty strings, so that equal metadata is sent once.
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
    /// Builds the document, reduced in the order of the specification until it fits.
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

/// Returns the longest prefix of whole characters that fits.
fn truncated(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
