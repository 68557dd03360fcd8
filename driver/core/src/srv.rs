//! What the SRV and TXT records of a `mongodb+srv` name mean, without asking DNS for them.
//!
//! [`SrvName`] knows what to ask for and which hosts may be believed; [`SrvAnswer`] is what DNS
//! said first, and [`Renewal`] what it says later.

mod renewal;

use std::{fmt, time::Duration};

pub use self::renewal::Renewal;
use crate::address::ServerAddress;

/// The service that is asked for unless `srvServiceName` says otherwise.
const DEFAULT_SERVICE: &str = "mongodb";

/// Top-level names that nobody can register, so that a domain in them is nobody else's.
const RESERVED_TOP_LEVEL: &[&str] =
    &["example", "internal", "invalid", "local", "localhost", "test"];

/// The name behind a `mongodb+srv` connection string, and the domain its hosts must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvName {
    host: String,
    service: String,
    domain: String,
}

/// What DNS said about an [`SrvName`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrvAnswer {
    /// The SRV records of [`SrvName::query`].
    pub hosts: Vec<SrvRecord>,
    /// The TXT records of [`SrvName::host`].
    pub txt: Vec<TxtRecord>,
}

/// One host from DNS. Priority and weight mean nothing to MongoDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvRecord {
    /// The host's name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// For how long this is good.
    pub ttl: Duration,
}

/// One TXT record: strings to be read as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxtRecord {
    /// The strings, in their order.
    pub strings: Vec<Vec<u8>>,
}

/// Why what DNS said, or what was to be asked of it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SrvError {
    /// There are no hosts.
    #[error("DNS has no SRV records for {0}")]
    NoRecords(String),
    /// A host that the owner of the name did not vouch for.
    #[error("DNS names the host \"{host}\" for {name}, which is not in the domain {domain}")]
    OutsideDomain {
        /// What was asked for.
        name: String,
        /// The host.
        host: String,
        /// The domain it should be in.
        domain: String,
    },
    /// A host or port that can be no server's.
    #[error("DNS names the host \"{0}\", which is no address of a server")]
    InvalidHost(String),
    /// TXT records have no order, so there can be only one.
    #[error("DNS has more than one TXT record for the connection string's host")]
    SeveralTxtRecords,
    /// Not a list of options.
    #[error("the TXT record of the connection string's host is not a list of options")]
    MalformedTxt,
    /// DNS cannot be trusted with other options.
    #[error("a TXT record may only set authSource, replicaSet and loadBalanced")]
    ForbiddenTxtOption,
    /// Not a service's name.
    #[error(
        "srvServiceName must consist of at most 62 letters, digits and single hyphens, with at \
         least one letter and no hyphen at either end"
    )]
    InvalidService,
    /// Not a domain that could have one owner.
    #[error("srvAllowedHostsSuffix must be a domain that is not a top-level one")]
    InvalidSuffix,
}

impl SrvName {
    /// The name for a host, with the values of `srvServiceName` and `srvAllowedHostsSuffix`.
    pub fn new(host: &str, service: Option<&str>, suffix: Option<&str>) -> Result<Self, SrvError> {
        let host = normalised(host);
        let service = service_name(service.unwrap_or(DEFAULT_SERVICE))?.to_owned();
        let domain = match suffix {
            Some(suffix) => allowed_suffix(suffix)?,
            None => parent_domain(&host).to_owned(),
        };
        Ok(Self { host, service, domain })
    }

    /// The host in the connection string, which is also the name of the TXT record.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name of the SRV records.
    pub fn query(&self) -> String {
        format!("_{}._tcp.{}", self.service, self.host)
    }

    /// The address in a record, if it is in the domain that it must be in. Since that leaves at
    /// least one more part in front, a name of one or two parts never stands for itself.
    pub fn verify(&self, record: &SrvRecord) -> Result<ServerAddress, SrvError> {
        let host = normalised(&record.host);
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

    /// The addresses in all records, each once; a single wrong one spoils them all.
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
    /// The options in the TXT record, their names in lower case and their values as written.
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

/// At most `limit` of the hosts (all, if it is zero), chosen as the first steps of a Fisher-Yates
/// shuffle do. `random_below(n)` is a random number from 0 to n-1.
pub fn choose<T>(
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

/// Puts `count` of the items, chosen at random, to the front.
fn shuffle<T>(items: &mut [T], count: usize, mut random_below: impl FnMut(usize) -> usize) {
    for position in 0..count {
        let left = items.len() - position;
        items.swap(position, position + random_below(left) % left);
    }
}

/// A name of three or more parts is itself one of its domain's; a shorter one is the domain.
fn parent_domain(host: &str) -> &str {
    match host.split_once('.') {
        Some((_, parent)) if parent.contains('.') => parent,
        _ => host,
    }
}

/// Host names are compared in lower case and without the dot that ends a full one.
fn normalised(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// RFC 6335, section 5.1, but as long as DNS allows.
pub(crate) fn service_name(name: &str) -> Result<&str, SrvError> {
    let valid = (1..=62).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name.split('-').all(|part| !part.is_empty());
    if valid { Ok(name) } else { Err(SrvError::InvalidService) }
}

/// The domain that `srvAllowedHostsSuffix` names, without the dots at its ends. One that anybody
/// can register names in would allow any host.
pub(crate) fn allowed_suffix(suffix: &str) -> Result<String, SrvError> {
    let domain = normalised(suffix.strip_prefix('.').unwrap_or(suffix));
    let well_formed = domain.split('.').all(|part| !part.is_empty())
        && !domain.contains(['/', ':', '\0'])
        && !domain.contains(char::is_whitespace);
    let owned = domain.contains('.') || RESERVED_TOP_LEVEL.contains(&domain.as_str());
    if well_formed && owned { Ok(domain) } else { Err(SrvError::InvalidSuffix) }
}

#[cfg(test)]
mod tests;
