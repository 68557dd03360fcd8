//! Who is measured, and what each has to be able to do.

pub(crate) mod floor;

/// The driver of this repository. The calls are the same as for the official one, line for line.
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
    single::{Load, Measured},
    workload::{SOME, Workload},
};

/// The database that everything happens in.
pub(crate) const DATABASE: &str = "bench";

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// A socket and prebuilt bytes: the limit.
    Floor,
    /// The driver of this repository.
    Steadfast,
    /// The official driver.
    Official,
}

impl Contender {
    /// Those that this program was built with.
    #[cfg(feature = "official")]
    pub(crate) const ALL: &[Self] = &[Self::Floor, Self::Steadfast, Self::Official];
    /// Those that this program was built with.
    #[cfg(not(feature = "official"))]
    pub(crate) const ALL: &[Self] = &[Self::Floor, Self::Steadfast];

    /// The same without the floor, which is no driver.
    pub(crate) fn drivers() -> &'static [Self] {
        &Self::ALL[1..]
    }

    /// As it is called on the command line and in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Steadfast => "steadfast",
            Self::Official => "official",
        }
    }

    /// Puts it to work, as often and as long as the load says.
    pub(crate) async fn work(self, job: &Job, load: Load) -> Result<Measured> {
        match self {
            Self::Floor => load.put_on(floor::Connection::for_each_task(job).await?).await,
            Self::Steadfast => {
                load.put_on(steadfast::calls::Caller::for_each_task(job).await?).await
            }
            #[cfg(feature = "official")]
            Self::Official => load.put_on(official::calls::Caller::for_each_task(job).await?).await,
            #[cfg(not(feature = "official"))]
            Self::Official => Err(NOT_BUILT_IN.into()),
        }
    }
}

/// Why the official driver cannot be measured.
#[cfg(not(feature = "official"))]
pub(crate) const NOT_BUILT_IN: &str = "built without the feature `official`";

/// Calls a generic function for the application of one driver or the other, and awaits it.
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

/// What to do, and where.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) workload: Workload,
    pub(crate) address: SocketAddr,
    /// The name of the replica set.
    pub(crate) set: String,
    pub(crate) tasks: u32,
    /// How many connections the tasks may share.
    pub(crate) connections: u32,
    /// How many documents a call moves, if it moves many.
    pub(crate) documents: usize,
}

impl Job {
    /// The collection that it is done on.
    pub(crate) fn collection(&self) -> &'static str {
        match self.workload.collection() {
            "many" if self.documents == SOME => "some",
            usual => usual,
        }
    }

    /// The connection string that a driver gets.
    pub(crate) fn uri(&self) -> String {
        let Self { address, set, connections, .. } = self;
        let retries = self.workload.retries();
        format!(
            "mongodb://{address}/?replicaSet={set}&maxPoolSize={connections}&retryWrites={retries}"
        )
    }
}

/// One of the tasks that work at the same time.
pub(crate) trait Worker: Send + Sized + 'static {
    /// Does the job's operation once.
    fn call(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Does it again and again, and notes how long each took.
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

/// What the trials need of a driver.
pub(crate) trait Application: Clone + Send + Sync + 'static {
    fn connect(uri: &str) -> impl Future<Output = Result<Self>> + Send;
    fn insert(&self) -> impl Future<Output = Result<()>> + Send;
    /// Inserts a document; an error comes with the labels that retries are decided by.
    #[cfg(feature = "mongod")]
    fn insert_labelled(
        &self,
    ) -> impl Future<Output = std::result::Result<(), LabelledError>> + Send;
    /// The server turns every other one of these away, by chance.
    fn insert_shed(&self) -> impl Future<Output = Result<()>> + Send;
    /// The server takes a few milliseconds to answer this.
    fn find_slowly(&self) -> impl Future<Output = Result<()>> + Send;
    fn ping(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The error of an operation, as far as retries are decided by it.
#[cfg(feature = "mongod")]
#[derive(Clone, Debug)]
pub(crate) struct LabelledError {
    /// `true` with the label `SystemOverloadedError`.
    pub(crate) overloaded: bool,
    /// `true` with the label `RetryableError`.
    pub(crate) retryable: bool,
    pub(crate) message: String,
}
