//! The deployment of a run: its members and their roles, and faults of servers.

use std::sync::Arc;

use steadfast::bson::Document;

use super::{Result, embedded::Embedded, foreign::Foreign};
#[cfg(unix)]
use super::{mongod::Mongods, sharded::Cluster};
use crate::{
    observer::Observer,
    plan::{Plan, Servers},
    schedule::FaultTarget,
};

/// Members of a replica set that the run starts.
pub(super) const MEMBERS: usize = 3;

/// The deployment of a run.
pub(super) enum Set {
    Embedded(Embedded),
    #[cfg(unix)]
    Mongod(Mongods),
    #[cfg(unix)]
    Sharded(Cluster),
    Foreign(Foreign),
}

/// A server: a member of a replica set, or a mongos.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) address: String,
    pub(super) role: Role,
    /// Shard of a member of a sharded cluster.
    pub(super) shard: Option<String>,
}

/// Migration of a chunk to another shard.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    pub(super) namespace: String,
    pub(super) min: Document,
    pub(super) max: Document,
    pub(super) from: String,
    pub(super) to: String,
}

impl Migration {
    pub(super) fn in_words(&self) -> String {
        let Self { namespace, from, to, .. } = self;
        format!("a chunk of {namespace} migrates from {from} to {to}")
    }
}

/// Role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Secondary,
    Mongos,
}

impl Role {
    pub(super) fn of(is_primary: bool) -> Self {
        if is_primary { Self::Primary } else { Self::Secondary }
    }
}

impl Member {
    pub(super) fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    pub(super) fn in_words(&self) -> String {
        let role = match self.role {
            Role::Primary => "the primary",
            Role::Secondary => "a secondary",
            Role::Mongos => "a mongos",
        };
        let of = self.shard.as_ref().map(|shard| format!(" of {shard}")).unwrap_or_default();
        format!("{role}{of}, {},", self.address)
    }
}

/// Returns the number of the server that is the target of a fault.
pub(super) fn meant(who: FaultTarget, primary: usize, members: usize) -> usize {
    match who {
        FaultTarget::Primary => primary,
        FaultTarget::Secondary(nth) => {
            let others = members.saturating_sub(1).max(1);
            (primary + 1 + nth % others) % members.max(1)
        }
        FaultTarget::Mongos(nth) => nth % members.max(1),
    }
}

