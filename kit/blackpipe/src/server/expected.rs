//! What a script expects, and why a request is not it.

use std::{fmt, sync::Arc};

use bson::{Bson, Document};

use super::{Exchange, Step};
use blackpipe_base::message::Request;

/// A request that is expected, described as far as the test cares.
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
pub struct Expected {
    name: Option<String>,
    namespace: Option<String>,
    fields: Document,
    absent: Vec<String>,
    conditions: Vec<(String, Arc<Condition>)>,
    member: Option<usize>,
}

type Condition = dyn Fn(&Request) -> bool + Send + Sync;

/// Any command.
pub fn any() -> Expected {
    Expected::default()
}

/// The command of this name. Upper and lower case are told apart, as servers do, but for `isMaster`.
pub fn command(name: impl Into<String>) -> Expected {
    Expected { name: Some(name.into()), ..Expected::default() }
}

/// A hello in any of its forms. Without being expected, it is answered as the server's role demands.
pub fn hello() -> Expected {
    any().that("is a hello", Request::is_hello)
}

macro_rules! commands {
    ($($(#[$docs:meta])* $function:ident: $name:literal;)+) => {$(
        $(#[$docs])*
        /// The namespace is `database.collection`.
        pub fn $function(namespace: impl Into<String>) -> Expected {
            command($name).of(namespace)
        }
    )+};
}

commands! {
    /// An `insert` of any number of documents.
    insert: "insert";
    /// An `update`, which is also what a replacement is.
    update: "update";
    /// A `delete`.
    delete: "delete";
    /// A `findAndModify`.
    find_and_modify: "findAndModify";
    /// A `find`.
    find: "find";
    /// An `aggregate`.
    aggregate: "aggregate";
    /// A `getMore`.
    get_more: "getMore";
}

impl Expected {
    /// Sent to this namespace, `database.collection` or just `database`.
    pub fn of(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// With these fields, among others. A document within is asked for its fields in the same way;
    /// of an array, each element is; numbers are compared by value, whatever their type.
    pub fn with(mut self, fields: Document) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Without this field.
    pub fn without(mut self, field: impl Into<String>) -> Self {
        self.absent.push(field.into());
        self
    }

    /// For which this holds. The words stand for the condition when it does not.
    pub fn that(
        mut self,
        words: impl Into<String>,
        condition: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.push((words.into(), Arc::new(condition)));
        self
    }

    /// Sent to this member of the deployment, counted from 0.
    pub fn at(mut self, member: usize) -> Self {
        self.member = Some(member);
        self
    }

    /// What happens when it comes; what is said further happens after that.
    pub fn then(self, step: impl Into<Step>) -> Exchange {
        Exchange::new(self).then(step)
    }

    /// What happens when it comes, made for the request.
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

    /// The connection is reset when `bytes` bytes of the request, its header included, have been
    /// read; the rest is not. (It must be known by then what it is, so that at least its first 64
    /// bytes are read, or all of it if it is shorter.) That is decided before the request is known:
    /// only its name is looked at, and of a compressed request not even that.
    pub fn cut_after(self, bytes: usize) -> Exchange {
        Exchange::new(self).cut_after(bytes)
    }

    /// This many times instead of once, each time answered as usual.
    pub fn times(self, times: usize) -> Exchange {
        Exchange::new(self).times(times)
    }

    /// Whether this is the request.
    pub fn matches(&self, request: &Request) -> bool {
        self.mismatch(request).is_none()
    }

    /// Whether a request of this name could be it.
    pub(super) fn may_be(&self, name: Option<&str>, member: usize) -> bool {
        let name_fits = match (&self.name, name) {
            (None, _) => true,
            (Some(wanted), Some(name)) => is_name(wanted, name),
            (Some(_), None) => false,
        };
        name_fits && self.member.is_none_or(|wanted| wanted == member)
    }

    /// The first reason why this is not the request.
    pub(super) fn mismatch(&self, request: &Request) -> Option<String> {
        if let Some(name) = self.name.as_ref().filter(|name| !is_name(name, &request.name)) {
            return Some(format!("it is not {name}"));
        }
        if let Some(wanted) = self.namespace.as_ref().filter(|wanted| !is_of(request, wanted)) {
            return Some(format!("it is not of {wanted}"));
        }
        if let Some(wanted) = self.member.filter(|member| *member != request.member) {
            return Some(format!("it came to server {}, not {wanted}", request.member));
        }
        if let Some(why) = lacks(&request.body, &self.fields, "") {
            return Some(why);
        }
        if let Some(field) = self.absent.iter().find(|field| request.body.contains_key(field)) {
            return Some(format!("it has the field {field}"));
        }
        let failed = self.conditions.iter().find(|(_, condition)| !condition(request));
        failed.map(|(words, _)| format!("it is not one that {words}"))
    }
}

fn is_name(wanted: &str, name: &str) -> bool {
    let is_master = |name: &str| name.eq_ignore_ascii_case("ismaster");
    wanted == name || (is_master(wanted) && is_master(name))
}

fn is_of(request: &Request, wanted: &str) -> bool {
    match wanted.contains('.') {
        true => request.namespace() == *wanted,
        false => request.database == *wanted,
    }
}

/// The first thing that is not in a document as it is wanted.
fn lacks(has: &Document, wanted: &Document, path: &str) -> Option<String> {
    wanted.iter().find_map(|(key, value)| {
        let path = format!("{path}{key}");
        match has.get(key) {
            None => Some(format!("it lacks {path}")),
            Some(has) => differs(has, value, &path),
        }
    })
}

fn differs(has: &Bson, wanted: &Bson, path: &str) -> Option<String> {
    match (has, wanted) {
        (Bson::Document(has), Bson::Document(wanted)) => lacks(has, wanted, &format!("{path}.")),
        (Bson::Array(has), Bson::Array(wanted)) if has.len() == wanted.len() => {
            let mut pairs = has.iter().zip(wanted).enumerate();
            pairs.find_map(|(i, (has, wanted))| differs(has, wanted, &format!("{path}.{i}")))
        }
        (Bson::Array(has), Bson::Array(wanted)) => {
            Some(format!("{path} has {} elements, not {}", has.len(), wanted.len()))
        }
        _ if has == wanted || same_number(has, wanted) => None,
        _ => Some(format!("{path} is {has}, not {wanted}")),
    }
}

fn same_number(one: &Bson, other: &Bson) -> bool {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        // Of two that are not both whole, only the same kind of number is the same.
        _ => false,
    }
}

/// The number, if it is whole and all types of numbers can say it.
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

/// `insert db.things with { … } without txnNumber that is in a session at server 1`.
impl fmt::Display for Expected {
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

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expected({self})")
    }
}
