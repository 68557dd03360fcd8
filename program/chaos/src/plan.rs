//! The plan of a run: servers, load, faults and seed. Nothing else is needed to repeat it.

use std::{fmt, time::Duration};

use crate::strategy::Strategy;

use crate::workload::Workload;

/// `appName` of the load's client, which the rules of the proxy match.
pub(super) const APP_NAME: &str = "steadfast chaos";

/// Collection that reserves the database for one run. It is created first and dropped last.
pub(super) const CLAIM: &str = "claim";

/// Plan of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Deployment that is written to.
    pub servers: Servers,
    /// Groups of writes; all kinds of writes are equally frequent. Defaults to all.
    pub workload: Vec<Load>,
    /// Faults. Defaults to [`Servers::default_faults`].
    pub faults: Vec<Fault>,
    /// Reaction of the application to an error. Defaults to [`Strategy::RetryableWrites`].
    pub strategy: Strategy,
    /// Number of tasks that write concurrently. Defaults to 8.
    pub tasks: u32,
    /// Number of operations started per second, unless all tasks are busy. Defaults to 200.
    pub rate: u32,
    /// Duration of the load. Defaults to one minute.
    pub lasting: Duration,
    /// Time-out of an operation with all its attempts (`timeoutMS`). Defaults to 10 seconds.
    pub timeout: Duration,
    /// Seed of the random number generator, which selects operations, faults and their times. Defaults to 1.
    pub seed: u64,
    /// Database that is written to. Defaults to `steadfast_chaos`.
    pub database: String,
    /// Keeps the database on [`Servers::Foreign`] at the end. Defaults to `false`.
    pub keep: bool,
}

impl Plan {
    /// Returns the default plan for these servers.
    pub fn new(servers: Servers) -> Self {
        Self {
            workload: Load::ALL.to_vec(),
            faults: servers.default_faults(),
            servers,
            strategy: Strategy::RetryableWrites,
            tasks: TASKS,
            rate: RATE,
            lasting: LASTING,
            timeout: TIMEOUT,
            seed: 1,
            database: DATABASE.to_owned(),
            keep: false,
        }
    }

    /// Checks that the number of operations is in its limits and that the servers support all faults.
    ///
    /// # Errors
    ///
    /// [`InvalidPlan`] with the reason.
    pub fn check(&self) -> Result<(), InvalidPlan> {
        if let Some(why) = self.faults.iter().find_map(|fault| self.servers.unsupported(*fault)) {
            return Err(InvalidPlan(format!("--faults: {why}")));
        }
        Workload::new(self).map(drop)
    }

    /// Returns the number of operations at the full rate.
    pub fn operations(&self) -> u64 {
        let millis = u64::try_from(self.lasting.as_millis()).unwrap_or(u64::MAX);
        u64::from(self.rate).saturating_mul(millis) / 1000
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

/// Error of a plan that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPlan(pub(crate) String);

impl fmt::Display for InvalidPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidPlan {}

/// Default of [`Plan::tasks`].
pub const TASKS: u32 = 8;
/// Default of [`Plan::rate`].
pub const RATE: u32 = 200;
/// Default of [`Plan::lasting`].
pub const LASTING: Duration = Duration::from_secs(60);
/// Default of [`Plan::timeout`].
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// Default of [`Plan::database`].
pub const DATABASE: &str = "steadfast_chaos";

/// Deployment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// Embedded replica set of three members, in the memory of this process.
    Embedded,
    /// Replica set of three `mongod` processes, which the run downloads once, starts and stops. Unix only.
    Mongod,
    /// Sharded cluster of two mongos and two shards with three members each, started and stopped likewise. Unix only.
    Sharded,
    /// Existing deployment with this connection string.
    Foreign(Uri),
}

/// Connection string. `Debug` does not show it, because it may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri(String);

impl Uri {
    /// Wraps a connection string.
    pub fn new(uri: impl Into<String>) -> Self {
        Self(uri.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Uri")
    }
}

impl Servers {
    /// Returns the name for reports, without the connection string.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Embedded => "three servers in memory",
            Self::Mongod => "three real servers (mongod)",
            Self::Sharded => "a sharded cluster of real servers",
            Self::Foreign(_) => "the deployment of --uri",
        }
    }

    /// Returns the default faults. On an existing deployment, these are only faults of the network and the client.
    pub fn default_faults(&self) -> Vec<Fault> {
        match self {
            Self::Embedded | Self::Mongod | Self::Sharded => {
                Fault::ALL.into_iter().filter(|fault| self.unsupported(*fault).is_none()).collect()
            }
            Self::Foreign(_) => vec![Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Drops],
        }
    }

    /// Returns the reason why a fault cannot be injected into these servers, or `None` if it can.
    pub fn unsupported(&self, fault: Fault) -> Option<&'static str> {
        match (self, fault) {
            (Self::Embedded | Self::Mongod | Self::Foreign(_), Fault::Migrate) => Some(
                "migrate requires --mongod --sharded: chunks of other deployments are not moved",
            ),
            (Self::Foreign(_), Fault::Kill) => Some(
                "kill is not supported with --uri: only servers that this program has started are killed",
            ),
            (
                Self::Foreign(_),
                Fault::Cuts
                | Fault::Slow
                | Fault::Freeze
                | Fault::StepDown
                | Fault::Overload
                | Fault::Drops,
            )
            | (Self::Embedded | Self::Mongod | Self::Sharded, _) => None,
        }
    }
}

/// Declares an enum whose variants have a name on the command line and a description.
macro_rules! choices {
    ($(#[$doc:meta])* $type:ident: $($(#[doc = $description:literal])+ $variant:ident = $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[doc = $description])+ $variant,)+
        }

        impl $type {
            /// All variants.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns a short description.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($description),+).trim_ascii_start(),)+
                }
            }
        }
    };
}

choices! {
    /// Group of writes.
    Load:
    /// update_one with $inc and $push
    Increments = "increments",
    /// insert_one, insert_many
    Inserts = "inserts",
    /// update_one, replace_one
    Updates = "updates",
    /// delete_one
    Deletes = "deletes",
    /// find_one_and_update, _replace, _delete
    FindAndModify = "find-and-modify",
    /// bulk_write
    Bulk = "bulk",
    /// start_transaction().and_run() with update_one, insert_one and delete_one
    Transactions = "transactions",
}

choices! {
    /// Group of faults.
    Fault:
    /// Connections break before, within and after a request, and within a reply
    Cuts = "cuts",
    /// The primary replies late
    Slow = "slow",
    /// A member is suspended for some seconds and keeps its connections
    Freeze = "freeze",
    /// The primary steps down
    StepDown = "step-down",
    /// A member is killed with SIGKILL and restarted
    Kill = "kill",
    /// Servers reject writes with SystemOverloadedError
    Overload = "overload",
    /// The caller drops the futures of calls at random moments
    Drops = "drops",
    /// Chunks migrate from one shard to the other
    Migrate = "migrate",
}