impl Set {
    /// Starts the deployment, or connects to it.
    pub(super) async fn up(plan: &Plan, observer: &Arc<dyn Observer>) -> Result<Self> {
        match &plan.servers {
            Servers::Embedded => Ok(Self::Embedded(Embedded::start(plan.seed)?)),
            #[cfg(unix)]
            Servers::Mongod => Ok(Self::Mongod(Mongods::start(&**observer).await?)),
            #[cfg(unix)]
            Servers::Sharded => {
                Ok(Self::Sharded(Cluster::start(&plan.database, &**observer).await?))
            }
            #[cfg(not(unix))]
            Servers::Mongod | Servers::Sharded => Err(Box::new(crate::plan::InvalidPlan(
                "--mongod: supported on Unix only; use --uri with a running deployment".to_owned(),
            ))),
            Servers::Foreign(uri) => {
                Ok(Self::Foreign(Foreign::find(uri.as_str(), plan, observer).await?))
            }
        }
    }

    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }

    pub(super) fn is_sharded(&self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Sharded(_) => true,
            _ => false,
        }
    }

    /// Returns a description of the servers: `mongod 6.0.5`.
    pub(super) async fn server(&self) -> Result<String> {
        match self {
            Self::Embedded(set) => Ok(set.server()),
            #[cfg(unix)]
            Self::Mongod(set) => set.server().await,
            #[cfg(unix)]
            Self::Sharded(set) => set.server().await,
            Self::Foreign(set) => Ok(set.server()),
        }
    }

    pub(super) fn direct_uri(&self) -> String {
        match self {
            Self::Embedded(set) => set.uri(),
            #[cfg(unix)]
            Self::Mongod(set) => set.uri(),
            #[cfg(unix)]
            Self::Sharded(set) => set.uri(),
            Self::Foreign(set) => set.uri(),
        }
    }

    /// Returns the connection string without `mongodb+srv`.
    pub(super) fn resolved_uri(&self) -> String {
        match self {
            Self::Foreign(set) => set.resolved_uri().to_owned(),
            other => other.direct_uri(),
        }
    }

    /// Records that the run has claimed the database.
    pub(super) fn mark_written(&self) {
        if let Self::Foreign(set) = self {
            set.mark_written();
        }
    }

    /// Returns the current server of a target. Waits for a primary.
    pub(super) async fn find(&self, who: FaultTarget) -> Result<Member> {
        match self {
            Self::Embedded(set) => set.find(who).await,
            #[cfg(unix)]
            Self::Mongod(set) => set.find(who).await,
            #[cfg(unix)]
            Self::Sharded(set) => set.find(who).await,
            Self::Foreign(set) => set.find_member(who).await,
        }
    }

    /// Returns the server that receives writes: the primary, or a mongos of a sharded cluster.
    pub(super) async fn busiest(&self) -> Result<Member> {
        match self {
            #[cfg(unix)]
            Self::Sharded(set) => set.find(FaultTarget::Mongos(0)).await,
            other => other.find(FaultTarget::Primary).await,
        }
    }

    /// Returns the migration of the chunk that a number selects.
    pub(super) async fn choose_chunk(&self, choice: usize) -> Result<Migration> {
        match self {
            #[cfg(unix)]
            Self::Sharded(set) => set.choose_chunk(choice).await,
            _ => Err("the deployment has no chunks that this program may migrate".into()),
        }
    }

    /// Migrates a chunk. Returns `false` if the migration failed because of another fault.
    pub(super) async fn migrate(&self, migration: Migration) -> bool {
        match self {
            #[cfg(unix)]
            Self::Sharded(set) => set.migrate(migration).await,
            _ => false,
        }
    }

    /// Steps the primary down, and returns it.
    pub(super) async fn step_down(&self) -> Result<Member> {
        match self {
            Self::Embedded(set) => set.step_down().await,
            #[cfg(unix)]
            Self::Mongod(set) => set.step_down().await,
            #[cfg(unix)]
            Self::Sharded(set) => set.step_down().await,
            Self::Foreign(set) => set.step_down().await,
        }
    }

    pub(super) async fn kill(&self, member: &Member) -> Result<()> {
        match self {
            Self::Embedded(set) => set.faults().kill(member.number),
            #[cfg(unix)]
            Self::Mongod(set) => set.kill(member.number).await?,
            #[cfg(unix)]
            Self::Sharded(set) => set.kill(member.number).await?,
            Self::Foreign(_) => return Err("servers of --uri are not killed".into()),
        }
        Ok(())
    }

    pub(super) async fn restart(&self, member: &Member) -> Result<()> {
        match self {
            Self::Embedded(set) => set.faults().restart(member.number),
            #[cfg(unix)]
            Self::Mongod(set) => set.restart(member.number).await?,
            #[cfg(unix)]
            Self::Sharded(set) => set.restart(member.number).await?,
            Self::Foreign(_) => {}
        }
        Ok(())
    }

    pub(super) async fn freeze(&self, member: &Member) -> Result<()> {
        match self {
            Self::Embedded(set) => set.faults().freeze(member.number),
            #[cfg(unix)]
            Self::Mongod(set) => set.freeze(member.number).await?,
            #[cfg(unix)]
            Self::Sharded(set) => set.freeze(member.number).await?,
            Self::Foreign(_) => return Err("servers of --uri are not frozen".into()),
        }
        Ok(())
    }

    pub(super) async fn thaw(&self, member: &Member) -> Result<()> {
        match self {
            Self::Embedded(set) => set.faults().thaw(member.number),
            #[cfg(unix)]
            Self::Mongod(set) => set.thaw(member.number).await?,
            #[cfg(unix)]
            Self::Sharded(set) => set.thaw(member.number).await?,
            Self::Foreign(_) => {}
        }
        Ok(())
    }

    /// Waits until all members run and there is a primary.
    pub(super) async fn recover(&self) -> Result<()> {
        match self {
            Self::Embedded(set) => set.recover().await,
            #[cfg(unix)]
            Self::Mongod(set) => set.recover().await,
            #[cfg(unix)]
            Self::Sharded(set) => set.recover().await,
            Self::Foreign(set) => set.recover().await,
        }
    }

    /// Restarts and thaws all servers, and waits for recovery.
    pub(super) async fn heal(&self) -> Result<()> {
        match self {
            Self::Embedded(set) => set.heal(),
            #[cfg(unix)]
            Self::Mongod(set) => set.heal().await?,
            #[cfg(unix)]
            Self::Sharded(set) => set.heal().await?,
            Self::Foreign(_) => {}
        }
        self.recover().await
    }

    pub(super) async fn close(self) -> Result<()> {
        match self {
            Self::Embedded(set) => {
                drop(set);
                Ok(())
            }
            #[cfg(unix)]
            Self::Mongod(set) => set.close().await,
            #[cfg(unix)]
            Self::Sharded(set) => set.close().await,
            Self::Foreign(set) => set.close().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secondaries_are_the_members_other_than_the_primary() {
        for primary in 0..3 {
            assert_eq!(meant(FaultTarget::Primary, primary, 3), primary);
            let others: Vec<_> =
                (0..4).map(|nth| meant(FaultTarget::Secondary(nth), primary, 3)).collect();
            assert!(!others.contains(&primary));
            assert_ne!(others[0], others[1]);
            assert_eq!(others[..2], others[2..]);
        }
        assert_eq!(meant(FaultTarget::Secondary(1), 0, 1), 0);
    }
}
