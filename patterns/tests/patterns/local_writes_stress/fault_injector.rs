//! Faults of two datacenters under load, one after the other. Each lasts until the results of the writers show
//! its effect.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use blackpipe::proxy::{Proxy, Reaction, Rule};

use super::{
    load::{Load, TASKS},
    report,
};
use crate::rng::Rng;

/// Time limit of the writers for an acknowledgement.
pub(crate) const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(400);

/// More calls than are in progress at once, so that some of them began after the fault.
const SOME_CALLS: usize = 2 * TASKS;

/// Datacenters with faults. Each method returns when the fault is in effect.
pub(crate) trait Datacenters: Send + Sync + 'static {
    /// Prevents writes to the datacenter from reaching a majority.
    fn hold_acknowledgements(&self, datacenter: &str);
    fn release_acknowledgements(&self, datacenter: &str);
    /// Kills all servers of the datacenter, as `kill -9` does.
    fn kill(&self, datacenter: &str);
    /// Restarts the servers, and waits until they accept writes.
    fn restart(&self, datacenters: &[&str]);
}

/// Fault of a datacenter or of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DatacenterFault {
    /// The datacenter executes writes and does not acknowledge them for a while.
    SlowAcknowledgements(&'static str),
    /// The datacenter is down, and comes back.
    Outage(&'static str),
    /// The datacenter fails while writes are not acknowledged: they may be rolled back.
    OutageDuringSlowAcknowledgements(&'static str),
    /// Both datacenters are down, and come back.
    OutageOfBoth,
    /// Replies to some inserts are late.
    LateReplies,
    /// Connections are cut before and after inserts.
    CutConnections,
}

pub(crate) struct FaultInjector<D> {
    pub(crate) datacenters: Arc<D>,
    /// Proxies between the writers and the datacenters.
    pub(crate) network: Vec<Proxy>,
}

impl<D: Datacenters> FaultInjector<D> {
    /// Injects the faults. Afterwards every writer writes to its nearest datacenter again.
    pub(crate) async fn inject(&self, events: &[DatacenterFault], load: &Load, rng: &mut Rng) {
        self.until_nearest(load).await;
        for event in events {
            let began = Instant::now();
            match event {
                DatacenterFault::SlowAcknowledgements(datacenter) => {
                    self.slow_acknowledgements(datacenter, load).await;
                }
                DatacenterFault::Outage(datacenter) => {
                    self.begin_outage(datacenter, load).await;
                    self.end_outage(datacenter, load).await;
                }
                DatacenterFault::OutageDuringSlowAcknowledgements(datacenter) => {
                    self.outage_during_slow_acknowledgements(datacenter, load).await;
                }
                DatacenterFault::OutageOfBoth => self.outage_of_both(load).await,
                DatacenterFault::LateReplies => self.late_replies(load, rng).await,
                DatacenterFault::CutConnections => self.cut_connections(load, rng).await,
            }
            report(&format!("{event:?}: {:.1} s", began.elapsed().as_secs_f32()));
        }
    }

    /// Waits until every writer writes to its nearest datacenter, in calls that begin after this one.
    pub(crate) async fn until_nearest(&self, load: &Load) {
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, SOME_CALLS, |counts| counts.to_nearest).await;
        }
    }

    async fn slow_acknowledgements(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.hold_acknowledgements(datacenter)).await;
        load.until(datacenter, 1, |counts| counts.possible).await;
        self.act(move |it| it.release_acknowledgements(datacenter)).await;
        self.until_nearest(load).await;
    }

    pub(crate) async fn begin_outage(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.kill(datacenter)).await;
        load.until(datacenter, SOME_CALLS, |counts| counts.to_other).await;
    }

    pub(crate) async fn end_outage(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.restart(&[datacenter])).await;
        self.until_nearest(load).await;
    }

    async fn outage_during_slow_acknowledgements(&self, datacenter: &'static str, load: &Load) {
        self.act(move |it| it.hold_acknowledgements(datacenter)).await;
        load.until(datacenter, 1, |counts| counts.possible).await;
        self.act(move |it| {
            it.kill(datacenter);
            it.release_acknowledgements(datacenter);
        })
        .await;
        load.until(datacenter, SOME_CALLS, |counts| counts.to_other).await;
        self.end_outage(datacenter, load).await;
    }

    async fn outage_of_both(&self, load: &Load) {
        self.act(|it| ["alfa", "bravo"].map(|datacenter| it.kill(datacenter))).await;
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, TASKS, |counts| counts.all_down).await;
        }
        self.act(|it| it.restart(&["alfa", "bravo"])).await;
        self.until_nearest(load).await;
    }

    async fn late_replies(&self, load: &Load, rng: &mut Rng) {
        let late = Reaction::delay_reply(2 * ACKNOWLEDGED_WITHIN);
        let rule = Rule::new(late).command("insert").probability(0.1);
        self.network.iter().for_each(|proxy| drop(proxy.add(rule.clone().seed(rng.next_u64()))));
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, 2, |counts| counts.possible).await;
        }
        self.network.iter().for_each(Proxy::clear_rules);
        self.until_nearest(load).await;
    }

    async fn cut_connections(&self, load: &Load, rng: &mut Rng) {
        let cuts = [
            Reaction::lose_reply(),
            Reaction::cut_request(),
            Reaction::cut_reply_after(20).with_reset(),
        ];
        for proxy in &self.network {
            for cut in &cuts {
                let rule = Rule::new(cut.clone()).command("insert").command("delete");
                proxy.add(rule.probability(0.1).seed(rng.next_u64()));
            }
        }
        for datacenter in ["alfa", "bravo"] {
            load.until(datacenter, 2 * SOME_CALLS, |counts| counts.to_nearest + counts.to_other)
                .await;
        }
        let applied = |proxy: &Proxy| proxy.rules().iter().map(|rule| rule.applied()).sum::<u64>();
        assert!(self.network.iter().map(applied).sum::<u64>() > 0, "no connection was cut");
        self.network.iter().for_each(Proxy::clear_rules);
        self.until_nearest(load).await;
    }

    async fn act<T: Send + 'static>(&self, act: impl FnOnce(&D) -> T + Send + 'static) -> T {
        let datacenters = Arc::clone(&self.datacenters);
        tokio::task::spawn_blocking(move || act(&datacenters)).await.expect("the fault is injected")
    }
}
