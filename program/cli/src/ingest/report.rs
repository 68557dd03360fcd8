//! Result of `ingest` as text and as JSON.

use std::{error::Error, time::Instant};

use serde_json::{Value, json};

use super::{Ingest, source::Source, split::Position, write::DocumentOutcome};
use crate::{
    notes::{WrongArguments, plural},
    paint::Paint,
};

/// Outcome of a run.
pub(super) struct IngestOutcome {
    collection: String,
    is_dry: bool,
    has_checkpoint: bool,
    has_datacenters: bool,
    keeps_rejects: bool,
    /// Position of each source up to which all records are done.
    pub(super) positions: Vec<Position>,
    pub(super) records: u64,
    pub(super) added: u64,
    pub(super) existing: u64,
    pub(super) maybe_duplicated: u64,
    pub(super) rejected: u64,
    /// Error that ended the run.
    pub(super) error: Option<String>,
    pub(super) interrupted: bool,
    began: Instant,
}

impl IngestOutcome {
    pub(super) fn of(ingest: &Ingest, positions: Vec<Position>) -> Self {
        Self {
            collection: ingest.collection.to_string(),
            is_dry: ingest.dry_run,
            has_checkpoint: ingest.checkpoint.is_some(),
            has_datacenters: ingest.datacenters.is_some(),
            keeps_rejects: ingest.rejects.is_some() && !ingest.dry_run,
            positions,
            records: 0,
            added: 0,
            existing: 0,
            maybe_duplicated: 0,
            rejected: 0,
            error: None,
            interrupted: false,
            began: Instant::now(),
        }
    }

    pub(super) fn count(&mut self, settled: &DocumentOutcome) {
        match settled {
            DocumentOutcome::Added => self.added += 1,
            DocumentOutcome::MaybeDuplicated => {
                self.added += 1;
                self.maybe_duplicated += 1;
            }
            DocumentOutcome::Existing => self.existing += 1,
            DocumentOutcome::Rejected(_) => {}
        }
    }

    pub(super) fn verdict(&self) -> Result<(), Box<dyn Error>> {
        let advice = self.resume();
        match &self.error {
            Some(error) => Err(format!("{error}\n  next: once that is resolved, {advice}").into()),
            None if self.interrupted => Err(format!("interrupted; {advice}").into()),
            None if self.rejected > 0 && !self.keeps_rejects => {
                let records = plural(self.rejected, "record was", "records were");
                let next = "to store them, run the command again with --rejects FILE";
                Err(format!("{records} rejected; {next}").into())
            }
            None => Ok(()),
        }
    }

    fn resume(&self) -> &'static str {
        match (self.is_dry, self.has_checkpoint, self.has_datacenters) {
            (true, _, _) => "nothing was written",
            (false, true, false) => {
                "run the same command again: it continues at the checkpoint and inserts no document twice"
            }
            (false, false, false) => {
                "run the same command again: it inserts no document twice (with --checkpoint FILE, it would \
                 continue where it ended)"
            }
            (false, true, true) => {
                "run the same command again: it continues at the checkpoint; steadfast dedupe finds documents \
                 that were inserted twice"
            }
            (false, false, true) => {
                "run the same command again: it inserts all records again, and steadfast dedupe deletes the \
                 duplicates (with --checkpoint FILE, it would continue where it ended)"
            }
        }
    }

    /// Formats the summary line.
    pub(super) fn summary(&self, paint: Paint) -> String {
        let would = if self.is_dry { "would be added" } else { "added" };
        let added = plural(self.added, "document", "documents");
        let mut text = format!("{}: {}", self.collection, paint.strong(format!("{added} {would}")));
        if self.existing > 0 {
            text += &format!("; {} already existed", self.existing);
        }
        if self.maybe_duplicated > 0 {
            text += &format!("; {} of them may be stored twice", self.maybe_duplicated);
        }
        if self.rejected > 0 {
            let rejected = plural(self.rejected, "record", "records");
            text += &format!("; {}", paint.bad(format!("{rejected} rejected")));
        }
        if self.error.is_some() || self.interrupted {
            text += &format!("; {}", paint.bad("ended early"));
        }
        text
    }

    pub(super) fn to_json(&self, sources: &[Source]) -> Value {
        let sources: Vec<_> = sources
            .iter()
            .zip(&self.positions)
            .map(|(source, position)| {
                json!({
                    "source": source.name,
                    "file": source.file,
                    "size": source.size,
                    "offset": position.offset,
                    "lines": position.lines,
                })
            })
            .collect();
        json!({
            "collection": self.collection,
            "dryRun": self.is_dry,
            "sources": sources,
            "records": self.records,
            "added": self.added,
            "existing": self.existing,
            "maybeDuplicated": self.maybe_duplicated,
            "rejected": self.rejected,
            "interrupted": self.interrupted,
            "seconds": self.began.elapsed().as_secs_f64(),
        })
    }
}

/// Returns an error for contradictory arguments.
pub(super) fn wrong(text: impl Into<String>) -> Box<dyn Error> {
    WrongArguments(text.into()).into()
}
