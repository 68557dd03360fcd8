//! Check whether an update is idempotent, without a server.
//!
//! An update is *idempotent* if a second execution leaves every document as the first one left it.
//! [`of_update`] checks the update alone. [`of_update_one`] and [`of_update_many`] also check the filter, which
//! selects the document of the second execution.
//!
//! | | |
//! |---|---|
//! | `$set` `$unset` `$setOnInsert` `$min` `$max` `$addToSet` `$pull` `$pullAll` `$rename`, `$bit` with `and` and `or` | idempotent |
//! | `$inc` `$mul` `$push` `$pop` `$currentDate`, `$bit` with `xor` | not: each execution changes the document |
//! | a whole document (a replacement) | idempotent, unless a field is the empty `Timestamp(0, 0)`, which the server replaces by the time |
//! | a pipeline, an operator that is not listed | unknown |
//! | a path with `$`, the element that matched | not: another element may match the second time |
//! | a path with `$[]`, or with `$[name]` | idempotent, if all paths through that array select its elements in the same way; otherwise unknown: the change of one path may make another match more elements |
//! | an update of one document whose filter does not contain the `_id` | not: another document may match the second time |
//! | an upsert | only if the filter contains the `_id`, and otherwise only equalities on fields that the update does not change; else the second execution may insert another document, or fail |
//! | a filter with `$rand`, `$sampleRate`, `$where` or `$function` | unknown: other documents may match the second time |
//!
//! The check does not consider whether the filter still matches the second time. An update that makes its own
//! filter false, as those of [the counter](crate::counter), is idempotent with any operator; the check does not
//! detect that.
//!
//! # Limits
//!
//! Between two attempts another client may write. The second execution of `{ $set: { state: "paid" } }` then
//! overwrites the `state` that it has set, like a single execution at the later moment. To prevent that, add what
//! you have read to the filter (a version, the old state), so that a late update matches nothing.
//! The same holds for an attempt after a time-out: the server may execute it later, after your next writes.
//!
//! ```
//! use steadfast::bson::doc;
//! use steadfast_patterns::idempotent::update::of_update;
//!
//! assert!(of_update(&doc! { "$set": { "sunny": true } }.into(), &[]).is_idempotent());
//! let counts = of_update(&doc! { "$inc": { "counter": 1 } }.into(), &[]);
//! assert_eq!(counts.reason(), Some("$inc of \"counter\" adds at each execution"));
//! ```

mod operators;
mod paths;

use std::fmt;

use bson::{Bson, Document};

use super::filter;
use steadfast::options::{UpdateModifications, UpdateOptions};

use self::paths::ChangedPaths;

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// A second execution changes nothing.
    Idempotent,
    /// A second execution may change something, for this reason.
    NotIdempotent(String),
    /// Unknown, for this reason. It is not safe to retry.
    Unknown(String),
}

impl Idempotence {
    /// Returns `true` if it is certainly idempotent.
    pub fn is_idempotent(&self) -> bool {
        matches!(self, Self::Idempotent)
    }

    /// Returns the reason why it is not idempotent, or not known to be.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Idempotent => None,
            Self::NotIdempotent(reason) | Self::Unknown(reason) => Some(reason),
        }
    }

    /// Returns the result of `next` if this is idempotent.
    fn and(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Idempotent => next(),
            Self::NotIdempotent(_) | Self::Unknown(_) => self,
        }
    }
}

impl fmt::Display for Idempotence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idempotent => f.write_str("idempotent"),
            Self::NotIdempotent(reason) => write!(f, "not idempotent: {reason}"),
            Self::Unknown(reason) => write!(f, "not known to be idempotent: {reason}"),
        }
    }
}

/// Checks the operators of an update.
pub fn of_update(update: &UpdateModifications, array_filters: &[Document]) -> Idempotence {
    let document = match update {
        UpdateModifications::Document(document) => document,
        UpdateModifications::Pipeline(_) => {
            let reason = "a pipeline can compute a value from the result of the first execution";
            return Idempotence::Unknown(reason.to_owned());
        }
        _ => {
            return Idempotence::Unknown(
                "the check does not support this form of update".to_owned(),
            );
        }
    };
    if !is_operators(document) {
        return of_replacement(document);
    }
    let mut changed = ChangedPaths::default();
    for (operator, arguments) in document {
        let check = operators::of_operator(operator, arguments, &mut changed);
        if !check.is_idempotent() {
            return check;
        }
    }
    changed.idempotence().and(|| check_random(array_filters, "the array filters"))
}

