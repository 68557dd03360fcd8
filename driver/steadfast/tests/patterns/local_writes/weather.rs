//! What befalls two datacenters under load, one thing after another. Each lasts until it has shown in what
//! the writers were told, however fast the machine is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use blackpipe::proxy::{Proxy, Reaction, Rule};

use super::{
    load::{Load, TASKS},
    report,
};
use crate::dice::Dice;

/// How long the writers wait for an acknowledgement.
pub(crate) const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(400);

/// More calls than are under way at once: some of them began after what was just done.
const SOME_CALLS: usize = 2 * TASKS;

/// Datacenters that can be made to fail. These calls return when it is done.
pub(crate) trait Datacenters: Send + Sync + 'static {
    /// No write reaches a majority there any more.
    fn hold_acknowledgements(&self, datacenter: &str);
    fn release_acknowledgements(&self, datacenter: &str);
    /// All servers that stand there end, as by `kill -9`.
    fn kill(&self, datacenter: &str);
    /// They run again, and take writes.
    fn restart(&self, datacenters: &[&str]);
}

/// What may befall them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A datacenter executes what it is sent, and does not acknowledge it for a while.
    SlowAcknowledgements(&'static str),
    /// A datacenter is gone, and comes back.
    Outage(&'static str),
    /// A datacenter is gone while it owes acknowledgements: what it executed may be lost.
    OutageOfTheSlow(&'static str),
    /// Both are gone, and come back.
    BothGone,
    /// Replies to some inserts come late.
    LateReplies,
    /// Connections are cut, before inserts and after.
    CutConnections,
}

pub(crate) struct Weather<D> {
    pub(crate) datacenters: Arc<D>,
    /// What the writers reach them through.
    pub(crate) network: Vec<Proxy>,
}

impl<D: Datacenters> Weather<D> {
    /// Lets all of it happen; afterwards all is well again and every writer is at home.
    pub(crate) async fn befall(&self, events: &[Event], load: &Load, dice: &mut Dice) {
        self.until_home(load).await;
        for event in events {
            let began = Instant::now();
            match event {
                Event::SlowAcknowledgements(datacenter) => self.slow(datacenter, load).await,
                Event::Outage(datacenter) => {
                    self.begin_outage(datacenter, load).await;
                    self.end_outage(datacenter, load).await;
                }
                Event::OutageOfTheSlow(datacenter) => self.outage_of_slow(datacenter, load).await,
                Event::BothGone => self.both_gone(load).await,
                Event::LateReplies => self.late_replies(load, dice).await,
                Event::CutConnections => self.cut_connections(load, dice).await,
            }
            report(&format!("{event:?}: {:.1} s", began.elapsed().as_secs_f32()));
        }
    }

    /// Waits until every writer writes to its nearest datacenter, with calls that have begun since now.
    pub(crate) async fn until_home(&self, load: &Load) {
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, SOME_CALLS, |counts| counts.at_home).await;
        }
    }

    async fn slow(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.hold_acknowledgements(datacenter)).await;
        load.until(datacenter, 1, |counts| counts.doubtful).await;
        self.act(move |it| it.release_acknowledgements(datacenter)).await;
        self.until_home(load).await;
    }

    pub(crate) async fn begin_outage(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.kill(datacenter)).await;
        load.until(datacenter, SOME_CALLS, |counts| counts.away).await;
    }

    pub(crate) async fn end_outage(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.restart(&[datacenter])).await;
        self.until_home(load).await;
    }

    async fn outage_of_slow(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.hold_acknowledgements(datacenter)).await;
        load.until(datacenter, 1, |counts| counts.doubtful).await;
        self.act(move |it| {
            it.kill(datacenter);
            it.release_acknowledgements(datacenter);
        })
        .await;
        load.until(datacenter, SOME_CALLS, |counts| counts.away).await;
        self.end_outage(datacenter, load).await;
    }

    async fn both_gone(&self, load: &Load) {
        self.act(|it| ["alfa", "bravo"].map(|datacenter| it.kill(datacenter))).await;
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, TASKS, |counts| counts.all_down).await;
        }
        self.act(|it| it.restart(&["alfa", "bravo"])).await;
        self.until_home(load).await;
    }

    async fn late_replies(&self, load: &Load, dice: &mut Dice) {
        let late = Reaction::delay_reply(2 * ACKNOWLEDGED_WITHIN);
        let rule = Rule::new(late).command("insert").probability(0.1);
        self.network.iter().for_each(|proxy| drop(proxy.add(rule.clone().seed(dice.roll()))));
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, 2, |counts| counts.doubtful).await;
        }
        self.network.iter().for_each(Proxy::clear_rules);
        self.until_home(load).await;
    }

    async fn cut_connections(&self, load: &Load, dice: &mut Dice) {
        let cuts = [
            Reaction::lose_reply(),
            Reaction::cut_request(),
            Reaction::cut_reply_after(20).with_reset(),
        ];
        for proxy in &self.network {
            for cut in &cuts {
                let rule = Rule::new(cut.clone()).command("insert").command("delete");
                proxy.add(rule.probability(0.1).seed(dice.roll()));
            }
        }
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, 2 * SOME_CALLS, |counts| counts.at_home + counts.away).await;
        }
        let applied = |proxy: &Proxy| proxy.rules().iter().map(|rule| rule.applied()).sum::<u64>();
        assert!(self.network.iter().map(applied).sum::<u64>() > 0, "some were cut");
        self.network.iter().for_each(Proxy::clear_rules);
        self.until_home(load).await;
    }

    async fn act<T: Send + 'static>(&self, act: impl FnOnce(&D) -> T + Send + 'static) -> T {
        let datacenters = Arc::clone(&self.datacenters);
        tokio::task::spawn_blocking(move || act(&datacenters)).await.expect("it can be done")
    }
}
