//! The proxy before the servers: connections that break, answers that are late, writes that are turned away.
//!
//! Only the load is hit, which is known by its client's name, and only its own requests: servers are looked at
//! undisturbed.

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

/// The commands that write.
const WRITES: [&str; 6] =
    ["insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"];
/// Those that do not, and are late all the same if a server is slow.
const READS: [&str; 5] = ["find", "getMore", "aggregate", "count", "distinct"];
/// More than the header of a message and less than a message, in either direction.
const PART: usize = 40;
/// `IngressRequestRateLimitExceeded`, with the labels that servers give it.
const TURNED_AWAY: i32 = 462;
const LABELS: [&str; 2] = ["SystemOverloadedError", "RetryableError"];

/// The proxy, and what its rules have met.
pub(super) struct Network {
    proxy: Proxy,
    /// The user and password of the connection string, with the `@`.
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
    /// Puts a proxy before these servers.
    pub(super) async fn before(uri: &str) -> Result<Self> {
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

    /// Where the load connects.
    pub(super) fn uri(&self) -> String {
        self.proxy.uri().replacen("mongodb://", &format!("mongodb://{}", self.login), 1)
    }

    /// Hits are counted there, too.
    pub(super) fn counts_for(&self, live: &Arc<Live>) {
        // It is set once, for the one run that there is.
        let _ = self.hits.live.set(Arc::clone(live));
    }

    /// The connections of so many of a thousand writes break, at any point of it, each as often as the others.
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

    /// A member's answers are late.
    pub(super) fn slow(&self, member: &Member, delay: Duration) -> Result<Rules> {
        let rule = writes(Reaction::delay_reply(delay)).server(&member.address);
        let rule = READS.into_iter().fold(rule, Rule::command);
        self.add(vec![(SLOW.to_owned(), rule)])
    }

    /// So many of a hundred writes are not let in.
    pub(super) fn turn_away(&self, percent: u32, seed: u64) -> Result<Rules> {
        let turned_away = Reaction::Error(ErrorReply::new(TURNED_AWAY).with_labels(LABELS));
        let rule = writes(turned_away).probability(f64::from(percent) / 100.0).seed(seed);
        self.add(vec![("turned away".to_owned(), rule)])
    }

    /// Nothing that the load asks a member is passed on, not even how it does; connections stay open.
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

    /// Ends an incident; says how many requests it has met.
    pub(super) fn lift(&self, rules: &Rules) -> Met {
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

/// Does this to the writes of the load.
fn writes(reaction: Reaction) -> Rule {
    WRITES.into_iter().fold(Rule::new(reaction).app_name(APP_NAME), Rule::command)
}

const SLOW: &str = "slow";
const NO_REPLY: &str = "nothing of the reply";
const HALF_A_REPLY: &str = "a part of the reply";

fn name(incident: u64, what: &str) -> String {
    format!("{incident}: {what}")
}

/// The part of a connection string that says who it is, with the `@` after it.
pub(super) fn login_of(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rfind('@').map_or("", |at| &authority[..=at])
}

/// What an incident has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) requests: u64,
    /// Those among them that the server had executed when the reply was lost.
    pub(super) lost_replies: u64,
}

/// What each incident has met.
#[derive(Debug, Default)]
struct Hits {
    by_incident: Mutex<BTreeMap<u64, Met>>,
    live: OnceLock<Arc<Live>>,
}

impl Hits {
    /// Of the rules that a request has met, those that only hold it up come first, and are told of by
    /// themselves; the last decides.
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
            let met: &mut Met = all.entry(incident).or_default();
            met.requests += 1;
            met.lost_replies += u64::from(is_lost_reply);
            drop(all);
            if let Some(live) = self.live.get() {
                live.hits.fetch_add(1, Relaxed);
            }
        }
    }

    fn of(&self, incident: u64) -> Met {
        let all = self.by_incident.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&incident).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_of_a_connection_string_is_found() {
        assert_eq!(login_of("mongodb://us%40er:p@a:1,b:2/x?y=z@1"), "us%40er:p@");
        assert_eq!(login_of("mongodb://a:1,b:2/?x=y@z"), "");
    }

    #[test]
    fn a_request_that_is_late_and_then_cut_is_a_hit_of_each() {
        let hits = Hits::default();
        let rules = [name(3, SLOW), name(5, "nothing of the reply, reset")];
        hits.count(&rules, "delayed the reply by 20ms");
        hits.count(&rules, "lost the reply after the execution");
        hits.count(&rules[1..], "lost the reply after the execution");
        hits.count(&[name(5, "a part of the request")], "passed 40 bytes of the request on");
        let met = |requests, lost_replies| Met { requests, lost_replies };
        assert_eq!((hits.of(3), hits.of(5), hits.of(4)), (met(1, 0), met(3, 2), met(0, 0)));
    }
}
