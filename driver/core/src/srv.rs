//! SRV and TXT records of `mongodb+srv` connection strings, without DNS lookups.
//!
//! [`SrvName`] is the name of the query and verifies hosts. [`SrvAnswer`] contains the records of
//! the initial lookup, and [`SrvPoll`] the result of a later one.

mod poll;

use std::{fmt, time::Duration};

pub use self::poll::SrvPoll;
use crate::address::ServerAddress;

/// Default of `srvServiceName`.
const DEFAULT_SERVICE: &str = "mongodb";

/// Reserved top-level domains. Their subdomains cannot be registered by others.
const RESERVED_TOP_LEVEL: &[&str] =
    &["example", "internal", "invalid", "local", "localhost", "test"];

/// DNS name of a `mongodb+srv` connection string, and the domain that its hosts must belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvName {
    host: String,
    service: String,
    domain: String,
}

/// Records of the initial DNS lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrvAnswer {
    /// SRV records of [`SrvName::query`].
    pub hosts: Vec<SrvRecord>,
    /// TXT records of [`SrvName::host`].
    pub txt: Vec<TxtRecord>,
}

/// An SRV record. Priority and weight are not used by MongoDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvRecord {
    /// Host name.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Time to live.
    pub ttl: Duration,
}

/// A TXT record: its strings are concatenated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxtRecord {
    /// Strings in their order.
    pub strings: Vec<Vec<u8>>,
}

/// Error of SRV or TXT records, or of the options for their query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SrvError {
    /// There are no SRV records.
    #[error("no SRV records found for {0}; check the DNS name and srvServiceName")]
    NoRecords(String),
    /// A host does not belong to the required domain.
    #[error(
        "the SRV record of {name} has the host \"{host}\", which is outside of the domain {domain}"
    )]
    OutsideDomain {
        /// DNS name of the query.
        name: String,
        /// Host of the record.
        host: String,
        /// Required domain.
        domain: String,
    },
    /// A host or port is not a server address.
    #[error("the SRV record has the host \"{0}\", which is not a server address")]
    InvalidHost(String),
    /// There is more than one TXT record.
    #[error("the connection string's host has more than one TXT record; only one is allowed")]
    SeveralTxtRecords,
    /// The TXT record is not a list of options.
    #[error("the TXT record of the connection string's host is not a list of name=value options")]
    MalformedTxt,
    /// The TXT record contains an option that is not allowed.
    #[error("a TXT record may only set authSource, replicaSet and loadBalanced")]
    ForbiddenTxtOption,
    /// `srvServiceName` is not a service name.
    #[error(
        "invalid srvServiceName; it must have at most 62 letters, digits and single hyphens, at \
         least one letter, and no hyphen at either end"
    )]
    InvalidService,
    /// `srvAllowedHostsSuffix` is not a domain of a single owner.
    #[error("srvAllowedHostsSuffix must be a domain below a top-level domain")]
    InvalidSuffix,
}

impl SrvName {
    /// Creates the name for a host, with the values of `srvServiceName` and
    /// `srvAllowedHostsSuffix`.
    ///
    /// # Errors
    ///
    /// An error if the service name or the suffix is invalid.
    pub fn new(host: &str, service: Option<&str>, suffix: Option<&str>) -> Result<Self, SrvError> {
        let host = normalized(host);
        let service = service_name(service.unwrap_or(DEFAULT_SERVICE))?.to_owned();
        let domain = match suffix {
            Some(suffix) => allowed_suffix(suffix)?,
            None => parent_domain(&host).to_owned(),
        };
        Ok(Self { host, service, domain })
    }

    /// Returns the host of the connection string, which is also the name of the TXT record.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the name of the SRV query.
    pub fn query(&self) -> String {
        format!("_{}._tcp.{}", self.service, self.host)
    }

