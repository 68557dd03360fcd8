//! Environment of the load: the deployment, the proxy in front of it, and the injected faults.

mod embedded;
mod foreign;
mod log;
#[cfg(unix)]
mod mongod;
mod network;
mod set;
#[cfg(unix)]
mod sharded;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast::{Client, options::ClientOptions};
use tokio::sync::watch;

use self::{
    log::{Clock, Log, Open},
    network::{IncidentHits, Network},
    set::{Member, Migration, Set},
};
use super::{
    account::Incident,
    live::Live,
    observer::Observer,
    plan::{APP_NAME, Plan},
    schedule::{FaultAction, Planned, Schedule},
};
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Minimum time between the recovery from a fault and the next fault of its lane.
const MIN_PAUSE: Duration = Duration::from_millis(500);

/// Default of `serverSelectionTimeoutMS` if the connection string has none.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a client for preparation and count, which does not connect through the proxy.
pub(super) async fn open(uri: &str) -> Result<Client> {
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name.get_or_insert_with(|| APP_NAME.to_owned());
    options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
    Ok(Client::with_options(options)?)
}

/// A deployment behind a proxy.
pub(super) struct Stage {
    set: Set,
    network: Network,
    server: String,
}

impl Stage {
    /// Starts the deployment, or connects to it, and starts the proxy.
    pub(super) async fn set(plan: &Plan, observer: &Arc<dyn Observer>) -> Result<Self> {
        let set = Set::up(plan, observer).await?;
        let server = set.server().await?;
        let network = Network::start(&set.resolved_uri()).await?;
        Ok(Self { set, network, server })
    }

    /// Returns a description of the servers: `mongod 6.0.5`.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the connection string of the deployment itself, for preparation and count.
    pub(super) fn direct_uri(&self) -> String {
        self.set.direct_uri()
    }

    /// Records that the run has claimed the database. From now on, [`close`](Self::close) drops its collections.
    pub(super) fn mark_written(&self) {
        self.set.mark_written();
    }

    /// Returns the connection string of the proxy with credentials, for the load.
    pub(super) fn uri(&self) -> String {
        self.network.uri()
    }

    /// Injects the faults of the plan until `ending` is `true`, then restores all servers. Returns when all servers
    /// run and the set, or each shard, has a primary.
    pub(super) async fn run_faults(
        &self,
        plan: &Plan,
        began: Instant,
        ending: watch::Receiver<bool>,
        live: Arc<Live>,
    ) -> Result<Vec<Incident>> {
        let schedule = Schedule::of(plan);
        self.network.report_to(&live);
        let log = Log::new(began, live);
        let clock = Clock::new(began, ending);
        let lane = |planned| self.lane(planned, schedule.calm_from, &log, clock.clone());
        let (members, cuts, drops, slow_or_overloaded, migrations) = tokio::join!(
            lane(&schedule.members),
            lane(&schedule.cuts),
            lane(&schedule.drops),
            lane(&schedule.slow_or_overloaded),
            lane(&schedule.migrations)
        );
        let injected = members.and(cuts).and(drops).and(slow_or_overloaded).and(migrations);
        if injected.is_ok() {
            clock.clone().ends().await;
        }
        self.network.clear();
        let healed = self.set.heal().await;
        injected.and(healed)?;
        Ok(log.incidents())
    }

    /// Injects the faults of a lane. An error ends all lanes.
    async fn lane(
        &self,
        lane: &[Planned],
        calm_from: Duration,
        log: &Log,
        mut clock: Clock,
    ) -> Result<()> {
        let mut earliest = Duration::ZERO;
        for planned in lane {
            let has_time = clock.reaches(planned.begins.max(earliest)).await;
            if !has_time || clock.now() >= calm_from {
                break;
            }
            let injected = self.inject(planned, calm_from, log, &mut clock).await;
            if injected.is_err() {
                clock.give_up();
            }
            injected?;
            earliest = clock.now() + MIN_PAUSE;
        }
        Ok(())
    }

