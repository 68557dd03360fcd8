//! Status as a table, and as fields for programs.

use std::fmt;

use bson::Document;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{BalancerVerdict, Status};
use crate::zones::shell::ShellDocument;

/// Largest number of misplaced chunks in the table.
const MAX_SHOWN_CHUNKS: usize = 10;

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shard_key {
            Some(key) => writeln!(f, "{}, sharded by {}", self.collection, ShellDocument(key))?,
            None => writeln!(f, "{}, not sharded", self.collection)?,
        }
        writeln!(f)?;
        let mut shards = vec![row(["shard", "zones", "datacenter", "chunks", "misplaced"])];
        shards.extend(self.shards.iter().map(|shard| {
            row([
                &shard.name,
                &or_dash(&shard.zones.join(", ")),
                shard.datacenter.as_deref().unwrap_or("-"),
                &shard.chunks.to_string(),
                &shard.misplaced.to_string(),
            ])
        }));
        table(f, &shards)?;
        writeln!(f)?;
        let mut ranges = vec![row(["datacenter", "from", "up to", "zone"])];
        ranges.extend(self.ranges.iter().map(|range| {
            let zone = range.zone.as_deref().unwrap_or("not assigned");
            row([&range.datacenter, &shown(&range.min), &shown(&range.max), zone])
        }));
        table(f, &ranges)?;
        self.misplaced_chunks(f)?;
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "Warning: {warning}."))?;
        writeln!(f, "\nBalancer: {}.", self.balancer_in_words())?;
        writeln!(f, "{}", self.conclusion())
    }
}

impl Status {
    fn misplaced_chunks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.misplaced.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let mut chunks = vec![row(["misplaced chunk", "up to", "on", "has keys of"])];
        chunks.extend(self.misplaced.iter().take(MAX_SHOWN_CHUNKS).map(|chunk| {
            row([&shown(&chunk.min), &shown(&chunk.max), &chunk.shard, &chunk.datacenter])
        }));
        table(f, &chunks)?;
        match self.misplaced.len().saturating_sub(MAX_SHOWN_CHUNKS) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }

    fn balancer_in_words(&self) -> String {
        let mut words = String::from(if self.balancer.on { "on" } else { "off" });
        if let Some((start, stop)) = &self.balancer.window {
            words += &format!(", from {start} to {stop} only");
        }
        words
            + &match &self.verdict {
                BalancerVerdict::Compliant => "; the collection is compliant".to_owned(),
                BalancerVerdict::Violation(violation) => {
                    format!("; violation: {violation}")
                }
                BalancerVerdict::NotSharded => String::new(),
                BalancerVerdict::TooOld => {
                    "; MongoDB before 4.4 cannot report violations".to_owned()
                }
            }
    }

    /// Returns the conclusion in a sentence.
    pub fn conclusion(&self) -> String {
        if self.is_compliant() {
            return "Each datacenter's documents are on its shards.".to_owned();
        }
        match (&self.left, self.blocker()) {
            (Ok(plan), _) if !plan.is_empty() => {
                let left = plan.steps().len();
                let steps = if left == 1 { "step is" } else { "steps are" };
                format!("The layout is not applied: {left} {steps} left.")
            }
            (Ok(_), Some(reason)) => format!("Chunks are misplaced: {reason}."),
            (Ok(_), None) => "The balancer is moving chunks to their zones.".to_owned(),
            (Err(contradictions), _) => format!("Not compliant: {contradictions}."),
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut status = serializer.serialize_struct("Status", 11)?;
        status.serialize_field("collection", &self.collection)?;
        status.serialize_field("compliant", &self.is_compliant())?;
        status.serialize_field("shard_key", &self.shard_key)?;
        status.serialize_field("shards", &self.shards)?;
        status.serialize_field("ranges", &self.ranges)?;
        status.serialize_field("misplaced", &self.misplaced)?;
        status.serialize_field("balancer", &self.balancer)?;
        status.serialize_field("verdict", &self.verdict)?;
        status.serialize_field("left", &self.left.as_ref().ok())?;
        let contradictions: Vec<String> =
            self.left.as_ref().err().into_iter().flatten().map(ToString::to_string).collect();
        status.serialize_field("contradictions", &contradictions)?;
        status.serialize_field("warnings", &self.warnings)?;
        status.end()
    }
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn shown(document: &Document) -> String {
    ShellDocument(document).to_string()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Writes rows with aligned columns; numbers to the right.
fn table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|it| it[column].chars().count()).max().unwrap_or(0);
    let is_number = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let numeric =
        |column: usize| rows.len() > 1 && rows[1..].iter().all(|it| is_number(&it[column]));
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            line += &match numeric(column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            if column + 1 < columns {
                line += "  ";
            }
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
