//! Matching of requests, with the reason for a mismatch.

use std::{fmt, sync::Arc};

use bson::{Bson, Document};

use super::{Exchange, Step};
use blackpipe_base::message::Request;

/// Conditions on a request.
///
/// ```
/// use blackpipe::server::{hang_up, insert, reply};
/// use bson::doc;
///
/// let _ = insert("db.things")
///     .with(doc! { "documents": [{ "_id": 1 }] })
///     .without("txnNumber")
///     .that("is in a session", |request| request.body.contains_key("lsid"))
///     .then(hang_up());
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ExpectedRequest {
    name: Option<String>,
    namespace: Option<String>,
    fields: Document,
    absent: Vec<String>,
    conditions: Vec<(String, Arc<Condition>)>,
    member: Option<usize>,
}

type Condition = dyn Fn(&Request) -> bool + Send + Sync;

/// Matches any command.
pub fn any() -> ExpectedRequest {
    ExpectedRequest::default()
}

/// Matches a command by name. Names are case-sensitive, as in servers, except `isMaster`.
pub fn command(name: impl Into<String>) -> ExpectedRequest {
    ExpectedRequest { name: Some(name.into()), ..ExpectedRequest::default() }
}

/// Matches `hello` in all its forms. Without an expectation, the server replies according to its
/// role.
pub fn hello() -> ExpectedRequest {
    any().that("is a hello", Request::is_hello)
}

