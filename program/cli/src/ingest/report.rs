//! What was ingested, for people and for programs.

use std::{error::Error, time::Instant};

use serde_json::{Value, json};

use super::{Ingest, source::Source, split::Position, write::DocumentOutcome};
use crate::{
    notes::{WrongArguments, plural},
    paint::Paint,
};

/// What came of it.
pub(super) struct IngestOutcome {
    collection: String,
    is_dry: bool,
    has_checkpoint: bool,
    has_datacenters: bool,
    keeps_rejects: bool,
    /// Up to where everything is done, for each source.
    pub(super) positions: Vec<Position>,
    pub(super) records: u64,
    pub(super) added: u64,
    pub(super) already_there: u64,
    pub(super) may_be_twice: u64,
    pub(super) rejected: u64,
    /// Why it could not go on.
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
            already_there: 0,
            may_be_twice: 0,
            rejected: 0,
            error: None,
            interrupted: false,
            began: Instant::now(),
        }
    }

    pub(super) fn count(&mut self, settled: &DocumentOutcome) {
        match settled {
            DocumentOutcome::Added => self.added += 1,
            DocumentOutcome::MaybeTwice => {
                self.added += 1;
                self.may_be_twice += 1;
            }
            DocumentOutcome::Existing => self.already_there += 1,
            DocumentOutcome::Rejected(_) => {}
        }
    }

    pub(super) fn verdict(&self) -> Result<(), Box<dyn Error>> {
        let how = self.resume();
        match &self.error {
            Some(error) => Err(format!("{error}\n  next: once that is resolved, {how}").into()),
            None if self.interrupted => Err(format!("interrupted; {how}").into()),
            None if self.rejected > 0 && !self.keeps_rejects => {
                let records = plural(self.rejected, "record was", "records were");
                let next = "to keep what is rejected, run it again with --rejects FILE";
                Err(format!("{records} rejected; {next}").into())
            }
            None => Ok(()),
        }
    }

    fn resume(&self) -> &'static str {
        match (self.is_dry, self.has_checkpoint, self.has_datacenters) {
            (true, _, _) => "nothing was written",
            (false, true, false) => {
                "run the same command again: it goes on at the checkpoint, and adds nothing twice"
            }
            (false, false, false) => {
                "run the same command again: it adds nothing twice (with --checkpoint FILE it would go on \
                 where it was)"
            }
            (false, true, true) => {
                "run the same command again: it goes on at the checkpoint; steadfast dedupe finds what was \
                 written after that and is there twice"
            }
            (false, false, true) => {
                "run the same command again: it writes all once more, and steadfast dedupe deletes what is \
                 there twice (with --checkpoint FILE it would go on where it was)"
            }
        }
    }

    /// In one line, for people.
    pub(super) fn summary(&self, paint: Paint) -> String {
        let would = if self.is_dry { "would be added" } else { "added" };
        let added = plural(self.added, "document", "documents");
        let mut told = format!("{}: {}", self.collection, paint.strong(format!("{added} {would}")));
        if self.already_there > 0 {
            let were = if self.already_there == 1 { "was" } else { "were" };
            told += &format!("; {} {were} there already", self.already_there);
        }
        if self.may_be_twice > 0 {
            told += &format!("; {} of them may be there twice", self.may_be_twice);
        }
        if self.rejected > 0 {
            let rejected = plural(self.rejected, "record", "records");
            told += &format!("; {}", paint.bad(format!("{rejected} rejected")));
        }
        if self.error.is_some() || self.interrupted {
            told += &format!("; {}", paint.bad("then it was cut short"));
        }
        told
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
            "alreadyThere": self.already_there,
            "mayBeTwice": self.may_be_twice,
            "rejected": self.rejected,
            "interrupted": self.interrupted,
            "seconds": self.began.elapsed().as_secs_f64(),
        })
    }
}

/// Arguments that contradict each other.
pub(super) fn wrong(text: impl Into<String>) -> Box<dyn Error> {
    WrongArguments(text.into()).into()
}
