//! DNS queries for `mongodb+srv`. [`steadfast_core::srv`] validates the records.
//!
//! A [`Resolver`] queries [`Records`], the system's name servers or those of a test, with a
//! time-out.

mod system;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use steadfast_core::srv::{SrvAnswer, SrvName, SrvRecord, TxtRecord};
use tokio::time;

use self::system::SystemRecords;
use crate::error::ErrorKind;

/// Time-out for all DNS queries about a name.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Source of DNS records. A name that does not exist or has no such records gives an empty list; an
/// error means that the query failed.
pub(crate) trait Records: fmt::Debug + Send + Sync {
    /// Queries the SRV records of a name.
    fn srv<'a>(&'a self, name: &'a str) -> QueryFuture<'a, SrvRecord>;

    /// Queries the TXT records of a name.
    fn txt<'a>(&'a self, name: &'a str) -> QueryFuture<'a, TxtRecord>;
}

/// Future of a DNS query.
pub(crate) type QueryFuture<'a, R> =
    Pin<Box<dyn Future<Output = Result<Vec<R>, DnsError>> + Send + 'a>>;

/// Name servers for the SRV and TXT records of `mongodb+srv`: those of a public DNS service instead
/// of the system's. See
/// [`ParseConnectionString::resolver_config`](crate::action::ParseConnectionString::resolver_config).
///
/// ```
/// use steadfast::options::{ClientOptions, ResolverConfig};
///
/// let parse = ClientOptions::parse("mongodb+srv://cluster.example.com")
///     .resolver_config(ResolverConfig::cloudflare());
/// # drop(parse);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverConfig(PublicResolver);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublicResolver {
    Cloudflare,
    Google,
    Quad9,
}

impl ResolverConfig {
    /// Uses the name servers of [Cloudflare](https://1.1.1.1/dns).
    pub fn cloudflare() -> Self {
        Self(PublicResolver::Cloudflare)
    }

    /// Uses the name servers of [Google](https://developers.google.com/speed/public-dns).
    pub fn google() -> Self {
        Self(PublicResolver::Google)
    }

    /// Uses the name servers of [Quad9](https://quad9.net).
    pub fn quad9() -> Self {
        Self(PublicResolver::Quad9)
    }
}

/// Resolver with a time-out.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    records: Arc<dyn Records>,
    timeout: Duration,
}

impl Resolver {
    /// Creates a resolver with the name servers of the system.
    fn system() -> Result<Self, DnsError> {
        Ok(Self::new(Arc::new(SystemRecords::new()?), QUERY_TIMEOUT))
    }

    /// Creates a resolver with the given name servers. They default to those of the system.
    pub(crate) fn configured(config: Option<&ResolverConfig>) -> Result<Self, DnsError> {
        match config {
            None => Self::system(),
            Some(config) => {
                Ok(Self::new(Arc::new(SystemRecords::of_service(config)?), QUERY_TIMEOUT))
            }
        }
    }

    /// Creates a resolver with another source of records.
    pub(crate) fn new(records: Arc<dyn Records>, timeout: Duration) -> Self {
        Self { records, timeout }
    }

    /// Queries the hosts and options of a name, to parse a connection string.
    pub(crate) async fn query(&self, name: &SrvName) -> Result<SrvAnswer, DnsError> {
        let both = async {
            // Without hosts the options are not needed.
            let hosts = self.records.srv(&name.query()).await?;
            let txt = match hosts.is_empty() {
                true => Vec::new(),
                false => self.records.txt(name.host()).await?,
            };
            Ok(SrvAnswer { hosts, txt })
        };
        self.with_timeout(name, both).await
    }

    /// Queries only the hosts, for SRV polling: options are read once.
    pub(crate) async fn hosts(&self, name: &SrvName) -> Result<Vec<SrvRecord>, DnsError> {
        self.with_timeout(name, async { self.records.srv(&name.query()).await }).await
    }

    async fn with_timeout<T>(
        &self,
        name: &SrvName,
        query: impl Future<Output = Result<T, DnsError>>,
    ) -> Result<T, DnsError> {
        let waited = self.timeout;
        match time::timeout(waited, query).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(DnsError::Timeout { name: name.host().to_owned(), waited }),
        }
    }
}

/// Error of a DNS query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DnsError {
    /// No response within the time-out.
    #[error("no DNS response for {name} within {waited:?}")]
    Timeout {
        /// Queried name.
        name: String,
        /// Time waited.
        waited: Duration,
    },
    /// No name server was reachable, or each returned an error.
    #[error("the DNS lookup of {name} failed: {problem}")]
    Lookup {
        /// Queried name.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// The system's DNS settings are missing or invalid.
    #[error("the system's DNS settings cannot be used: {0}")]
    Settings(String),
}

impl From<DnsError> for ErrorKind {
    fn from(error: DnsError) -> Self {
        Self::DnsResolve { message: error.to_string() }
    }
}

#[cfg(test)]
mod tests;
