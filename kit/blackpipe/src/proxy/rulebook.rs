//! Rules in force with their counts, and their evaluation for a request.

use std::{num::NonZeroU64, time::Duration};

use super::{
    reaction::{Direction, Reaction},
    rule::{Rule, RuleError},
};
use blackpipe_base::rng::Rng;

/// Properties of a request or connection that conditions match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchContext<'a> {
    /// Names of the server: real address, name in the replica set, address for clients.
    pub(crate) server: &'a [String],
    pub(crate) connection: u64,
    pub(crate) app_name: Option<&'a str>,
    pub(crate) command: &'a str,
    /// `database.collection`, or the database alone.
    pub(crate) namespace: &'a str,
    pub(crate) is_retry: bool,
}

/// Combined effect of the rules on a request and its reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleVerdict {
    pub(crate) request_delay: Duration,
    pub(crate) reply_delay: Duration,
    pub(crate) request_rate: Option<NonZeroU64>,
    pub(crate) reply_rate: Option<NonZeroU64>,
    /// Reaction that ended the evaluation, and the id of its rule.
    pub(crate) final_reaction: Option<(Reaction, u64)>,
    /// Names of the rules that applied.
    pub(crate) rules: Vec<String>,
}

/// A rule with its counts.
#[derive(Clone, Debug)]
pub struct RuleState {
    rule: Rule,
    met: u64,
    applied: u64,
    id: u64,
    rng: Rng,
}

impl RuleState {
    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Number of requests or connections that matched, before the counting conditions.
    pub fn met(&self) -> u64 {
        self.met
    }

    /// Number of times the rule applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    fn name(&self) -> &str {
        self.rule.name.as_deref().unwrap_or_default()
    }

    fn matches(&self, now: &MatchContext<'_>) -> bool {
        let rule = &self.rule;
        // Servers accept some command names in several spellings, such as `isMaster` and
        // `ismaster`.
        let one_of = |names: &[String], name: &str| {
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        (rule.command.is_empty() || one_of(&rule.command, now.command))
            && rule
                .namespace
                .as_deref()
                .is_none_or(|expected| contains_namespace(expected, now.namespace))
            && rule.app_name.as_deref().is_none_or(|expected| now.app_name == Some(expected))
            && rule.server.as_deref().is_none_or(|expected| one_of(now.server, expected))
            && rule.connection.is_none_or(|expected| expected.get() == now.connection)
            && rule.retry.is_none_or(|expected| expected == now.is_retry)
    }

    /// Counts a match. Returns `true` if the counting conditions select it.
    fn count_and_select(&mut self) -> bool {
        self.met += 1;
        let rule = &self.rule;
        let seen = self.met.saturating_sub(rule.skip.unwrap_or(0));
        let chosen = seen > 0
            && rule.nth.is_none_or(|nth| nth.get() == seen)
            && rule.every.is_none_or(|every| seen.is_multiple_of(every.get()))
            && rule.times.is_none_or(|times| self.applied < times)
            && rule.probability.is_none_or(|chance| self.rng.fraction() < f64::from(chance));
        self.applied += u64::from(chosen);
        chosen
    }
}

/// Returns `true` if `namespace` is in `expected`, a collection or a database.
fn contains_namespace(expected: &str, namespace: &str) -> bool {
    match expected.contains('.') {
        true => expected == namespace,
        false => namespace.split('.').next() == Some(expected),
    }
}

/// Rules in the order of evaluation.
#[derive(Debug, Default)]
pub(crate) struct Rulebook {
    rules: Vec<RuleState>,
    last_id: u64,
}

impl Rulebook {
    /// Appends a rule, or replaces the one of the same name. Returns the name.
    pub(crate) fn add(&mut self, mut rule: Rule) -> Result<String, RuleError> {
        rule.check()?;
        self.last_id += 1;
        let id = self.last_id;
        let name = rule.name.get_or_insert_with(|| format!("rule {id}")).clone();
        let rng = Rng::new(rule.seed.unwrap_or(0));
        let state = RuleState { rule, met: 0, applied: 0, id, rng };
        match self.rules.iter_mut().find(|known| known.name() == name) {
            Some(known) => *known = state,
            None => self.rules.push(state),
        }
        Ok(name)
    }