/// Checks an `update_one`: the operators, and whether the filter selects the same document again.
///
/// ```
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent::update::of_update_one;
///
/// let take = doc! { "$set": { "state": "taken" } }.into();
/// assert!(of_update_one(&doc! { "_id": 7, "state": "new" }, &take, None).is_idempotent());
/// // The second execution would update another document.
/// assert!(!of_update_one(&doc! { "state": "new" }, &take, None).is_idempotent());
/// ```
pub fn of_update_one(
    filter: &Document,
    update: &UpdateModifications,
    options: Option<&UpdateOptions>,
) -> Idempotence {
    let collated = filter::is_collated(options.and_then(|options| options.collation.as_ref()));
    of_update_many(filter, update, options).and(|| {
        if filter::pins_id(filter, collated) {
            return Idempotence::Idempotent;
        }
        let mut reason = "the filter does not contain the _id, so a second execution may update \
                          another document"
            .to_owned();
        if collated && filter::pins_id(filter, false) {
            reason = "with the collation, several _ids may equal the one in the filter".to_owned();
        }
        Idempotence::NotIdempotent(reason)
    })
}

/// Checks an `update_many`: the operators, and that an upsert does not insert twice.
pub fn of_update_many(
    filter: &Document,
    update: &UpdateModifications,
    options: Option<&UpdateOptions>,
) -> Idempotence {
    let array_filters = options.and_then(|options| options.array_filters.as_deref());
    let variables = options.and_then(|options| options.let_vars.as_ref());
    let upsert = options.and_then(|options| options.upsert).unwrap_or(false);
    let collated = filter::is_collated(options.and_then(|options| options.collation.as_ref()));
    of_update(update, array_filters.unwrap_or_default())
        .and(|| check_random([filter], "the filter"))
        .and(|| check_random(variables, "a variable"))
        .and(|| match upsert {
            true => of_upsert(filter, update, collated),
            false => Idempotence::Idempotent,
        })
}

/// Checks that a second upsert finds the document that the first inserted.
fn of_upsert(filter: &Document, update: &UpdateModifications, collated: bool) -> Idempotence {
    if !filter::pins_id(filter, collated) {
        return Idempotence::NotIdempotent(
            "the filter of the upsert does not contain the _id, so a second execution may insert another \
             document"
                .to_owned(),
        );
    }
    let Some(equal) = filter::equalities_only(filter) else {
        return Idempotence::Unknown(
            "the filter of the upsert has conditions other than equalities: it may not match the \
             inserted document, and a second upsert would fail with a duplicate key"
                .to_owned(),
        );
    };
    let altered = equal.into_iter().find(|path| *path != "_id" && alters(update, filter, path));
    match altered {
        Some(path) => Idempotence::Unknown(format!(
            "the update changes {path:?}, a field of the upsert's filter: the filter may not match the \
             inserted document, and a second upsert would fail with a duplicate key"
        )),
        None => Idempotence::Idempotent,
    }
}

/// Returns `true` if the inserted document may differ from the filter at this path. An update with operators keeps
/// the fields of the filter; a replacement has only its own fields.
fn alters(update: &UpdateModifications, filter: &Document, path: &str) -> bool {
    match update {
        UpdateModifications::Document(document) if is_operators(document) => {
            let mut changed = ChangedPaths::default();
            for (operator, arguments) in document {
                operators::of_operator(operator, arguments, &mut changed);
            }
            changed.overlaps_with(path)
        }
        UpdateModifications::Document(whole) => whole.get(path) != filter::equality(filter, path),
        // A pipeline may change any field.
        _ => true,
    }
}

/// Checks a replacement. A server replaces an empty timestamp in its top-level fields, except `_id`, by the time.
/// (It does not for `$set`.)
fn of_replacement(document: &Document) -> Idempotence {
    let empty = Bson::Timestamp(bson::Timestamp { time: 0, increment: 0 });
    match document.iter().find(|(key, value)| *key != "_id" && **value == empty) {
        None => Idempotence::Idempotent,
        Some((key, _)) => Idempotence::NotIdempotent(format!(
            "the server replaces the empty timestamp in {key:?} by the time of each execution"
        )),
    }
}

fn check_random<'d>(
    conditions: impl IntoIterator<Item = &'d Document>,
    subject: &str,
) -> Idempotence {
    match conditions.into_iter().find_map(filter::random_operator) {
        None => Idempotence::Idempotent,
        Some(operator) => Idempotence::Unknown(format!(
            "with {operator}, {subject} may evaluate differently at the second execution"
        )),
    }
}

fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|key| key.starts_with('$'))
}

#[cfg(test)]
mod tests;
