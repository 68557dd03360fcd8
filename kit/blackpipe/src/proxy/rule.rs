//! Rules: conditions on requests or connections, how often they apply, and the injected fault.
//!
//! Rust, rules files and the command `blackPipe` use the same names.

use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize};

use super::reaction::Reaction;

/// A rule: conditions and a reaction.
///
/// All conditions must hold. The counting conditions ([`skip`](Self::skip), [`nth`](Self::nth),
/// [`every`](Self::every), [`probability`](Self::probability), [`times`](Self::times)) then select
/// among the matching requests. Counts belong to the rule and continue across connections.
///
/// ```
/// use blackpipe::proxy::{Reaction, Rule};
///
/// let rule = Rule::new(Reaction::lose_reply()).command("insert").namespace("shop.orders").times(1);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub(crate) command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connection: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skip: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nth: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) every: Option<NonZeroU64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) probability: Option<Probability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u64>,
    pub(crate) then: Reaction,
}

impl Rule {
    /// Creates a rule that applies to every request.
    pub fn new(then: Reaction) -> Self {
        Self {
            name: None,
            command: Vec::new(),
            namespace: None,
            app_name: None,
            server: None,
            connection: None,
            retry: None,
            skip: None,
            nth: None,
            every: None,
            probability: None,
            seed: None,
            times: None,
            then,
        }
    }

    /// Sets the name of the rule. A rule replaces another one of the same name. Defaults to a
    /// generated name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Restricts the rule to this command, by its name on the wire (`insert`, `findAndModify`).
    /// Several calls allow any of the commands.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command.push(command.into());
        self
    }

    /// Restricts the rule to a collection (`shop.orders`) or a database (`shop`).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts the rule to connections of clients with this `appName`.
    pub fn app_name(mut self, app_name: impl Into<String>) -> Self {
        self.app_name = Some(app_name.into());
        self
    }

    /// Restricts the rule to a server: `host:port` as the proxy, the replica set or clients address
    /// it.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Restricts the rule to one connection. Connections are numbered from 1, over all servers.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    pub fn connection(mut self, number: u64) -> Self {
        self.connection = Some(positive(number));
        self
    }

    /// Restricts the rule to retries. `true`: writes that the client sent before (same `lsid` and
    /// `txnNumber`). `false`: everything else.
    pub fn retry(mut self, retry: bool) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Skips the first `count` matching requests.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = Some(count);
        self
    }

    /// Applies only to the nth matching request, counted from 1.
    ///
    /// # Panics
    ///
    /// Panics if `nth` is 0.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(positive(nth));
        self
    }

    /// Applies to every nth matching request: n, 2n, 3n and so on.
    ///
    /// # Panics
    ///
    /// Panics if `every` is 0.
    pub fn every(mut self, every: u64) -> Self {
        self.every = Some(positive(every));
        self
    }

    /// Applies with this probability. The random numbers depend on [`seed`](Self::seed).
    ///
    /// # Panics
    ///
    /// Panics if the probability is not between 0 and 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability =
            Some(probability.try_into().expect("the probability is between 0 and 1"));
        self
    }

    /// Sets the seed of [`probability`](Self::probability). Defaults to 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Applies at most `times` times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Returns the name of the rule.
    pub fn as_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the reaction of the rule.
    pub fn reaction(&self) -> &Reaction {
        &self.then
    }

    /// Checks combinations of fields.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let about_requests = !self.command.is_empty()
            || self.namespace.is_some()
            || self.app_name.is_some()
            || self.retry.is_some();
        if matches!(self.then, Reaction::Refuse) && about_requests {
            return Err(self.wrong(
                "`refuse` applies before the first request: combine it with `server`, \
                 `connection` and counts, not with `command`, `namespace`, `appName` or `retry`",
            ));
        }
        if self.seed.is_some() && self.probability.is_none() {
            return Err(self.wrong("`seed` requires `probability`"));
        }
        Ok(())
    }

    fn wrong(&self, problem: &str) -> RuleError {
        let name = self.name.as_deref().unwrap_or("without a name");
        RuleError(format!("rule {name}: {problem}"))
    }
}

/// Error of an invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(crate) String);

fn positive(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("the number is at least 1")
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub(crate) struct Probability(f64);

impl TryFrom<f64> for Probability {
    type Error = RuleError;

    fn try_from(probability: f64) -> Result<Self, RuleError> {
        match probability {
            0.0..=1.0 => Ok(Self(probability)),
            _ => Err(RuleError(format!("probability {probability} is not between 0 and 1"))),
        }
    }
}

impl From<Probability> for f64 {
    fn from(probability: Probability) -> Self {
        probability.0
    }
}

/// Deserializes a string or a list of strings.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMany;

    impl<'de> serde::de::Visitor<'de> for OneOrMany {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the name of a command, or a list of such names")
        }

        fn visit_str<E>(self, name: &str) -> Result<Vec<String>, E> {
            Ok(vec![name.to_owned()])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut names: A,
        ) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(name) = names.next_element()? {
                all.push(name);
            }
            match all.is_empty() {
                true => Err(serde::de::Error::custom("expected at least one command")),
                false => Ok(all),
            }
        }
    }

    deserializer.deserialize_any(OneOrMany)
}
