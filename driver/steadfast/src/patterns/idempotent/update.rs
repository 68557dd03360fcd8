//! Whether an update can be sent twice and do no more than once: a check without a server.
//!
//! An update is *idempotent* if, for every document, carrying it out twice leaves what carrying it out
//! once leaves. [`of_update`] looks at the update alone; [`of_update_one`] and [`of_update_many`] also at
//! the filter, which decides *which* document the second time.
//!
//! | | |
//! |---|---|
//! | `$set` `$unset` `$setOnInsert` `$min` `$max` `$addToSet` `$pull` `$pullAll` `$rename`, `$bit` with `and` and `or` | idempotent |
//! | `$inc` `$mul` `$push` `$pop` `$currentDate`, `$bit` with `xor` | not: each time does more, or something else |
//! | a whole document (a replacement) | idempotent, unless a field of it is the empty `Timestamp(0, 0)`, for which the server puts in the time |
//! | a pipeline, an operator that is not listed | unknown |
//! | a path with `$`, the element that matched | not: the second time another element may match |
//! | a path with `$[]`, or with `$[name]` | idempotent, if all paths through that array choose its elements in the same way; else unknown: what one path changes may make another match more elements |
//! | an update of one document whose filter does not say the `_id` | not: the second time it may take another document |
//! | an upsert | only if the filter says the `_id`, and otherwise only what other fields equal, which the update leaves alone; else the second time it may insert another document, or be refused |
//! | a filter with `$rand`, `$sampleRate`, `$where` or `$function` | unknown: the second time it may match others |
//!
//! The check does not reason about whether the filter still matches the second time: an update that makes
//! its own filter false, as [the counter](crate::patterns::counter) does it, is repeatable whatever its
//! operators, and the check does not see it.
//!
//! # What idempotent does not mean
//!
//! Between two sendings somebody else may have written. The second sending of `{ $set: { state: "paid" } }`
//! then writes over a `state` that another has set meanwhile. It is as if the update had come at the
//! later moment, once; if that is wrong for you, say in the filter what you have seen (a version, the old
//! state), so that a late update matches nothing. The same holds for a sending that was given up because no
//! reply came in time: the server may carry it out later, and after what you have written since.
//!
//! ```
//! use steadfast::{bson::doc, patterns::idempotent::update::of_update};
//!
//! assert!(of_update(&doc! { "$set": { "sunny": true } }.into(), &[]).is_idempotent());
//! let counts = of_update(&doc! { "$inc": { "counter": 1 } }.into(), &[]);
//! assert_eq!(counts.reason(), Some("$inc of \"counter\" adds each time that it is carried out"));
//! ```

mod operators;
mod paths;

use std::fmt;

use bson::{Bson, Document};

use super::filter;
use crate::options::{UpdateModifications, UpdateOptions};

use self::paths::Touched;

/// Whether carrying something out twice leaves what carrying it out once leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// It does, whatever the document.
    Idempotent,
    /// It may do more the second time, for this reason.
    NotIdempotent(String),
    /// It cannot be told, for this reason. It is not safe to repeat.
    Unknown(String),
}

impl Idempotence {
    /// Whether it is certain to be idempotent.
    pub fn is_idempotent(&self) -> bool {
        matches!(self, Self::Idempotent)
    }

    /// Why it is not, or why it cannot be told.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Idempotent => None,
            Self::NotIdempotent(reason) | Self::Unknown(reason) => Some(reason),
        }
    }

    /// This, unless it is idempotent; then what `next` says.
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

/// Whether an update does to each document the second time what it did the first, by its operators.
pub fn of_update(update: &UpdateModifications, array_filters: &[Document]) -> Idempotence {
    let document = match update {
        UpdateModifications::Document(document) => document,
        UpdateModifications::Pipeline(_) => {
            let reason = "a pipeline can compute a value from what it made the time before";
            return Idempotence::Unknown(reason.to_owned());
        }
    };
    if !is_operators(document) {
        return of_replacement(document);
    }
    let mut touched = Touched::default();
    for (operator, arguments) in document {
        let verdict = operators::of_operator(operator, arguments, &mut touched);
        if !verdict.is_idempotent() {
            return verdict;
        }
    }
    touched.idempotence().and(|| by_chance(array_filters, "the array filters"))
}