    /// Removes a rule. Returns how often it applied.
    pub(crate) fn remove(&mut self, name: &str) -> Option<u64> {
        let place = self.rules.iter().position(|known| known.name() == name)?;
        Some(self.rules.remove(place).applied)
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(crate) fn list(&self) -> &[RuleState] {
        &self.rules
    }

    /// Number of times the rule of this name applied.
    #[cfg(test)]
    pub(crate) fn applied(&self, name: &str) -> u64 {
        self.rules.iter().find(|known| known.name() == name).map_or(0, |known| known.applied)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.rules.iter().any(|known| known.id == id)
    }

    /// Returns the name of the rule that rejects a connection.
    pub(crate) fn rejects_connection(&mut self, now: &MatchContext<'_>) -> Option<String> {
        let mut refusing = self.rules.iter_mut().filter(|state| state.rejects_connection());
        refusing.find_map(|state| {
            (state.matches(now) && state.count_and_select()).then(|| state.name().to_owned())
        })
    }

    /// Evaluates the rules in order, up to the first reaction that is neither a delay nor a rate.
    pub(crate) fn apply_rules(&mut self, now: &MatchContext<'_>) -> RuleVerdict {
        let mut verdict = RuleVerdict::default();
        for state in self.rules.iter_mut().filter(|state| !state.rejects_connection()) {
            if !state.matches(now) || !state.count_and_select() {
                continue;
            }
            verdict.rules.push(state.name().to_owned());
            if verdict.take(&state.rule.then, state.id) {
                break;
            }
        }
        verdict
    }
}

impl RuleState {
    fn rejects_connection(&self) -> bool {
        matches!(self.rule.then, Reaction::Refuse)
    }
}

impl RuleVerdict {
    /// Adds a reaction. Returns `true` if it ends the evaluation.
    fn take(&mut self, reaction: &Reaction, id: u64) -> bool {
        match reaction {
            Reaction::Delay { ms, direction } => {
                let delay = match direction {
                    Direction::Request => &mut self.request_delay,
                    Direction::Reply => &mut self.reply_delay,
                };
                *delay = delay.saturating_add(Duration::from_millis(*ms));
                false
            }
            Reaction::Throttle { bytes_per_second, direction } => {
                if *direction != Some(Direction::Reply) {
                    self.request_rate = Some(*bytes_per_second);
                }
                if *direction != Some(Direction::Request) {
                    self.reply_rate = Some(*bytes_per_second);
                }
                false
            }
            Reaction::CutRequest { .. }
            | Reaction::LoseReply { .. }
            | Reaction::CutReply { .. }
            | Reaction::Stall { .. }
            | Reaction::Error(_)
            | Reaction::WriteConcernError(_)
            | Reaction::Refuse => {
                self.final_reaction = Some((reaction.clone(), id));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["127.0.0.1:27017".to_owned(), "127.0.0.1:40001".to_owned()]
    }

    fn insert<'a>(server: &'a [String]) -> MatchContext<'a> {
        MatchContext {
            server,
            connection: 3,
            app_name: Some("till"),
            command: "insert",
            namespace: "shop.orders",
            is_retry: false,
        }
    }

    fn lost() -> Rule {
        Rule::new(Reaction::lose_reply())
    }

    /// Applies a rule to equal requests. Returns the numbers of those that it selected.
    fn chosen(rule: Rule, requests: usize) -> Vec<usize> {
        let mut book = Rulebook::default();
        book.add(rule).unwrap();
        let names = names();
        (1..=requests)
            .filter(|_| book.apply_rules(&insert(&names)).final_reaction.is_some())
            .collect()
    }

