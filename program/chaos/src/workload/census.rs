//! Counts the marks of the writes in the database.

use std::{collections::BTreeMap, error::Error, time::Duration};

use steadfast::{
    bson::{Bson, Document, doc},
    options::{ReadPreference, SelectionCriteria},
};

use super::{
    sequence::Sequence,
    target::{Target, UNTOUCHED, number},
};
use crate::account::Kind;

/// Pause between two counts.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of counts.
const MAX_COUNTS: u32 = 12;

/// Number of applications of each mark that was applied.
type Census = BTreeMap<u64, u64>;

/// Counts until two consecutive counts are equal.
pub(super) async fn take(
    target: &Target,
    sequence: &Sequence,
    operations: u64,
) -> Result<Census, Box<dyn Error>> {
    // Majority writes on all primaries make earlier writes durable.
    let last = (0..target.last_writes()).map(|_| doc! { "last": true });
    target.durably(&target.last()).insert_many(last).await?;
    let changing = "the database is still changing: check that no other client writes to it";
    let mut before = Err(changing.into());
    for _ in 0..MAX_COUNTS {
        let now = count(target, sequence, operations).await;
        match (&before, &now) {
            (Ok(before), Ok(same)) if before == same => return now,
            // The first counts can fail while the deployment recovers.
            (_, Ok(_) | Err(_)) => before = now,
        }
        tokio::time::sleep(PAUSE).await;
    }
    before.and(Err(changing.into()))
}

async fn count(
    target: &Target,
    sequence: &Sequence,
    operations: u64,
) -> Result<Census, Box<dyn Error>> {
    let mut tally = Tally::new(operations);
    for collection in target.collections() {
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let collection = target.durably(collection);
        let mut cursor = collection.find(doc! {}).selection_criteria(primary).await?;
        while cursor.advance().await? {
            tally.add(&cursor.deserialize_current()?);
        }
    }
    let prepared =
        (0..operations).flat_map(|operation| target.prepared(sequence.kind(operation), operation));
    Ok(tally.conclude(prepared, target.copies()))
}

/// A count in progress.
struct Tally {
    times: Census,
    /// Number of untouched documents by mark.
    untouched: Vec<u8>,
    /// First number that is not a mark.
    end: u64,
}

impl Tally {
    fn new(operations: u64) -> Self {
        let end = operations * Kind::MARKS;
        let untouched = vec![0; usize::try_from(end).unwrap_or_default()];
        Self { times: Census::new(), untouched, end }
    }

    /// Counts the marks of a document.
    fn add(&mut self, document: &Document) {
        if let Some(counter) = document.get("counter") {
            self.applied(document.get("_id"), whole(Some(counter)));
        } else if let Ok(log) = document.get_array("log") {
            self.add_log(document, log);
        } else if let Ok(state) = document.get_str("state") {
            if state == UNTOUCHED {
                self.left(document.get("mark"));
            }
        } else {
            self.applied(document.get("mark"), 1);
        }
    }

    /// Counts the marks of a log. If the document has a counter with another value, the difference is counted as a
    /// mark of no operation: the first number after all marks plus the `_id` of the log.
    fn add_log(&mut self, document: &Document, log: &[Bson]) {
        for mark in log {
            self.applied(Some(mark), 1);
        }
        if let Some(counter) = document.get("n") {
            let difference = whole(Some(counter)).abs_diff(log.len() as u64);
            let none = self.end + whole(document.get("_id"));
            self.applied(Some(&number(none)), difference);
        }
    }

    fn applied(&mut self, mark: Option<&Bson>, times: u64) {
        if times > 0 {
            *self.times.entry(whole(mark)).or_default() += times;
        }
    }

    fn left(&mut self, mark: Option<&Bson>) {
        let count = usize::try_from(whole(mark)).ok().and_then(|mark| self.untouched.get_mut(mark));
        match count {
            Some(count) => *count = count.saturating_add(1),
            None => self.applied(mark, 1),
        }
    }

    /// Counts each prepared document that is not untouched as one application.
    fn conclude(mut self, prepared: impl Iterator<Item = u64>, copies: u8) -> Census {
        for mark in prepared {
            let left = usize::try_from(mark).map_or(0, |mark| self.untouched[mark]);
            let times = copies.abs_diff(left);
            self.applied(Some(&number(mark)), times.into());
        }
        self.times
    }
}

/// Returns the value of a mark or counter. Any other value becomes a number that is not a mark.
fn whole(number: Option<&Bson>) -> u64 {
    let number = match number {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        _ => i64::MAX,
    };
    u64::try_from(number).unwrap_or(u64::MAX)
}
