//! Filters, updates and pipelines of the counter, as plain documents.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};

use super::{Intent, candidate::Tokens, fields::Fields};

/// An update of one document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    pub(super) filter: Document,
    pub(super) update: Document,
}

/// Inserts the document of a counter if it is missing: an upsert.
///
/// Step one cannot be an upsert itself: servers reject `$expr` in the filter of an upsert.
pub(super) fn create(fields: &Fields, id: &Bson) -> Statement {
    Statement {
        filter: doc! { "_id": id.clone() },
        update: doc! { "$setOnInsert": { &fields.counter: 0_i64 } },
    }
}

/// Step one: the token becomes pending, unless it is done, or too late by the server's clock.
pub(super) fn step_one(fields: &Fields, intent: &Intent) -> Statement {
    let Fields { pending, done, .. } = fields;
    let Intent { id, token, by, since, until, .. } = intent;
    let entry = doc! { "token": token, "by": by, "until": until };
    Statement {
        filter: doc! {
            "_id": id.clone(),
            format!("{done}.token"): { "$ne": token },
            "$expr": { "$and": [
                { "$gte": ["$$NOW", since] },
                { "$lt": ["$$NOW", until] },
            ] },
        },
        update: doc! { "$addToSet": { pending: entry } },
    }
}

/// Step two: removes the token from `pending` and increments the counter, in one update. A repeated execution
/// matches nothing.
pub(super) fn step_two(fields: &Fields, intent: &Intent, leaves_tombstone: bool) -> Statement {
    let Fields { counter, pending, done } = fields;
    let Intent { id, token, by, until, .. } = intent;
    let mut update = doc! {
        "$pull": { pending: { "token": token } },
        "$inc": { counter: by },
    };
    if leaves_tombstone {
        update.insert("$push", doc! { done: tombstone(*token, *until) });
    }
    Statement { filter: doc! { "_id": id.clone(), format!("{pending}.token"): token }, update }
}

/// Gives up: prevents the token from becoming pending. Matches nothing if the token is pending or done, or if
/// tombstones of its age may have been removed.
pub(super) fn give_up(fields: &Fields, intent: &Intent, keep: Duration) -> Statement {
    let Fields { pending, done, .. } = fields;
    let Intent { id, token, until, .. } = intent;
    let mut never = tombstone(*token, *until);
    never.insert("counted", false);
    Statement {
        filter: doc! {
            "_id": id.clone(),
            format!("{pending}.token"): { "$ne": token },
            format!("{done}.token"): { "$ne": token },
            "$expr": { "$lt": ["$$NOW", later(*until, keep)] },
        },
        update: doc! { "$push": { done: never } },
    }
}

/// Removes the tombstone of a token, if no step one of it can arrive any more.
pub(super) fn remove_tombstone(fields: &Fields, intent: &Intent, margin: Duration) -> Statement {
    let Intent { id, token, until, .. } = intent;
    Statement {
        filter: doc! {
            "_id": id.clone(),
            "$expr": { "$gte": ["$$NOW", later(*until, margin)] },
        },
        update: doc! { "$pull": { &fields.done: { "token": token } } },
    }
}

fn tombstone(token: ObjectId, until: DateTime) -> Document {
    doc! { "token": token, "until": until }
}

/// Reads the state of a token and the time of the server.
pub(super) fn read_token(fields: &Fields, intent: &Intent) -> [Document; 2] {
    let Fields { pending, done, .. } = fields;
    let token = intent.token;
    let tokens = format!("${pending}.token");
    [
        doc! { "$match": { "_id": intent.id.clone() } },
        doc! { "$project": {
            "_id": 0,
            "now": "$$NOW",
            "pending": { "$cond": [
                { "$isArray": &tokens },
                { "$in": [token, &tokens] },
                false,
            ] },
            "done": { "$filter": {
                "input": elements(done),
                "as": "tombstone",
                "cond": { "$eq": ["$$tombstone.token", token] },
            } },
        } },
    ]
}

/// Ages of tokens and tombstones at which the sweep processes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SweepAges {
    pub(super) margin: Duration,
    pub(super) keep: Duration,
    pub(super) plain: Duration,
}

impl SweepAges {
    /// Returns the latest `until` of tombstones that can be removed at the server time `now`.
    pub(super) fn newest_removable_tombstone(&self, now: DateTime) -> DateTime {
        earlier(earlier(now, self.margin), self.keep)
    }
}

