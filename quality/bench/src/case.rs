//! Rows of the table: a workload, a number of tasks and a server.

use crate::{
    measurement::{LoadPlan, WorkAmount},
    workload::Workload,
};

/// A row of the table, with a line for each contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) tasks: u32,
    pub(crate) server: ServerKind,
}

/// Server that a case runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// A real `mongod`, a replica set of one.
    Mongod,
    /// The server with canned replies.
    Canned,
}

/// Maximum pool size. More tasks share the connections.
const MAX_POOL_SIZE: u32 = 100;

impl Case {
    /// Returns all cases, in the order of the table.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for server in ServerKind::all() {
            for workload in Workload::ALL {
                let on_canned = !matches!(workload, Workload::BulkWrite);
                if server == ServerKind::Canned && !on_canned {
                    continue;
                }
                let tasks: &[u32] = match workload {
                    Workload::FindOne => &[1, 64, 1000],
                    Workload::Ping
                    | Workload::InsertOne
                    | Workload::InsertOnePlain
                    | Workload::UpdateOne => &[1, 64],
                    Workload::InsertMany
                    | Workload::BulkWrite
                    | Workload::DrainDocuments
                    | Workload::DrainStructs
                    | Workload::DrainRaw
                    | Workload::InsertLarge
                    | Workload::FindLarge => &[1],
                };
                cases.extend(tasks.iter().map(|&tasks| Self { workload, tasks, server }));
            }
        }
        cases
    }

    pub(crate) fn name(self) -> String {
        let tasks = if self.tasks == 1 { "task" } else { "tasks" };
        let shared = match self.tasks > MAX_POOL_SIZE {
            true => format!(" on {MAX_POOL_SIZE} connections"),
            false => String::new(),
        };
        let server = self.server.name();
        format!("{}, {} {tasks}{shared}, {server}", self.workload.name(), self.tasks)
    }

    pub(crate) fn connections(self) -> u32 {
        self.tasks.min(MAX_POOL_SIZE)
    }

    /// Returns the warm-up and the measured work of one turn.
    pub(crate) fn load(self, quick: bool) -> LoadPlan {
        let measured = WorkAmount::Millis(if quick { 500 } else { 2000 });
        let warm_up = match self.workload.has_many_documents() {
            false => WorkAmount::Millis(if quick { 150 } else { 500 }),
            // One call keeps the peak memory that of an application.
            true => WorkAmount::Calls(1),
        };
        LoadPlan { warm_up, measured }
    }
}

impl ServerKind {
    /// Returns those that this program was built with.
    fn all() -> impl Iterator<Item = Self> {
        let mongod = cfg!(feature = "mongod").then_some(Self::Mongod);
        [Self::Canned].into_iter().chain(mongod)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mongod => "mongod",
            Self::Canned => "canned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_names_are_unique() {
        let mut names: Vec<_> = Case::all().into_iter().map(Case::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