/// Whether an `update_one` can be sent twice: the update, and whether it is sure to take the same
/// document.
///
/// ```
/// use steadfast::{bson::doc, patterns::idempotent::update::of_update_one};
///
/// let take = doc! { "$set": { "state": "taken" } }.into();
/// assert!(of_update_one(&doc! { "_id": 7, "state": "new" }, &take, None).is_idempotent());
/// // The second time, this would take another one.
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
        let mut reason = "the filter does not say which _id the document has, so that the second \
                          time another document may be updated"
            .to_owned();
        if collated && filter::pins_id(filter, false) {
            reason = "by the collation, several _ids may equal the one in the filter".to_owned();
        }
        Idempotence::NotIdempotent(reason)
    })
}

/// Whether an `update_many` can be sent twice: the update, and of an upsert, whether it is sure not to
/// insert twice.
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
        .and(|| by_chance([filter], "the filter"))
        .and(|| by_chance(variables, "a variable"))
        .and(|| match upsert {
            true => of_upsert(filter, update, collated),
            false => Idempotence::Idempotent,
        })
}

/// Whether a second upsert finds what the first has inserted.
fn of_upsert(filter: &Document, update: &UpdateModifications, collated: bool) -> Idempotence {
    if !filter::pins_id(filter, collated) {
        return Idempotence::NotIdempotent(
            "the filter of the upsert does not say which _id the document has, so that the second \
             time another document may be inserted"
                .to_owned(),
        );
    }
    let Some(equal) = filter::equalities_only(filter) else {
        return Idempotence::Unknown(
            "the filter of the upsert demands more than equalities, so that it may not match what \
             the upsert has inserted, and the second upsert would be refused"
                .to_owned(),
        );
    };
    let altered = equal.into_iter().find(|path| *path != "_id" && alters(update, filter, path));
    match altered {
        Some(path) => Idempotence::Unknown(format!(
            "the update changes {path:?}, which the filter of the upsert is about, so that it may \
             not match what the upsert has inserted, and the second upsert would be refused"
        )),
        None => Idempotence::Idempotent,
    }
}

/// Whether what an upsert inserts may be another there than the filter says. An update leaves what the
/// filter has begun with; a whole document has only its own fields.
fn alters(update: &UpdateModifications, filter: &Document, path: &str) -> bool {
    match update {
        UpdateModifications::Document(document) if is_operators(document) => {
            let mut touched = Touched::default();
            for (operator, arguments) in document {
                operators::of_operator(operator, arguments, &mut touched);
            }
            touched.meets(path)
        }
        UpdateModifications::Document(whole) => whole.get(path) != filter::equality(filter, path),
        UpdateModifications::Pipeline(_) => true,
    }
}

/// A server fills in an empty timestamp that is a field of a whole document, `_id` aside. (Of `$set` it
/// leaves it as it is.)
fn of_replacement(document: &Document) -> Idempotence {
    let empty = Bson::Timestamp(bson::Timestamp { time: 0, increment: 0 });
    match document.iter().find(|(key, value)| *key != "_id" && **value == empty) {
        None => Idempotence::Idempotent,
        Some((key, _)) => Idempotence::NotIdempotent(format!(
            "the server puts the time into {key:?}, which is an empty timestamp, each time anew"
        )),
    }
}

fn by_chance<'d>(conditions: impl IntoIterator<Item = &'d Document>, whose: &str) -> Idempotence {
    match conditions.into_iter().find_map(filter::chance) {
        None => Idempotence::Idempotent,
        Some(operator) => Idempotence::Unknown(format!(
            "with {operator}, {whose} may say something else the second time"
        )),
    }
}

fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|key| key.starts_with('$'))
}

#[cfg(test)]
mod tests;