/// Finds the counters with something to sweep. Of each: the tokens that are due (`dated` and `plain`), the
/// number of pending ones, and the number of tombstones that can be removed (`old`).
pub(super) fn candidates(fields: &Fields, ages: &SweepAges) -> [Document; 3] {
    let Fields { pending, done, .. } = fields;
    let keep = ages.margin.saturating_add(ages.keep);
    let is = |what: &str, kind: &str| doc! { "$eq": [{ "$type": what }, kind] };
    let dated = doc! { "$and": [
        is("$$entry.token", "objectId"),
        is("$$entry.until", "date"),
        { "$in": [{ "$type": "$$entry.by" }, ["int", "long"]] },
        { "$lte": ["$$entry.until", ago(ages.margin)] },
    ] };
    let time = doc! { "$convert": {
        "input": "$$entry", "to": "date", "onError": Bson::Null, "onNull": Bson::Null,
    } };
    let plain = doc! { "$and": [is("$$entry", "objectId"), { "$lte": [time, ago(ages.plain)] }] };
    let old = doc! { "$and": [
        is("$$entry.until", "date"),
        { "$lte": ["$$entry.until", ago(keep)] },
    ] };
    let of = |array: &str, condition: Document| {
        doc! { "$filter": { "input": elements(array), "as": "entry", "cond": condition } }
    };
    [
        doc! { "$match": { "$or": [
            { format!("{pending}.0"): { "$exists": true } },
            { format!("{done}.0"): { "$exists": true } },
        ] } },
        doc! { "$project": {
            "now": "$$NOW",
            "dated": of(pending, dated),
            "plain": of(pending, plain),
            "pending": { "$size": elements(pending) },
            "old": { "$size": of(done, old) },
        } },
        doc! { "$match": { "$or": [{ "pending": { "$gt": 0 } }, { "old": { "$gt": 0 } }] } },
    ]
}

/// Step two of several tokens of one counter, if all of them are pending and due.
///
/// It always leaves tombstones, for a step one that a server or mongos has delayed since before `until`. Plain
/// tokens have none, because their writers would not look for them.
pub(super) fn step_two_of_all(
    fields: &Fields,
    id: &Bson,
    tokens: Tokens<'_>,
    by: i64,
    ages: &SweepAges,
) -> Statement {
    let Fields { counter, pending, done } = fields;
    let from = |due: Option<DateTime>| {
        let due = due.unwrap_or(DateTime::MAX);
        doc! { "_id": id.clone(), "$expr": { "$gte": ["$$NOW", due] } }
    };
    let mut update = doc! { "$inc": { counter: by } };
    let filter = match tokens {
        Tokens::Dated(tokens) => {
            let all: Vec<_> = tokens.iter().map(|token| token.token).collect();
            let tombstones: Vec<_> =
                tokens.iter().map(|token| tombstone(token.token, token.until)).collect();
            update.insert("$pull", doc! { pending: { "token": { "$in": &all } } });
            update.insert("$push", doc! { done: { "$each": tombstones } });
            let latest = tokens.iter().map(|token| token.until).max();
            let mut filter = from(latest.map(|until| later(until, ages.margin)));
            filter.insert(format!("{pending}.token"), doc! { "$all": all });
            filter
        }
        Tokens::Plain(tokens) => {
            update.insert("$pull", doc! { pending: { "$in": tokens } });
            let latest = tokens.iter().map(ObjectId::timestamp).max();
            let mut filter = from(latest.map(|made| later(made, ages.plain)));
            filter.insert(pending, doc! { "$all": tokens });
            filter
        }
    };
    Statement { filter, update }
}

/// Removes the tombstones of a counter whose `until` is not after `last`.
pub(super) fn remove_tombstones(fields: &Fields, id: &Bson, last: DateTime) -> Statement {
    Statement {
        filter: doc! { "_id": id.clone() },
        update: doc! { "$pull": { &fields.done: { "until": { "$lte": last } } } },
    }
}

/// Elements of an array; none if the field is not an array.
fn elements(field: &str) -> Document {
    let field = format!("${field}");
    doc! { "$cond": [{ "$isArray": &field }, &field, []] }
}

/// Time of the server minus `duration`.
fn ago(duration: Duration) -> Document {
    doc! { "$subtract": ["$$NOW", millis(duration)] }
}

pub(super) fn later(time: DateTime, by: Duration) -> DateTime {
    DateTime::from_millis(time.timestamp_millis().saturating_add(millis(by)))
}

pub(super) fn earlier(time: DateTime, by: Duration) -> DateTime {
    DateTime::from_millis(time.timestamp_millis().saturating_sub(millis(by)))
}

/// Duration in milliseconds, at most a thousand years.
fn millis(duration: Duration) -> i64 {
    const THOUSAND_YEARS: i64 = 1000 * 366 * 24 * 60 * 60 * 1000;
    i64::try_from(duration.as_millis()).unwrap_or(THOUSAND_YEARS).min(THOUSAND_YEARS)
}
