//! A real MongoDB 8.2 server with access control, its request rate limiter, counters and processor time.

use std::{fs, time::Duration};

use blackpipe::proxy::{ErrorReply, Proxy, Reaction, Rule};
use bson::{Bson, Document, doc};
use steadfast::Client;
use testbed::{Options, ReplicaSet, User, Version};

use crate::Result;

const CREDENTIALS: &str = "bench:bench";
/// Seconds' worth of requests that the limiter admits at once. The simulated server lets as much wait.
pub(super) const BURST_SECONDS: f64 = 0.05;
/// Ticks in a second in `/proc/PID/stat`: 100 on Linux, whatever the kernel's own clock.
const TICKS_PER_SECOND: u64 = 100;

/// A replica set of one member. The control connection comes through the server's Unix socket, which the
/// limiter exempts.
pub(super) struct LimitedServer {
    set: ReplicaSet,
    control: Client,
}

/// Counters of the limiter (`network.ingressRequestRateLimiter` of `serverStatus`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Admissions {
    pub(super) admitted: i64,
    pub(super) rejected: i64,
}

impl Admissions {
    /// Returns the number of requests received, admitted or rejected.
    pub(super) fn attempts(self) -> i64 {
        self.admitted + self.rejected
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            admitted: self.admitted - earlier.admitted,
            rejected: self.rejected - earlier.rejected,
        }
    }
}

/// Route from the clients to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Directly: rejections are the server's own, code 449 without `RetryableError`.
    Direct,
    /// Through a proxy that replaces them by code 462 with both labels, as the specification has it.
    Relabelled,
}

impl LimitedServer {
    pub(super) async fn start() -> Result<Self> {
        let options = Options::new().version(Version::V8_2).user(User::new("bench", "bench"));
        let set = tokio::task::block_in_place(|| ReplicaSet::start(1, options))?;
        let socket = set.members()[0].unix_socket();
        let socket =
            socket.ok_or("the path of the server's directory is too long for a Unix socket")?;
        let socket = socket.display().to_string();
        let host = socket.replace('%', "%25").replace('/', "%2F");
        let uri = format!("mongodb://{CREDENTIALS}@{host}/?directConnection=true");
        let server = Self { set, control: Client::with_uri_str(uri).await? };
        let exempt = doc! { "ranges": [socket] };
        server.set_parameter("ingressRequestRateLimiterExemptions", exempt).await?;
        Ok(server)
    }

    /// Returns a client whose requests are never rejected.
    pub(super) fn control(&self) -> &Client {
        &self.control
    }

    /// Returns the connection string for a route, and the proxy that it leads through.
    pub(super) async fn route(&self, route: Route) -> Result<(String, Option<Proxy>)> {
        let with_credentials =
            |uri: &str| uri.replacen("mongodb://", &format!("mongodb://{CREDENTIALS}@"), 1);
        match route {
            Route::Direct => Ok((with_credentials(&self.set.uri()), None)),
            Route::Relabelled => {
                let labels = ["SystemOverloadedError", "RetryableError"];
                let error = ErrorReply::new(462).with_labels(labels).replacing(449);
                let rule = Rule::new(Reaction::Error(error));
                let proxy = Proxy::builder(self.set.uri()).rule(rule).start().await?;
                Ok((with_credentials(&proxy.uri()), Some(proxy)))
            }
        }
    }

    /// Admits this many requests in a second.
    pub(super) async fn limit(&self, rate: u32) -> Result<()> {
        self.set_parameter("ingressRequestAdmissionRatePerSec", i32::try_from(rate)?).await?;
        self.set_parameter("ingressRequestAdmissionBurstCapacitySecs", BURST_SECONDS).await?;
        self.set_parameter("ingressRequestRateLimiterEnabled", true).await
    }

    /// Rejects all requests: the limiter's bucket never holds a whole token.
    pub(super) async fn reject_all(&self) -> Result<()> {
        self.limit(1).await
    }

    /// Admits all requests.
    pub(super) async fn admit_all(&self) -> Result<()> {
        self.set_parameter("ingressRequestRateLimiterEnabled", false).await
    }

    async fn set_parameter(&self, name: &str, value: impl Into<Bson>) -> Result<()> {
        let command = doc! { "setParameter": 1, name: value.into() };
        self.control.database("admin").run_command(command).await?;
        Ok(())
    }

    pub(super) async fn admissions(&self) -> Result<Admissions> {
        let mut command = doc! { "serverStatus": 1 };
        for section in ["metrics", "wiredTiger", "transactions", "repl", "locks", "queues"] {
            command.insert(section, 0);
        }
        let status: Document = self.control.database("admin").run_command(command).await?;
        let limiter = status.get_document("network")?.get_document("ingressRequestRateLimiter")?;
        Ok(Admissions {
            admitted: limiter.get_i64("successfulAdmissions")?,
            rejected: limiter.get_i64("rejectedAdmissions")?,
        })
    }

    /// Returns the processor time, user and system, that the server has used so far.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.set.members()[0].pid()))?;
        let ticks = processor_ticks(&stat).ok_or("/proc/PID/stat has no processor time")?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }
}

/// Reads `utime` and `stime`. The name of the program, in parentheses, may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |index: usize| fields.split(' ').nth(index)?.parse::<u64>().ok();
    Some(ticks(11)? + ticks(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_for_any_program_name() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 900 0 3 0 250 75 0 0 20 0 40 0 12345 1 2";
        assert_eq!(processor_ticks(stat), Some(325));
        assert_eq!(processor_ticks("42 (mongod) S 1 2"), None);
    }
}