macro_rules! commands {
    ($($(#[$docs:meta])* $function:ident: $name:literal;)+) => {$(
        $(#[$docs])*
        /// The namespace is `database.collection`.
        pub fn $function(namespace: impl Into<String>) -> ExpectedRequest {
            command($name).of(namespace)
        }
    )+};
}

commands! {
    /// Matches an `insert` of any number of documents.
    insert: "insert";
    /// Matches an `update`. Replacements are updates, too.
    update: "update";
    /// Matches a `delete`.
    delete: "delete";
    /// Matches a `findAndModify`.
    find_and_modify: "findAndModify";
    /// Matches a `find`.
    find: "find";
    /// Matches an `aggregate`.
    aggregate: "aggregate";
    /// Matches a `getMore`.
    get_more: "getMore";
}

impl ExpectedRequest {
    /// Requires a namespace: `database.collection` or `database`.
    pub fn of(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Requires these fields, among others. Embedded documents match in the same way, arrays
    /// element by element. Numbers compare by value.
    pub fn with(mut self, fields: Document) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Requires that the field is absent.
    pub fn without(mut self, field: impl Into<String>) -> Self {
        self.absent.push(field.into());
        self
    }

    /// Requires a condition. The description appears in the report of a mismatch.
    pub fn that(
        mut self,
        words: impl Into<String>,
        condition: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.push((words.into(), Arc::new(condition)));
        self
    }

    /// Requires a server of the deployment, by its index.
    pub fn at(mut self, member: usize) -> Self {
        self.member = Some(member);
        self
    }

    /// Sets the first step of the response. Further steps follow with [`Exchange::then`].
    pub fn then(self, step: impl Into<Step>) -> Exchange {
        Exchange::new(self).then(step)
    }

    /// Computes the steps of the response for each request.
    ///
    /// ```
    /// use blackpipe::server::{find, reply};
    /// use bson::doc;
    ///
    /// let _ = find("db.things").then_with(|request| {
    ///     let asked = request.body.get_document("filter").unwrap().clone();
    ///     let cursor = doc! { "id": 0_i64, "ns": "db.things", "firstBatch": [asked] };
    ///     vec![reply(doc! { "ok": 1, "cursor": cursor })]
    /// });
    /// ```
    pub fn then_with(self, steps: impl FnMut(&Request) -> Vec<Step> + Send + 'static) -> Exchange {
        Exchange::new(self).then_with(steps)
    }

    /// Resets the connection after `bytes` bytes of the request, header included.
    ///
    /// The server reads at least 64 bytes to find the command name, or the whole request if it is
    /// shorter. Other conditions are not checked. A compressed request has no readable name and
    /// matches only [`any`].
    pub fn cut_after(self, bytes: usize) -> Exchange {
        Exchange::new(self).cut_after(bytes)
    }

    /// Expects the request this number of times, each with the default reply.
    pub fn times(self, times: usize) -> Exchange {
        Exchange::new(self).times(times)
    }

    /// Returns `true` if the request meets all conditions.
    pub fn matches(&self, request: &Request) -> bool {
        self.mismatch(request).is_none()
    }

    /// Returns `true` if a request with this command name could match.
    pub(super) fn may_match(&self, name: Option<&str>, member: usize) -> bool {
        let name_fits = match (&self.name, name) {
            (None, _) => true,
            (Some(expected), Some(name)) => is_name(expected, name),
            (Some(_), None) => false,
        };
        name_fits && self.member.is_none_or(|expected| expected == member)
    }

    /// Returns the first reason for a mismatch.
    pub(super) fn mismatch(&self, request: &Request) -> Option<String> {
        if let Some(name) = self.name.as_ref().filter(|name| !is_name(name, &request.name)) {
            return Some(format!("the command is {}, not {name}", request.name));
        }
        if let Some(expected) = self.namespace.as_ref().filter(|expected| !is_of(request, expected))
        {
            return Some(format!("the namespace is {}, not {expected}", request.namespace()));
        }
        if let Some(expected) = self.member.filter(|member| *member != request.member) {
            return Some(format!("it arrived at server {}, not {expected}", request.member));
        }
        if let Some(why) = first_missing(&request.body, &self.fields, "") {
            return Some(why);
        }
        if let Some(field) = self.absent.iter().find(|field| request.body.contains_key(field)) {
            return Some(format!("{field} is present"));
        }
        let failed = self.conditions.iter().find(|(_, condition)| !condition(request));
        failed.map(|(words, _)| format!("the condition \"{words}\" is false"))
    }
}

fn is_name(expected: &str, name: &str) -> bool {
    let is_master = |name: &str| name.eq_ignore_ascii_case("ismaster");
    expected == name || (is_master(expected) && is_master(name))
}

fn is_of(request: &Request, expected: &str) -> bool {
    match expected.contains('.') {
        true => request.namespace() == *expected,
        false => request.database == *expected,
    }
}

/// Returns the first difference to the required fields.
fn first_missing(has: &Document, expected: &Document, path: &str) -> Option<String> {
    expected.iter().find_map(|(key, value)| {
        let path = format!("{path}{key}");
        match has.get(key) {
            None => Some(format!("{path} is missing")),
            Some(has) => first_difference(has, value, &path),
        }
    })
}

fn first_difference(has: &Bson, expected: &Bson, path: &str) -> Option<String> {
    match (has, expected) {
        (Bson::Document(has), Bson::Document(expected)) => {
            first_missing(has, expected, &format!("{path}."))
        }
        (Bson::Array(has), Bson::Array(expected)) if has.len() == expected.len() => {
            let mut pairs = has.iter().zip(expected).enumerate();
            pairs.find_map(|(i, (has, expected))| {
                first_difference(has, expected, &format!("{path}.{i}"))
            })
        }
        (Bson::Array(has), Bson::Array(expected)) => {
            Some(format!("{path} has {} elements, not {}", has.len(), expected.len()))
        }
        _ if has == expected || same_number(has, expected) => None,
        _ => Some(format!("{path} is {has}, not {expected}")),
    }
}

fn same_number(one: &Bson, other: &Bson) -> bool {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        // Doubles with a fraction only equal doubles, which were compared before.
        _ => false,
    }
}

/// Returns an integer that all number types can represent.
fn whole(value: &Bson) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[allow(clippy::cast_possible_truncation)] // It is whole, and within the bounds of both.
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < MOST => {
            Some(*number as i64)
        }
        _ => None,
    }
}

/// Formats like `insert db.things with { … } without txnNumber that is in a session at server 1`.
impl fmt::Display for ExpectedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name)?,
            None => f.write_str("any command")?,
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " {namespace}")?;
        }
        if !self.fields.is_empty() {
            write!(f, " with {}", self.fields)?;
        }
        for field in &self.absent {
            write!(f, " without {field}")?;
        }
        for (words, _) in &self.conditions {
            write!(f, " that {words}")?;
        }
        match self.member {
            Some(member) => write!(f, " at server {member}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ExpectedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExpectedRequest({self})")
    }
}
