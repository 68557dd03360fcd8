//! A rule: which requests (or connections) it is about, how often it applies, and what it does.
//!
//! The same words are used in Rust, in rules files and in the command `blackPipe`.

use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize};

use super::reaction::Reaction;

/// A condition and a reaction.
///
/// All conditions that are given must hold. Of the requests for which they do, the counting ones
/// ([`skip`](Self::skip), [`nth`](Self::nth), [`every`](Self::every),
/// [`probability`](Self::probability), [`times`](Self::times)) choose. The counts belong to the
/// rule: they go on over connections and reconnections.
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
    /// A rule for every request.
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

    /// Its name, by which it can be removed. A rule added with the name of another replaces it. The
    /// proxy gives one to a rule without.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only this command, by its name on the wire (`insert`, `findAndModify`). Given several times,
    /// any of them.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command.push(command.into());
        self
    }

    /// Only this collection (`shop.orders`) or, without a dot, this database (`shop`).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only connections whose client said this name in its first hello (`appName`).
    pub fn app_name(mut self, app_name: impl Into<String>) -> Self {
        self.app_name = Some(app_name.into());
        self
    }

    /// Only this server: `host:port` as the proxy reaches it, as the server calls itself, or as
    /// clients reach it.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Only the connection with this number. Connections are counted from 1 as they are accepted,
    /// those to all servers together.
    ///
    /// # Panics
    ///
    /// If the number is 0.
    pub fn connection(mut self, number: u64) -> Self {
        self.connection = Some(positive(number));
        self
    }

    /// Only writes that were sent before (`true`: same session, same `txnNumber`), or only those
    /// that were not, and all that is no retryable write (`false`).
    pub fn retry(mut self, retry: bool) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Leaves the first so many alone, and counts from there.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = Some(count);
        self
    }

    /// Only the nth, counted from 1.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(positive(nth));
        self
    }

    /// Only one of every so many: the nth, the 2nth and so on.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn every(mut self, every: u64) -> Self {
        self.every = Some(positive(every));
        self
    }

    /// Each with this probability, from numbers that follow from [`seed`](Self::seed).
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = Some(probability.try_into().expect("a probability"));
        self
    }

    /// Another seed than 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// At most so many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// What it is called, once the proxy has it.
    pub fn as_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What it does.
    pub fn reaction(&self) -> &Reaction {
        &self.then
    }

    /// What no single field can tell to be wrong.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let about_requests = !self.command.is_empty()
            || self.namespace.is_some()
            || self.app_name.is_some()
            || self.retry.is_some();
        if matches!(self.then, Reaction::Refuse) && about_requests {
            return Err(self.wrong(
                "a connection is refused before there is a request: `refuse` goes with `server`, \
                 `connection` and counts, not with `command`, `namespace`, `appName` or `retry`",
            ));
        }
        if self.seed.is_some() && self.probability.is_none() {
            return Err(self.wrong("a `seed` needs a `probability`"));
        }
        Ok(())
    }

    fn wrong(&self, problem: &str) -> RuleError {
        let name = self.name.as_deref().unwrap_or("without a name");
        RuleError(format!("rule {name}: {problem}"))
    }
}

/// Why a rule is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(crate) String);

fn positive(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("counted from 1")
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
            _ => {
                Err(RuleError(format!("a probability lies between 0 and 1, not at {probability}")))
            }
        }
    }
}

impl From<Probability> for f64 {
    fn from(probability: Probability) -> Self {
        probability.0
    }
}

/// A string or a list of them.
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
                true => Err(serde::de::Error::custom("a list of commands has at least one")),
                false => Ok(all),
            }
        }
    }

    deserializer.deserialize_any(OneOrMany)
}
