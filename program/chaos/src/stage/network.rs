//! Proxy in front of the servers: breaks connections, delays replies, rejects writes.
//!
//! Its rules match the load's `appName` and commands. Heartbeats and other clients are not affected.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use blackpipe::proxy::{Direction, ErrorReply, Proxy, ProxyEvent, Reaction, Rule};

use super::{Result, set::Member};
use crate::{live::Live, plan::APP_NAME};

/// Write commands.
const WRITES: [&str; 6] =
    ["insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"];
/// Read commands, which a slow server delays, too.
const READS: [&str; 5] = ["find", "getMore", "aggregate", "count", "distinct"];
/// Number of bytes that is larger than a message header and smaller than any message.
const PART: usize = 40;
/// `IngressRequestRateLimitExceeded`, with the labels of servers.
const INGRESS_REQUEST_RATE_LIMIT_EXCEEDED: i32 = 462;
const LABELS: [&str; 2] = ["SystemOverloadedError", "RetryableError"];

/// A proxy with counters of its rules.
pub(super) struct Network {
    proxy: Proxy,
    /// User and password of the connection string, followed by `@`.
    login: String,
    hits: Arc<Hits>,
    incidents: AtomicU64,
}

/// The rules of an incident.
pub(super) struct Rules {
    incident: u64,
    names: Vec<String>,
}

impl Network {
    /// Starts a proxy in front of a deployment.
    pub(super) async fn start(uri: &str) -> Result<Self> {
        let hits = Arc::new(Hits::default());
        let counting = Arc::clone(&hits);
        let observer = move |event: &ProxyEvent<'_>| {
            if let ProxyEvent::Fault { rules, what, .. } = event {
                counting.count(rules, what);
            }
        };
        let proxy = Proxy::builder(uri).observe(observer).start().await?;
        let login = if proxy.removed_credentials() { login_of(uri) } else { "" };
        let login = login.to_owned();
        Ok(Self { proxy, login, hits, incidents: AtomicU64::new(0) })
    }

    /// Returns the connection string of the proxy, for the load.
    pub(super) fn uri(&self) -> String {
        self.proxy.uri().replacen("mongodb://", &format!("mongodb://{}", self.login), 1)
    }

    /// Adds the hits of all rules to these counters, too.
    pub(super) fn report_to(&self, live: &Arc<Live>) {
        // There is one run, so this is set once.
        let _ = self.hits.live.set(Arc::clone(live));
    }

    /// Breaks the connections of this number of writes per thousand, equally often at each point of the exchange.
    pub(super) fn cut(&self, per_mille: u32, seed: u64) -> Result<Rules> {
        let cuts = [
            ("nothing of the request", Reaction::cut_request()),
            ("a part of the request", Reaction::cut_request_after(PART)),
            (NO_REPLY, Reaction::lose_reply()),
            (HALF_A_REPLY, Reaction::cut_reply_after(PART)),
        ];
        let resets = cuts.clone().map(|(what, reaction)| (what, reaction.with_reset()));
        let ends = [("", cuts), (", reset", resets)];
        let chance = f64::from(per_mille) / 1000.0 / 8.0;
        let all = ends.into_iter().flat_map(|(how, cuts)| cuts.map(|cut| (how, cut)));
        let rules = all.zip(seed..).map(|((how, (what, reaction)), seed)| {
            let rule = writes(reaction).probability(chance).seed(seed);
            (format!("{what}{how}"), rule)
        });
        self.add(rules.collect())
    }

    /// Delays the replies of a server.
    pub(super) fn slow(&self, member: &Member, delay: Duration) -> Result<Rules> {
        let rule = writes(Reaction::delay_reply(delay)).server(&member.address);
        let rule = READS.into_iter().fold(rule, Rule::command);
        self.add(vec![(SLOW.to_owned(), rule)])
    }

    /// Rejects this percentage of writes before their execution.
    pub(super) fn reject(&self, percent: u32, seed: u64) -> Result<Rules> {
        let error = ErrorReply::new(INGRESS_REQUEST_RATE_LIMIT_EXCEEDED).with_labels(LABELS);
        let rule = writes(Reaction::Error(error)).probability(f64::from(percent) / 100.0);
        self.add(vec![("rejected".to_owned(), rule.seed(seed))])
    }

    /// Forwards no request of the load to a server, including heartbeats. Connections stay open.
    pub(super) fn stall(&self, member: &Member) -> Result<Rules> {
        let rule = Rule::new(Reaction::stall(Direction::Request)).app_name(APP_NAME);
        self.add(vec![("stalled".to_owned(), rule.server(&member.address))])
    }

    fn add(&self, rules: Vec<(String, Rule)>) -> Result<Rules> {
        let incident = self.incidents.fetch_add(1, Relaxed);
        let mut names = Vec::new();
        for (what, rule) in rules {
            names.push(self.proxy.try_add(rule.name(name(incident, &what)))?);
        }
        Ok(Rules { incident, names })
    }

    /// Removes the rules of an incident. Returns its hits.
    pub(super) fn lift(&self, rules: &Rules) -> IncidentHits {
        for name in &rules.names {
            self.proxy.remove(name);
        }
        self.hits.of(rules.incident)
    }

    pub(super) fn clear(&self) {
        self.proxy.clear_rules();
    }

    pub(super) async fn close(self) {
        self.proxy.shutdown().await;
    }
}

