//! One server of a deployment, with all that stands between its connections and the data: its users,
//! its fail points, its limits.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering},
    },
    time::Duration,
};

use bson::{Document, doc, oid::ObjectId};
use steadfast_query::Fault;

use super::{
    auth::users::Users,
    clock::at_most_a_century,
    fail_point::{FailPoints, STOP_REPL_PRODUCER},
    host::Host,
    limiter::{Limit, Limiter},
};
use blackpipe_base::rng::Rng;

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) users: Arc<Users>,
    /// Whether only users may do anything.
    pub(crate) needs_user: bool,
    pub(crate) fail_points: Arc<FailPoints>,
    /// Sheds requests.
    pub(crate) requests: Limiter,
    /// Sheds connections.
    pub(crate) establishing: Limiter,
    /// What errors of overload advise clients to begin waiting with; 0 if nothing.
    pub(crate) base_backoff: AtomicI64,
    /// Whether every command must say which version of the API it is written for.
    pub(crate) needs_api_version: AtomicBool,
    /// What clients that come through a load balancer are told, if there is one.
    pub(crate) service_id: Option<ObjectId>,
    pub(crate) traffic: Traffic,
    latency: Mutex<Pace>,
}

/// The connections of a server, counted.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) opened: AtomicI32,
    pub(crate) open: AtomicI32,
    pub(crate) messages: AtomicI32,
    pub(crate) requests: AtomicI64,
}

/// How a server's answers are slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    /// Before a request is looked at.
    pub(crate) before: Duration,
    /// Between what was done and the reply.
    pub(crate) after: Duration,
    /// Up to so much more each, by chance.
    pub(crate) jitter: Duration,
}

#[derive(Debug)]
struct Pace {
    latency: Latency,
    rng: Rng,
}

impl Server {
    pub(crate) fn new(host: Host, users: Arc<Users>, needs_user: bool, seed: u64) -> Self {
        Self {
            host,
            users,
            needs_user,
            fail_points: Arc::new(FailPoints::new(seed)),
            requests: Limiter::new(Limit::default()),
            establishing: Limiter::new(Limit::default()),
            base_backoff: AtomicI64::new(0),
            needs_api_version: AtomicBool::new(false),
            service_id: None,
            traffic: Traffic::default(),
            latency: Mutex::new(Pace { latency: Latency::default(), rng: Rng::new(seed) }),
        }
    }

    /// `configureFailPoint`.
    pub(crate) fn configure(&self, command: &Document) -> Result<Document, Fault> {
        let done = self.fail_points.configure(command)?;
        if command.get_str("configureFailPoint").is_ok_and(|name| name == STOP_REPL_PRODUCER) {
            self.host.hold_replication(self.fail_points.is_on(STOP_REPL_PRODUCER));
        }
        Ok(done)
    }

    /// Slows it down from now on.
    pub(crate) fn slow_down(&self, latency: Latency) {
        let Latency { before, after, jitter } = latency;
        let [before, after, jitter] = [before, after, jitter].map(at_most_a_century);
        let latency = Latency { before, after, jitter };
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).latency = latency;
    }

    /// How long a request waits before it is looked at, and its reply before it is sent.
    pub(crate) fn delays(&self) -> (Duration, Duration) {
        let mut pace = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let Latency { before, after, jitter } = pace.latency;
        if jitter.is_zero() {
            return (before, after);
        }
        let (one, other) = (pace.rng.fraction(), pace.rng.fraction());
        (before + jitter.mul_f64(one), after + jitter.mul_f64(other))
    }

    /// What a process that starts anew has forgotten.
    pub(crate) fn forget(&self) {
        self.fail_points.reset();
    }

    /// Adds what is known here to the reply to `getCmdLineOpts`.
    pub(crate) fn add_options(&self, reply: &mut Document) {
        if !self.needs_user {
            return;
        }
        if let Ok(argv) = reply.get_array_mut("argv") {
            argv.push("--auth".into());
        }
        if let Ok(parsed) = reply.get_document_mut("parsed") {
            parsed.insert("security", doc! { "authorization": "enabled" });
        }
    }

    /// Adds what is known here to the reply to `serverStatus`.
    pub(crate) fn add_status(&self, reply: &mut Document) {
        let Traffic { opened, open, requests, .. } = &self.traffic;
        let open = open.load(Ordering::Relaxed);
        let established = self.establishing.counts();
        reply.insert(
            "connections",
            doc! {
                "current": open,
                "available": 1_000_000 - open,
                "totalCreated": opened.load(Ordering::Relaxed),
                "rejected": established.rejected,
                "active": 1,
                "establishmentRateLimit": {
                    "rejected": established.rejected, "exempted": established.exempted,
                },
            },
        );
        let shed = self.requests.counts();
        reply.insert(
            "network",
            doc! {
                "numRequests": requests.load(Ordering::Relaxed),
                "ingressRequestRateLimiter": {
                    "attemptedAdmissions": shed.admitted + shed.rejected,
                    "successfulAdmissions": shed.admitted,
                    "rejectedAdmissions": shed.rejected,
                    "exemptedAdmissions": shed.exempted,
                },
            },
        );
    }
}