    /// Begins a fault, ends it, and waits for recovery.
    async fn inject(
        &self,
        planned: &Planned,
        calm_from: Duration,
        log: &Log,
        clock: &mut Clock,
    ) -> Result<()> {
        let (open, undo) = self.begin(planned.trouble, log).await?;
        clock.reaches((clock.now() + planned.lasts).min(calm_from)).await;
        self.end(open, undo, log).await
    }

    async fn begin(&self, trouble: FaultAction, log: &Log) -> Result<(Open, Undo)> {
        let (what, is_failover, undo) = match trouble {
            FaultAction::StepDown => {
                let primary = self.set.step_down().await?;
                (format!("{} steps down", primary.in_words()), true, Undo::Recover)
            }
            FaultAction::Kill(who) => {
                let member = self.set.find(who).await?;
                self.set.kill(&member).await?;
                let what = format!("{} is killed", member.in_words());
                (what, member.is_primary(), Undo::Restart(member))
            }
            FaultAction::Freeze(who) => {
                let member = self.set.find(who).await?;
                if self.set.is_foreign() {
                    // The proxy stalls the connections. The set holds no election.
                    let what = format!("{} does not reply to the load", member.in_words());
                    let rules = self.network.stall(&member)?;
                    (what, false, Undo::Lift(rules))
                } else {
                    self.set.freeze(&member).await?;
                    let what = format!("{} is frozen", member.in_words());
                    (what, member.is_primary(), Undo::Thaw(member))
                }
            }
            FaultAction::Cuts { per_mille, seed } => {
                let rules = self.network.cut(per_mille, seed)?;
                ("connections break".to_owned(), false, Undo::Lift(rules))
            }
            FaultAction::Drops { per_mille } => {
                log.live().start_dropping(per_mille);
                ("callers drop futures".to_owned(), false, Undo::StopDropping)
            }
            FaultAction::Slow { delay } => {
                let member = self.set.busiest().await?;
                let what = format!("{} replies {} ms late", member.in_words(), delay.as_millis());
                (what, false, Undo::Lift(self.network.slow(&member, delay)?))
            }
            FaultAction::Overload { percent, seed } => {
                let what = format!("{percent} % of the writes are rejected");
                (what, false, Undo::Lift(self.network.reject(percent, seed)?))
            }
            FaultAction::Migrate { choice } => {
                let migration = self.set.choose_chunk(choice).await?;
                (migration.in_words(), false, Undo::Await(migration))
            }
        };
        // The other shard accepts writes meanwhile, so the next acknowledged write is no evidence of recovery.
        let is_failover = is_failover && !self.set.is_sharded();
        Ok((log.begins(trouble.fault(), what, is_failover), undo))
    }

    async fn end(&self, open: Open, undo: Undo, log: &Log) -> Result<()> {
        match undo {
            Undo::Lift(rules) => log.ends(open, self.network.lift(&rules)),
            Undo::StopDropping => {
                let requests = log.live().stop_dropping();
                log.ends(open, IncidentHits { requests, lost_replies: 0 });
            }
            Undo::Await(migration) => {
                let moved = self.set.migrate(migration).await;
                log.ends(open, IncidentHits { requests: u64::from(moved), lost_replies: 0 });
            }
            Undo::Recover => {
                log.was(open);
                self.set.recover().await?;
            }
            Undo::Restart(member) => {
                self.set.restart(&member).await?;
                log.ends(open, IncidentHits::default());
                self.set.recover().await?;
            }
            Undo::Thaw(member) => {
                self.set.thaw(&member).await?;
                log.ends(open, IncidentHits::default());
                self.set.recover().await?;
            }
        }
        Ok(())
    }

    /// Stops the proxy and the servers. On an existing deployment, drops the collections unless the plan keeps them.
    pub(super) async fn close(self) -> Result<()> {
        self.network.close().await;
        self.set.close().await
    }
}

/// Action that ends a fault.
enum Undo {
    /// None: the set recovers without one.
    Recover,
    Restart(Member),
    Thaw(Member),
    StopDropping,
    /// Removes rules of the proxy.
    Lift(network::Rules),
    /// Migrates a chunk. The fault ends when the migration has succeeded or failed.
    Await(Migration),
}