    /// Returns the address of a record if it belongs to the required domain. The host must have a
    /// label in front of the domain, so a DNS name with one or two labels is never its own host.
    ///
    /// # Errors
    ///
    /// An error if the host is outside of the domain, or not a server address.
    pub fn verify(&self, record: &SrvRecord) -> Result<ServerAddress, SrvError> {
        let host = normalized(&record.host);
        let in_domain = host
            .strip_suffix(&self.domain)
            .and_then(|rest| rest.strip_suffix('.'))
            .is_some_and(|rest| !rest.is_empty());
        if !in_domain {
            return Err(SrvError::OutsideDomain {
                name: self.host.clone(),
                host,
                domain: self.domain.clone(),
            });
        }
        match ServerAddress::parse(format!("{host}:{}", record.port)) {
            Ok(address) => Ok(address),
            Err(_) => Err(SrvError::InvalidHost(host)),
        }
    }

    /// Returns the addresses of all records without duplicates. One invalid record is an error.
    pub(crate) fn verify_all(&self, records: &[SrvRecord]) -> Result<Vec<ServerAddress>, SrvError> {
        if records.is_empty() {
            return Err(SrvError::NoRecords(self.query()));
        }
        let mut hosts = Vec::with_capacity(records.len());
        for record in records {
            let host = self.verify(record)?;
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        Ok(hosts)
    }
}

impl fmt::Display for SrvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)
    }
}

impl SrvAnswer {
    /// Returns the options of the TXT record: names in lower case, values as written.
    pub(crate) fn txt_options(&self) -> Result<Vec<(String, String)>, SrvError> {
        let record = match self.txt.as_slice() {
            [] => return Ok(Vec::new()),
            [record] => record,
            _ => return Err(SrvError::SeveralTxtRecords),
        };
        let text =
            String::from_utf8(record.strings.concat()).map_err(|_| SrvError::MalformedTxt)?;
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(SrvError::MalformedTxt)?;
            Ok((name.to_ascii_lowercase(), value.to_owned()))
        });
        pairs.collect()
    }
}

/// Selects at most `limit` hosts with a partial Fisher-Yates shuffle (`srvMaxHosts`). Zero means
/// all. `random_below(n)` must return a random number from 0 to n-1.
pub fn limit_hosts<T>(
    mut hosts: Vec<T>,
    limit: u32,
    random_below: impl FnMut(usize) -> usize,
) -> Vec<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 || limit >= hosts.len() {
        return hosts;
    }
    shuffle(&mut hosts, limit, random_below);
    hosts.truncate(limit);
    hosts
}

/// Moves `count` random items to the front.
fn shuffle<T>(items: &mut [T], count: usize, mut random_below: impl FnMut(usize) -> usize) {
    for position in 0..count {
        let left = items.len() - position;
        items.swap(position, position + random_below(left) % left);
    }
}

/// Returns the domain that hosts must belong to: without its first label for three or more labels,
/// else the whole name.
fn parent_domain(host: &str) -> &str {
    match host.split_once('.') {
        Some((_, parent)) if parent.contains('.') => parent,
        _ => host,
    }
}

/// Returns a host name in lower case and without a trailing dot.
fn normalized(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Validates a service name by section 5.1 of RFC 6335, with the length limit of DNS.
pub(crate) fn service_name(name: &str) -> Result<&str, SrvError> {
    let valid = (1..=62).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name.split('-').all(|part| !part.is_empty());
    if valid { Ok(name) } else { Err(SrvError::InvalidService) }
}

/// Validates the value of `srvAllowedHostsSuffix` and removes leading and trailing dots. A public
/// suffix would allow any host, so a top-level domain is rejected.
pub(crate) fn allowed_suffix(suffix: &str) -> Result<String, SrvError> {
    let domain = normalized(suffix.strip_prefix('.').unwrap_or(suffix));
    let well_formed = domain.split('.').all(|part| !part.is_empty())
        && !domain.contains(['/', ':', '\0'])
        && !domain.contains(char::is_whitespace);
    let owned = domain.contains('.') || RESERVED_TOP_LEVEL.contains(&domain.as_str());
    if well_formed && owned { Ok(domain) } else { Err(SrvError::InvalidSuffix) }
}

#[cfg(test)]
mod tests;
