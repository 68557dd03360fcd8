//! Contenders, and the operations that each implements.

pub(crate) mod floor;

/// The driver of this repository. Its calls and those of the official driver are compiled from the same source.
mod steadfast {
    use ::steadfast as driver;

    #[path = "../application.rs"]
    pub(super) mod application;
    #[path = "../calls.rs"]
    pub(super) mod calls;
    mod mixed;
}

/// The official driver.
#[cfg(feature = "official")]
mod official {
    use ::mongodb as driver;

    #[expect(clippy::duplicate_mod, reason = "the same calls, compiled against the other driver")]
    #[path = "../application.rs"]
    pub(super) mod application;
    #[expect(clippy::duplicate_mod, reason = "the same calls, compiled against the other driver")]
    #[path = "../calls.rs"]
    pub(super) mod calls;
    mod mixed;
}

#[cfg(feature = "official")]
pub(crate) use official::application::Library as OfficialLibrary;
pub(crate) use steadfast::application::Library as SteadfastLibrary;

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_report::quantiles::Histogram;

use crate::{
    Result,
    measurement::{LoadPlan, WorkFigures},
    workload::{COUNTED_DOCUMENTS, Workload},
};

/// Database of all operations.
pub(crate) const DATABASE: &str = "bench";

/// Implementation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// A socket and prebuilt messages: the lower bound of the cost.
    Floor,
    /// The driver of this repository.
    Steadfast,
    /// The official driver.
    Official,
}

impl Contender {
    /// Returns those that this program was built with.
    #[cfg(feature = "official")]
    pub(crate) const ALL: &[Self] = &[Self::Floor, Self::Steadfast, Self::Official];
    /// Returns those that this program was built with.
    #[cfg(not(feature = "official"))]
    pub(crate) const ALL: &[Self] = &[Self::Floor, Self::Steadfast];

    /// Returns the contenders without the floor, which is not a driver.
    pub(crate) fn drivers() -> &'static [Self] {
        &Self::ALL[1..]
    }

    /// Name on the command line and in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Steadfast => "steadfast",
            Self::Official => "official",
        }
    }

    /// Connects and runs the job's workload for the given load.
    pub(crate) async fn work(self, job: &Job, load: LoadPlan) -> Result<WorkFigures> {
        match self {
            Self::Floor => load.run(floor::Connection::for_each_task(job).await?).await,
            Self::Steadfast => load.run(steadfast::calls::Caller::for_each_task(job).await?).await,
            #[cfg(feature = "official")]
            Self::Official => load.run(official::calls::Caller::for_each_task(job).await?).await,
            #[cfg(not(feature = "official"))]
            Self::Official => Err(NOT_BUILT_IN.into()),
        }
    }
}

/// Error of a build without the official driver.
#[cfg(not(feature = "official"))]
pub(crate) const NOT_BUILT_IN: &str = "built without the feature `official`";

/// Calls a generic async function with the [`Application`] of a contender's driver, and awaits it.
macro_rules! with_library {
    ($contender:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $contender {
            #[cfg(feature = "official")]
            $crate::contender::Contender::Official => {
                $function::<$crate::contender::OfficialLibrary>($($argument),*).await
            }
            #[cfg(not(feature = "official"))]
            $crate::contender::Contender::Official => {
                Err($crate::contender::NOT_BUILT_IN.into())
            }
            $crate::contender::Contender::Floor | $crate::contender::Contender::Steadfast => {
                $function::<$crate::contender::SteadfastLibrary>($($argument),*).await
            }
        }
    };
}
pub(crate) use with_library;

/// Workload with its server, tasks and connections.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) workload: Workload,
    pub(crate) address: SocketAddr,
    /// Name of the replica set.
    pub(crate) set: String,
    pub(crate) tasks: u32,
    /// Maximum number of connections that the tasks share.
    pub(crate) connections: u32,
    /// Documents per call of a multi-document workload.
    pub(crate) documents: usize,
}

impl Job {
    /// Returns the collection of the workload.
    pub(crate) fn collection(&self) -> &'static str {
        match self.workload.collection() {
            "many" if self.documents == COUNTED_DOCUMENTS => "some",
            other => other,
        }
    }

    /// Returns the connection string for drivers.
    pub(crate) fn uri(&self) -> String {
        let Self { address, set, connections, .. } = self;
        let retry_writes = self.workload.has_retryable_writes();
        format!(
            "mongodb://{address}/?replicaSet={set}&maxPoolSize={connections}&retryWrites={retry_writes}"
        )
    }
}

/// One of the tasks that run concurrently.
pub(crate) trait Worker: Send + Sized + 'static {
    /// Runs the operation once.
    fn call(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Repeats the operation and records the latencies.
    fn call_until(
        mut self,
        done: impl Fn(u64, Duration) -> bool + Send,
    ) -> impl Future<Output = Result<(Self, Histogram)>> + Send {
        async move {
            let mut latencies = Histogram::default();
            let began = std::time::Instant::now();
            let mut last = began;
            loop {
                self.call().await?;
                let now = std::time::Instant::now();
                latencies.add(now - last);
                last = now;
                if done(latencies.count(), now - began) {
                    return Ok((self, latencies));
                }
            }
        }
    }
}

/// Operations of the trials.
pub(crate) trait Application: Clone + Send + Sync + 'static {
    fn connect(uri: &str) -> impl Future<Output = Result<Self>> + Send;
    fn insert(&self) -> impl Future<Output = Result<()>> + Send;
    /// Inserts a document. The error has the labels that decide about retries.
    #[cfg(feature = "mongod")]
    fn insert_labelled(
        &self,
    ) -> impl Future<Output = std::result::Result<(), LabelledError>> + Send;
    /// Inserts into the collection `shed`: the server rejects half of these inserts at random.
    fn insert_shed(&self) -> impl Future<Output = Result<()>> + Send;
    /// Runs a find whose reply is delayed by a few milliseconds.
    fn find_slowly(&self) -> impl Future<Output = Result<()>> + Send;
    fn ping(&self) -> impl Future<Output = Result<()>> + Send;
}

/// Error of an operation, with the labels that decide about retries.
#[cfg(feature = "mongod")]
#[derive(Clone, Debug)]
pub(crate) struct LabelledError {
    /// `true` with the label `SystemOverloadedError`.
    pub(crate) overloaded: bool,
    /// `true` with the label `RetryableError`.
    pub(crate) retryable: bool,
    pub(crate) message: String,
}
