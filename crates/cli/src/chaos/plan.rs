//! What a run is to do: the servers, the load, the faults. Nothing else is needed to have it again.

use std::time::Duration;

use clap::ValueEnum;
use steadfast::patterns::strategy::Strategy;

use crate::database::Uri;

/// The name by which servers, and rules of the proxy, know the client of the load.
pub(super) const APP_NAME: &str = "steadfast chaos";

/// The collection by which a run has a database to itself: the first that is there, and the last that is removed.
pub(super) const CLAIM: &str = "claim";

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) servers: Servers,
    /// Which kinds of writes are made, each as often as the others.
    pub(super) workload: Vec<Load>,
    /// Which faults there are.
    pub(super) faults: Vec<Fault>,
    pub(super) strategy: Strategy,
    /// How many tasks write at a time.
    pub(super) tasks: u32,
    /// How many operations begin in a second, if all goes well.
    pub(super) rate: u32,
    /// How long operations begin.
    pub(super) lasting: Duration,
    /// How long an operation may take, with all its attempts.
    pub(super) timeout: Duration,
    /// The same seed: the same operations, and the same faults at the same times.
    pub(super) seed: u64,
    /// Where it is written.
    pub(super) database: String,
    /// Whether that database is left there in the end.
    pub(super) keep: bool,
}

impl Plan {
    /// How many operations begin if none is late.
    pub(super) fn operations(&self) -> u64 {
        let millis = u64::try_from(self.lasting.as_millis()).unwrap_or(u64::MAX);
        u64::from(self.rate).saturating_mul(millis) / 1000
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

/// What there is unless something else is asked for.
pub(super) const TASKS: u32 = 8;
pub(super) const RATE: u32 = 200;
/// The command line has it in words.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const DATABASE: &str = "steadfast_chaos";

/// Which servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// Three in the memory of this process.
    Embedded,
    /// Three real ones, which are fetched, started and stopped.
    Mongod,
    /// A sharded cluster of real ones, likewise: two shards of three members, and two mongos.
    Sharded,
    /// Somebody's, by their connection string.
    Foreign(Uri),
}

impl Servers {
    /// In the words of a report, without secrets.
    pub(super) fn title(&self) -> &'static str {
        match self {
            Self::Embedded => "three servers in memory",
            Self::Mongod => "three real servers (mongod)",
            Self::Sharded => "a sharded cluster of real servers",
            Self::Foreign(_) => "the deployment of --uri",
        }
    }

    /// The faults that there are unless others are asked for. Nothing is done to somebody's servers
    /// themselves if that is not wanted by name.
    pub(super) fn default_faults(&self) -> Vec<Fault> {
        match self {
            Self::Embedded | Self::Mongod | Self::Sharded => {
                Fault::ALL.into_iter().filter(|fault| self.refuses(*fault).is_none()).collect()
            }
            Self::Foreign(_) => vec![Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Drops],
        }
    }

    /// Why these servers cannot have a fault, if they cannot.
    pub(super) fn refuses(&self, fault: Fault) -> Option<&'static str> {
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

/// A group of writes to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Load {
    /// update_one with $inc and $push
    Increments,
    /// insert_one, insert_many
    Inserts,
    /// update_one, replace_one
    Updates,
    /// delete_one
    Deletes,
    /// find_one_and_update, _replace, _delete
    FindAndModify,
    /// bulk_write
    Bulk,
    /// start_transaction().and_run() with update_one, insert_one and delete_one
    Transactions,
}

impl Load {
    pub(super) const ALL: [Self; 7] = [
        Self::Increments,
        Self::Inserts,
        Self::Updates,
        Self::Deletes,
        Self::FindAndModify,
        Self::Bulk,
        Self::Transactions,
    ];
}

/// A group of faults to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// Connections break: before, within and after a request, and within a reply
    Cuts,
    /// A member answers late
    Slow,
    /// A member stops answering, and goes on later
    Freeze,
    /// The primary steps down
    StepDown,
    /// A member is killed with SIGKILL, and started again
    Kill,
    /// Servers turn writes away
    Overload,
    /// The caller drops the futures of calls, at any moment
    Drops,
    /// Chunks move from one shard to the other
    Migrate,
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::Cuts,
        Self::Slow,
        Self::Freeze,
        Self::StepDown,
        Self::Kill,
        Self::Overload,
        Self::Drops,
        Self::Migrate,
    ];

    /// Its name on the command line, and in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cuts => "cuts",
            Self::Slow => "slow",
            Self::Freeze => "freeze",
            Self::StepDown => "step-down",
            Self::Kill => "kill",
            Self::Overload => "overload",
            Self::Drops => "drops",
            Self::Migrate => "migrate",
        }
    }
}