/// Returns a rule for the writes of the load.
fn writes(reaction: Reaction) -> Rule {
    WRITES.into_iter().fold(Rule::new(reaction).app_name(APP_NAME), Rule::command)
}

const SLOW: &str = "slow";
const NO_REPLY: &str = "nothing of the reply";
const HALF_A_REPLY: &str = "a part of the reply";

fn name(incident: u64, what: &str) -> String {
    format!("{incident}: {what}")
}

/// Returns the user and password of a connection string, followed by `@`.
pub(super) fn login_of(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rfind('@').map_or("", |at| &authority[..=at])
}

/// Requests that an incident has affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IncidentHits {
    pub(super) requests: u64,
    /// Requests among them that the server had executed when the reply was lost.
    pub(super) lost_replies: u64,
}

/// Hits of each incident.
#[derive(Debug, Default)]
struct Hits {
    by_incident: Mutex<BTreeMap<u64, IncidentHits>>,
    live: OnceLock<Arc<Live>>,
}

impl Hits {
    /// Counts a fault. The rules of a request are in order: first those that delay it, which have events of their
    /// own, and last the one with the final reaction.
    fn count(&self, rules: &[String], what: &str) {
        let is_slow = |rule: &&String| rule.ends_with(SLOW);
        let met = match what.starts_with("delayed") {
            true => rules.iter().find(is_slow),
            false => rules.last(),
        };
        let met = met.and_then(|rule| rule.split_once(": "));
        let met = met.and_then(|(incident, cut)| Some((incident.parse().ok()?, cut)));
        if let Some((incident, cut)) = met {
            let is_lost_reply = cut.starts_with(NO_REPLY) || cut.starts_with(HALF_A_REPLY);
            let mut all = self.by_incident.lock().unwrap_or_else(PoisonError::into_inner);
            let met: &mut IncidentHits = all.entry(incident).or_default();
            met.requests += 1;
            met.lost_replies += u64::from(is_lost_reply);
            drop(all);
            if let Some(live) = self.live.get() {
                live.hits.fetch_add(1, Relaxed);
            }
        }
    }

    fn of(&self, incident: u64) -> IncidentHits {
        let all = self.by_incident.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&incident).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_connection_string_are_found() {
        assert_eq!(login_of("mongodb://us%40er:p@a:1,b:2/x?y=z@1"), "us%40er:p@");
        assert_eq!(login_of("mongodb://a:1,b:2/?x=y@z"), "");
    }

    #[test]
    fn request_that_is_delayed_and_cut_counts_for_both_faults() {
        let hits = Hits::default();
        let rules = [name(3, SLOW), name(5, "nothing of the reply, reset")];
        hits.count(&rules, "delayed the reply by 20ms");
        hits.count(&rules, "lost the reply after the execution");
        hits.count(&rules[1..], "lost the reply after the execution");
        hits.count(&[name(5, "a part of the request")], "passed 40 bytes of the request on");
        let met = |requests, lost_replies| IncidentHits { requests, lost_replies };
        assert_eq!((hits.of(3), hits.of(5), hits.of(4)), (met(1, 0), met(3, 2), met(0, 0)));
    }
}
