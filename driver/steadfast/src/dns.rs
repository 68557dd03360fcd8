//! Asking DNS about `mongodb+srv` names. What the answers mean is [`steadfast_core::srv`]'s to say.
//!
//! A [`Resolver`] puts the questions, within a time limit, to [`Records`]: the system's name servers,
//! or answers that a test makes up.

mod system;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use steadfast_core::srv::{SrvAnswer, SrvName, SrvRecord, TxtRecord};
use tokio::time;

use self::system::SystemRecords;
use crate::error::ErrorKind;

/// Time limit for all DNS queries about a name.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Source of DNS records. A name that does not exist or has no such records gives an empty list; an
/// error means that the query failed.
pub(crate) trait Records: fmt::Debug + Send + Sync {
    /// The SRV records of a name.
    fn srv<'a>(&'a self, name: &'a str) -> Answer<'a, SrvRecord>;

    /// The TXT records of a name.
    fn txt<'a>(&'a self, name: &'a str) -> Answer<'a, TxtRecord>;
}

/// Records to come.
pub(crate) type Answer<'a, R> = Pin<Box<dyn Future<Output = Result<Vec<R>, DnsError>> + Send + 'a>>;

/// Looks names up.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    records: Arc<dyn Records>,
    time_limit: Duration,
}

impl Resolver {
    /// The system's.
    pub(crate) fn system() -> Result<Self, DnsError> {
        Ok(Self::new(Arc::new(SystemRecords::new()?), TIME_LIMIT))
    }

    /// One that gets its records from anywhere.
    pub(crate) fn new(records: Arc<dyn Records>, time_limit: Duration) -> Self {
        Self { records, time_limit }
    }

    /// All that DNS says about a name, for reading a connection string: its hosts and its options.
    pub(crate) async fn answer(&self, name: &SrvName) -> Result<SrvAnswer, DnsError> {
        let both = async {
            // The options are worth nothing without hosts, so they are not even asked for.
            let hosts = self.records.srv(&name.query()).await?;
            let txt = match hosts.is_empty() {
                true => Vec::new(),
                false => self.records.txt(name.host()).await?,
            };
            Ok(SrvAnswer { hosts, txt })
        };
        self.in_time(name, both).await
    }

    /// The hosts alone, for polling: options are read once.
    pub(crate) async fn hosts(&self, name: &SrvName) -> Result<Vec<SrvRecord>, DnsError> {
        self.in_time(name, async { self.records.srv(&name.query()).await }).await
    }

    async fn in_time<T>(
        &self,
        name: &SrvName,
        answer: impl Future<Output = Result<T, DnsError>>,
    ) -> Result<T, DnsError> {
        let waited = self.time_limit;
        match time::timeout(waited, answer).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(DnsError::Timeout { name: name.host().to_owned(), waited }),
        }
    }
}

/// Error of a DNS query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DnsError {
    /// It took too long.
    #[error("DNS did not answer for {name} within {waited:?}")]
    Timeout {
        /// The name asked for.
        name: String,
        /// Time waited.
        waited: Duration,
    },
    /// No server could be asked, or none would answer.
    #[error("the DNS lookup of {name} failed: {problem}")]
    Lookup {
        /// The name asked for.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// It is not known whom to ask.
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
