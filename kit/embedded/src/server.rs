//! A server of a deployment: host, users, fail points, rate limits.

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
    clock::clamp_duration,
    fail_point::{FailPoints, STOP_REPL_PRODUCER},
    host::Host,
    limiter::{RateLimit, RateLimiter},
};
use blackpipe_base::rng::Rng;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) users: Arc<Users>,
    /// `true` requires authentication.
    pub(crate) needs_user: bool,
    pub(crate) fail_points: Arc<FailPoints>,
    /// Limit of requests.
    pub(crate) requests: RateLimiter,
    /// Limit of new connections.
    pub(crate) new_connections: RateLimiter,
    /// Backoff that overload errors advise (`baseBackoffMS`). 0 for none.
    pub(crate) base_backoff: AtomicI64,
    /// `true` requires `apiVersion` in each command (`requireApiVersion`).
    pub(crate) needs_api_version: AtomicBool,
    /// `serviceId` of `hello` behind a load balancer.
    pub(crate) service_id: Option<ObjectId>,
    pub(crate) traffic: ConnectionCounters,
    latency: Mutex<LatencyInjector>,
}

/// Connection and request counters of `serverStatus`.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) opened: AtomicI32,
    pub(crate) open: AtomicI32,
    pub(crate) messages: AtomicI32,
    pub(crate) requests: AtomicI64,
}

/// Injected latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    /// Delay of requests.
    pub(crate) before: Duration,
    /// Delay of replies, after the command was executed.
    pub(crate) after: Duration,
    /// Maximum random delay that is added to each.
    pub(crate) jitter: Duration,
}

#[derive(Debug)]
struct LatencyInjector {
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
            requests: RateLimiter::new(RateLimit::default()),
            new_connections: RateLimiter::new(RateLimit::default()),
            base_backoff: AtomicI64::new(0),
            needs_api_version: AtomicBool::new(false),
            service_id: None,
            traffic: ConnectionCounters::default(),
            latency: Mutex::new(LatencyInjector {
                latency: Latency::default(),
                rng: Rng::new(seed),
            }),
        }
    }

    /// Runs `configureFailPoint`.
    pub(crate) fn configure_fail_point(&self, command: &Document) -> Result<Document, Fault> {
        let done = self.fail_points.configure(command)?;
        if command.get_str("configureFailPoint").is_ok_and(|name| name == STOP_REPL_PRODUCER) {
            self.host.hold_replication(self.fail_points.is_on(STOP_REPL_PRODUCER));
        }
        Ok(done)
    }

    /// Sets the injected latency.
    pub(crate) fn set_latency(&self, latency: Latency) {
        let Latency { before, after, jitter } = latency;
        let [before, after, jitter] = [before, after, jitter].map(clamp_duration);
        let latency = Latency { before, after, jitter };
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).latency = latency;
    }

    /// Delays of the next request and its reply.
    pub(crate) fn delays(&self) -> (Duration, Duration) {
        let mut pace = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let Latency { before, after, jitter } = pace.latency;
        if jitter.is_zero() {
            return (before, after);
        }
        let (one, other) = (pace.rng.fraction(), pace.rng.fraction());
        (before + jitter.mul_f64(one), after + jitter.mul_f64(other))
    }

    /// Resets state that a process loses on restart.
    pub(crate) fn reset(&self) {
        self.fail_points.reset();
    }

    /// Adds the fields of this server to the reply of `getCmdLineOpts`.
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

    /// Adds the fields of this server to the reply of `serverStatus`.
    pub(crate) fn add_status(&self, reply: &mut Document) {
        let ConnectionCounters { opened, open, requests, .. } = &self.traffic;
        let open = open.load(Ordering::Relaxed);
        let established = self.new_connections.counts();
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
