//! The plan of a run: servers, load, faults and seed. Nothing else is needed to repeat it.

use std::{fmt, time::Duration};

use crate::strategy::Strategy;

use crate::workload::Workload;

/// The name by which servers, and rules of the proxy, know the client of the load.
pub(super) const APP_NAME: &str = "steadfast chaos";

/// The collection by which a run has a database to itself: the first that is there, and the last that is removed.
pub(super) const CLAIM: &str = "claim";

/// Plan of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Deployment that is written to.
    pub servers: Servers,
    /// Kinds of writes, each made as often as the others. Defaults to all.
    pub workload: Vec<Load>,
    /// Faults. Defaults to [`Servers::default_faults`].
    pub faults: Vec<Fault>,
    /// Reaction of the application to an error. Defaults to [`Strategy::RetryableWrites`].
    pub strategy: Strategy,
    /// Number of tasks that write concurrently. Defaults to 8.
    pub tasks: u32,
    /// Operations started per second, unless all tasks are busy. Defaults to 200.
    pub rate: u32,
    /// Duration of the load. Defaults to one minute.
    pub lasting: Duration,
    /// Time-out of an operation with all its attempts. Defaults to 10 seconds.
    pub timeout: Duration,
    /// Seed of the operations and of the faults and their times. Defaults to 1.
    pub seed: u64,
    /// Database that is written to. Defaults to `steadfast_chaos`.
    pub database: String,
    /// Leaves the database of [`Servers::Foreign`] in place at the end. Defaults to false.
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

    /// Returns an error if no operation would begin, or too many, or if the servers cannot have one of the faults.
    ///
    /// # Errors
    ///
    /// The reason, for people.
    pub fn check(&self) -> Result<(), InvalidPlan> {
        if let Some(why) = self.faults.iter().find_map(|fault| self.servers.refuses(*fault)) {
            return Err(InvalidPlan(format!("--faults: {why}")));
        }
        Workload::new(self).map(drop)
    }

    /// Number of operations that begin if none is late.
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
    /// Replica set of three `mongod`, which are downloaded once, started and stopped. Unix only.
    Mongod,
    /// Sharded cluster of two shards of three `mongod`, and two mongos, likewise. Unix only.
    Sharded,
    /// Deployment of a connection string, which exists before the run and after it.
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
    /// Name in reports, without secrets.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Embedded => "three servers in memory",
            Self::Mongod => "three real servers (mongod)",
            Self::Sharded => "a sharded cluster of real servers",
            Self::Foreign(_) => "the deployment of --uri",
        }
    }

    /// Returns the default faults. On a foreign deployment, these are only faults of the network and the client.
    pub fn default_faults(&self) -> Vec<Fault> {
        match self {
            Self::Embedded | Self::Mongod | Self::Sharded => {
                Fault::ALL.into_iter().filter(|fault| self.refuses(*fault).is_none()).collect()
            }
            Self::Foreign(_) => vec![Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Drops],
        }
    }

    /// Returns the reason why these servers cannot have a fault, or `None` if they can.
    pub fn refuses(&self, fault: Fault) -> Option<&'static str> {
        match (self, fault) {
            (Self::Embedded | Self::Mongod | Self::Foreign(_), Fault::Migrate) => Some(
                "migrate is for --mongod --sharded: these servers have no chunks that this program may move",
            ),
            (Self::Foreign(_), Fault::Kill) => Some(
                "kill is for servers that this program has started; it does not own the processes of --uri",
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

/// Declares an enum of choices, each with its name on the command line and a description.
macro_rules! choices {
    ($(#[$doc:meta])* $type:ident: $($(#[doc = $description:literal])+ $variant:ident = $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[doc = $description])+ $variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Name on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Short description.
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
    /// Connections break: before, within and after a request, and within a reply
    Cuts = "cuts",
    /// A member answers late
    Slow = "slow",
    /// A member stops answering, and goes on later
    Freeze = "freeze",
    /// The primary steps down
    StepDown = "step-down",
    /// A member is killed with SIGKILL, and started again
    Kill = "kill",
    /// Servers turn writes away
    Overload = "overload",
    /// The caller drops the futures of calls, at any moment
    Drops = "drops",
    /// Chunks move from one shard to the other
    Migrate = "migrate",
}
