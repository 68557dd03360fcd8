//! The servers, the proxy before them, and the trouble that is made.

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
    network::{Met, Network},
    set::{Member, Migration, Set},
};
use super::{
    account::Incident,
    live::Live,
    observer::Observer,
    plan::{APP_NAME, Plan},
    schedule::{Planned, Schedule, Trouble},
};
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Between the recovery from one fault of a member and the next, if the first took longer than planned.
const BREATH: Duration = Duration::from_millis(500);

/// Server selection time-out unless the connection string has one.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a client of the run itself, which no fault hits.
pub(super) async fn open(uri: &str) -> Result<Client> {
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name.get_or_insert_with(|| APP_NAME.to_owned());
    options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
    Ok(Client::with_options(options)?)
}

/// Everything that the load is put on.
pub(super) struct Stage {
    set: Set,
    network: Network,
    server: String,
}

impl Stage {
    /// Starts, or finds, the servers, and puts the proxy before them.
    pub(super) async fn set(plan: &Plan, observer: &Arc<dyn Observer>) -> Result<Self> {
        let set = Set::up(plan, observer).await?;
        let server = set.server().await?;
        let network = Network::before(&set.resolved_uri()).await?;
        Ok(Self { set, network, server })
    }

    /// What the servers are: `mongod 6.0.5`.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Where no proxy stands before them: for the preparation and the census.
    pub(super) fn straight_uri(&self) -> String {
        self.set.straight_uri()
    }

    /// From here on, all that is in the database is of this run, and is removed when this is closed.
    pub(super) fn mark_written(&self) {
        self.set.mark_written();
    }

    /// Where the load goes: through the proxy, credentials included.
    pub(super) fn uri(&self) -> String {
        self.network.uri()
    }

    /// Makes trouble by the plan until `ending` is true, and then makes all well again. Returns when there is a
    /// primary, in each shard if there are any, and all servers are there.
    pub(super) async fn trouble(
        &self,
        plan: &Plan,
        began: Instant,
        ending: watch::Receiver<bool>,
        live: Arc<Live>,
    ) -> Result<Vec<Incident>> {
        let schedule = Schedule::of(plan);
        self.network.counts_for(&live);
        let log = Log::new(began, live);
        let clock = Clock::new(began, ending);
        let lane = |planned| self.lane(planned, schedule.calm_from, &log, clock.clone());
        let (members, cuts, drops, weather, migrations) = tokio::join!(
            lane(&schedule.members),
            lane(&schedule.cuts),
            lane(&schedule.drops),
            lane(&schedule.weather),
            lane(&schedule.migrations)
        );
        let went_well = members.and(cuts).and(drops).and(weather).and(migrations);
        if went_well.is_ok() {
            clock.clone().ends().await;
        }
        self.network.clear();
        let healed = self.set.heal().await;
        went_well.and(healed)?;
        Ok(log.incidents())
    }

    /// One thing after the other. If one goes wrong, all lanes end.
    async fn lane(
        &self,
        lane: &[Planned],
        calm_from: Duration,
        log: &Log,
        mut clock: Clock,
    ) -> Result<()> {
        let mut earliest = Duration::ZERO;
        for planned in lane {
            let there_is_time = clock.reaches(planned.begins.max(earliest)).await;
            if !there_is_time || clock.now() >= calm_from {
                break;
            }
            let done = self.befall(planned, calm_from, log, &mut clock).await;
            if done.is_err() {
                clock.give_up();
            }
            done?;
            earliest = clock.now() + BREATH;
        }
        Ok(())
    }

    /// A fault from its beginning to its end, and what must recover from it.
    async fn befall(
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

    async fn begin(&self, trouble: Trouble, log: &Log) -> Result<(Open, Undo)> {
        let (what, is_failover, undo) = match trouble {
            Trouble::StepDown => {
                let primary = self.set.step_down().await?;
                (format!("{} steps down", primary.in_words()), true, Undo::Recover)
            }
            Trouble::Kill(who) => {
                let member = self.set.find(who).await?;
                self.set.kill(&member).await?;
                let what = format!("{} is killed", member.in_words());
                (what, member.is_primary(), Undo::Restart(member))
            }
            Trouble::Freeze(who) => {
                let member = self.set.find(who).await?;
                if self.set.is_foreign() {
                    // The set itself notices nothing.
                    let what = format!("nothing passes between {} and the load", member.in_words());
                    let rules = self.network.stall(&member)?;
                    (what, false, Undo::Lift(rules))
                } else {
                    self.set.freeze(&member).await?;
                    let what = format!("{} stands still", member.in_words());
                    (what, member.is_primary(), Undo::Thaw(member))
                }
            }
            Trouble::Cuts { per_mille, seed } => {
                let rules = self.network.cut(per_mille, seed)?;
                ("connections break".to_owned(), false, Undo::Lift(rules))
            }
            Trouble::Drops { per_mille } => {
                log.live().start_dropping(per_mille);
                ("callers drop futures".to_owned(), false, Undo::StopDropping)
            }
            Trouble::Slow { delay } => {
                let member = self.set.busiest().await?;
                let what = format!("{} answers {} ms late", member.in_words(), delay.as_millis());
                (what, false, Undo::Lift(self.network.slow(&member, delay)?))
            }
            Trouble::Overload { percent, seed } => {
                let what = format!("{percent} % of the writes are turned away");
                (what, false, Undo::Lift(self.network.turn_away(percent, seed)?))
            }
            Trouble::Migrate { choice } => {
                let migration = self.set.choose_chunk(choice).await?;
                (migration.in_words(), false, Undo::Await(migration))
            }
        };
        // Writes go on at the other shard: how soon the next one is acknowledged says nothing of a failover.
        let is_failover = is_failover && !self.set.is_sharded();
        Ok((log.begins(trouble.fault(), what, is_failover), undo))
    }

    async fn end(&self, open: Open, undo: Undo, log: &Log) -> Result<()> {
        match undo {
            Undo::Lift(rules) => log.ends(open, self.network.lift(&rules)),
            Undo::StopDropping => {
                let requests = log.live().stop_dropping();
                log.ends(open, Met { requests, lost_replies: 0 });
            }
            Undo::Await(migration) => {
                let moved = self.set.migrate(migration).await;
                log.ends(open, Met { requests: u64::from(moved), lost_replies: 0 });
            }
            Undo::Recover => {
                log.was(open);
                self.set.recover().await?;
            }
            Undo::Restart(member) => {
                self.set.restart(&member).await?;
                log.ends(open, Met::default());
                self.set.recover().await?;
            }
            Undo::Thaw(member) => {
                self.set.thaw(&member).await?;
                log.ends(open, Met::default());
                self.set.recover().await?;
            }
        }
        Ok(())
    }

    /// Stops what was started; of somebody's deployment, removes what was written, unless it is to be kept.
    pub(super) async fn close(self) -> Result<()> {
        self.network.close().await;
        self.set.close().await
    }
}

/// How a fault ends.
enum Undo {
    /// By itself.
    Recover,
    Restart(Member),
    Thaw(Member),
    /// Callers drop no more futures.
    StopDropping,
    /// Rules of the proxy are removed.
    Lift(network::Rules),
    /// It begins now, and ends when the chunk has moved or could not be moved.
    Await(Migration),
}