    #[test]
    fn rule_applies_if_all_conditions_hold() {
        let applies = |rule: Rule| chosen(rule, 1) == [1];
        assert!(applies(lost()));
        assert!(applies(lost().command("insert").command("update")));
        assert!(!applies(lost().command("update")));
        assert!(applies(lost().command("INSERT")));
        assert!(applies(lost().namespace("shop.orders")) && applies(lost().namespace("shop")));
        assert!(!applies(lost().namespace("shop.order")) && !applies(lost().namespace("sho")));
        assert!(applies(lost().app_name("till")) && !applies(lost().app_name("desk")));
        assert!(applies(lost().connection(3)) && !applies(lost().connection(4)));
        assert!(applies(lost().retry(false)) && !applies(lost().retry(true)));
        assert!(names().iter().all(|name| applies(lost().server(name))));
        assert!(!applies(lost().server("127.0.0.1:27018")));
        assert!(!applies(lost().command("insert").connection(4)));
    }

    #[test]
    fn counting_conditions_select_among_matching_requests() {
        assert_eq!(chosen(lost().nth(2), 5), [2]);
        assert_eq!(chosen(lost().every(2), 5), [2, 4]);
        assert_eq!(chosen(lost().skip(3), 5), [4, 5]);
        assert_eq!(chosen(lost().times(2), 5), [1, 2]);
        assert_eq!(chosen(lost().skip(1).every(2).times(2), 9), [3, 5]);
        assert_eq!(chosen(lost().skip(3).nth(1), 9), [4]);
        assert_eq!(chosen(lost().probability(0.0), 100), [0; 0]);
        assert_eq!(chosen(lost().probability(1.0), 3), [1, 2, 3]);
        let tenth = chosen(lost().probability(0.1).seed(5), 1000);
        assert!((60..140).contains(&tenth.len()));
        assert_eq!(chosen(lost().probability(0.1).seed(5), 1000), tenth);
        assert_ne!(chosen(lost().probability(0.1).seed(6), 1000), tenth);
    }

    #[test]
    fn delays_add_up_until_the_first_final_reaction() {
        let mut book = Rulebook::default();
        let delay = Reaction::delay(Duration::from_millis(20));
        book.add(Rule::new(delay.clone())).unwrap();
        book.add(Rule::new(delay)).unwrap();
        book.add(Rule::new(Reaction::throttle(10))).unwrap();
        book.add(lost().command("insert").name("first")).unwrap();
        book.add(Rule::new(Reaction::cut_request()).name("second")).unwrap();
        let names = names();
        let verdict = book.apply_rules(&insert(&names));
        assert_eq!(verdict.request_delay, Duration::from_millis(40));
        assert_eq!(verdict.request_rate, verdict.reply_rate);
        assert!(matches!(verdict.final_reaction, Some((Reaction::LoseReply { .. }, _))));
        assert_eq!(book.applied("first"), 1);
        assert_eq!(book.applied("second"), 0);
        let verdict = book.apply_rules(&MatchContext { command: "find", ..insert(&names) });
        assert!(matches!(verdict.final_reaction, Some((Reaction::CutRequest { .. }, _))));
    }

    #[test]
    fn rule_with_the_same_name_replaces_and_resets_counts() {
        let mut book = Rulebook::default();
        let names = names();
        assert_eq!(book.add(lost().name("one")).unwrap(), "one");
        book.apply_rules(&insert(&names));
        assert_eq!(book.applied("one"), 1);
        book.add(lost().name("one").nth(1)).unwrap();
        assert_eq!((book.len(), book.applied("one")), (1, 0));
        assert!(book.apply_rules(&insert(&names)).final_reaction.is_some());
        assert_eq!(book.remove("one"), Some(1));
        assert_eq!(book.remove("one"), None);
    }

    #[test]
    fn refuse_applies_to_connections_only() {
        let mut book = Rulebook::default();
        book.add(Rule::new(Reaction::Refuse).times(1)).unwrap();
        let names = names();
        assert!(book.apply_rules(&insert(&names)).final_reaction.is_none());
        assert_eq!(book.rejects_connection(&insert(&names)).as_deref(), Some("rule 1"));
        assert_eq!(book.rejects_connection(&insert(&names)), None);
    }
}
