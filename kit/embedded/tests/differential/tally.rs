//! Counts of results: a run in which all operations fail proves nothing.

use std::{collections::BTreeMap, fmt};

use bson::Document;

#[derive(Default)]
pub(crate) struct Tally {
    kinds: BTreeMap<String, OutcomeCounts>,
    /// Number of operations for which the real servers disagreed.
    pub(crate) undecided: usize,
}

#[derive(Default)]
struct OutcomeCounts {
    done: usize,
    /// Operations without effect: nothing found, or nothing changed.
    idle: usize,
    rejected: usize,
}

impl Tally {
    /// Counts the result of a command.
    pub(crate) fn note(&mut self, command: &Document, reply: &Document) {
        let kind = command.keys().next().cloned().unwrap_or_default();
        let outcomes = self.kinds.entry(kind).or_default();
        let rejected = reply.contains_key("code") || reply.contains_key("writeErrors");
        match (rejected, is_idle(reply)) {
            (true, _) => outcomes.rejected += 1,
            (false, true) => outcomes.idle += 1,
            (false, false) => outcomes.done += 1,
        }
    }

    pub(crate) fn operations(&self) -> usize {
        self.kinds.values().map(|it| it.done + it.idle + it.rejected).sum()
    }
}

fn is_idle(reply: &Document) -> bool {
    let found = |name| reply.get_array(name).is_ok_and(|it| !it.is_empty());
    if let Ok(cursor) = reply.get_document("cursor") {
        return cursor.get_array("firstBatch").is_ok_and(Vec::is_empty);
    }
    match (reply.get_document("lastErrorObject"), reply.get_i32("n")) {
        (Ok(last), _) => last.get_i32("n").is_ok_and(|n| n == 0),
        (Err(_), Ok(n)) => n == 0,
        (Err(_), Err(_)) => !found("values"),
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, undecided) = (self.operations(), self.undecided);
        writeln!(f, "{operations} operations; the real servers did not agree on {undecided}")?;
        for (kind, OutcomeCounts { done, idle, rejected }) in &self.kinds {
            writeln!(
                f,
                "  {kind:<14}{done:>7} done,{idle:>7} to no effect,{rejected:>7} rejected"
            )?;
        }
        Ok(())
    }
}
