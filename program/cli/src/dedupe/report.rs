//! Result of `dedupe` as text and as JSON.

use std::{fmt, io, time::Instant};

use serde_json::{Value, json};
use steadfast::bson::Bson;
use steadfast_patterns::duplicates::{CopyLocation, Finding, Surplus, TrimError, TrimReport};

use super::Dedupe;
use crate::{
    context::CommandResult,
    database,
    notes::{self, Notes, WrongArguments, plural},
};

/// Prints a surplus copy.
pub(super) fn listed(copy: &Surplus, several: bool, as_json: bool) -> io::Result<()> {
    let key = Bson::Document(copy.key.clone()).into_relaxed_extjson();
    if as_json {
        return notes::print_json(&json!({
            "key": key,
            "finding": match copy.finding {
                Finding::TooYoung => "tooYoung".to_owned(),
                other => other.to_string(),
            },
            "copy": at_json(&copy.copy),
            "kept": at_json(&copy.kept),
        }));
    }
    let (this, kept) = (at(&copy.copy, several), at(&copy.kept, several));
    notes::print(match copy.finding {
        Finding::Surplus => format!("{key}: {this} is surplus to {kept}"),
        Finding::Differs => format!("{key}: {this} differs from {kept}"),
        Finding::TooYoung => format!("{key}: {this} and {kept}: one of them is too young"),
        Finding::Missing => format!("{key}: {this} and {kept}: one of them was deleted meanwhile"),
        Finding::Indistinguishable => format!("{key}: {this} cannot be distinguished from {kept}"),
        other => format!("{key}: {this} and {kept}: {other}"),
    })
}

fn at(copy: &CopyLocation, several: bool) -> String {
    let mut text = copy.id.to_string();
    if let Some(datacenter) = &copy.datacenter {
        text += &format!(" in {}", datacenter.clone().into_relaxed_extjson());
    }
    if several {
        text += &format!(" at URI {}", copy.deployment + 1);
    }
    text
}

fn at_json(copy: &CopyLocation) -> Value {
    json!({
        "uri": copy.deployment + 1,
        "_id": Bson::ObjectId(copy.id).into_relaxed_extjson(),
        "datacenter": copy.datacenter.clone().map(Bson::into_relaxed_extjson),
    })
}

/// Outcome of a run.
pub(super) struct DedupeOutcome {
    collection: String,
    delete: bool,
    list: bool,
    pub(super) report: TrimReport,
    /// Error that ended the run, or prevented a part of the deletions.
    error: Option<String>,
    pub(super) wrong_arguments: bool,
    pub(super) interrupted: bool,
    /// `true` if a part of the documents was not examined.
    is_cut_short: bool,
    began: Instant,
}

impl DedupeOutcome {
    pub(super) fn of(dedupe: &Dedupe) -> Self {
        Self {
            collection: dedupe.collection.to_string(),
            delete: dedupe.delete,
            list: dedupe.list,
            report: TrimReport::default(),
            error: None,
            wrong_arguments: false,
            interrupted: false,
            is_cut_short: false,
            began: Instant::now(),
        }
    }

    /// Stores an error and the work done until then.
    pub(super) fn fail(&mut self, error: TrimError) {
        self.error = Some(database::explain(&error.source));
        self.wrong_arguments = database::is_wrong_argument(&error.source);
        self.is_cut_short = error.ended_early;
        self.report = *error.report;
    }

    /// Returns the number of surplus copies that could not be deleted, if all documents were examined.
    fn left(&self) -> u64 {
        match self.error {
            Some(_) if !self.is_cut_short => {
                self.report.surplus.saturating_sub(self.report.deleted)
            }
            Some(_) | None => 0,
        }
    }

    /// Prints warnings about the result, and advice.
    pub(super) fn explain(&self, notes: &Notes) {
        let report = &self.report;
        if report.differing > 0 {
            let how = if self.list { "" } else { " (--list shows them)" };
            notes.warn(format_args!(
                "{} from the copy to keep in more than _id and datacenter, and {} kept{how}: the application \
                 has to decide between them",
                plural(report.differing, "copy differs", "copies differ"),
                if report.differing == 1 { "was" } else { "were" },
            ));
        }
        if report.too_many_copies > 0 {
            notes.warn(format_args!(
                "{} more than a thousand copies and {} skipped: does the key identify an event?",
                plural(report.too_many_copies, "event has", "events have"),
                if report.too_many_copies == 1 { "was" } else { "were" },
            ));
        }
        if report.indistinguishable > 0 {
            notes.warn(format_args!(
                "{} the _id and the datacenter of the copy to keep and {} kept",
                plural(report.indistinguishable, "copy has", "copies have"),
                if report.indistinguishable == 1 { "was" } else { "were" },
            ));
        }
        let skipped = report.missing_key + report.array_key + report.not_object_id;
        if skipped > 0 {
            notes.info(format_args!(
                "skipped: {} without the key, {} with an array as the key, {} without an ObjectId in _id",
                plural(report.missing_key, "document", "documents"),
                report.array_key,
                report.not_object_id,
            ));
        }
        if !self.delete && report.surplus > 0 && self.error.is_none() {
            notes.info("nothing was deleted; to delete, run this again with --delete");
        }
    }

    pub(super) fn verdict(&self) -> CommandResult {
        match &self.error {
            Some(error) if self.wrong_arguments => Err(WrongArguments(error.clone()).into()),
            Some(error) if !self.is_cut_short => Err(format!(
                "{} could not be marked for deletion, and remained: {error}",
                plural(self.left(), "copy", "copies")
            )
            .into()),
            Some(error) => Err(error.clone().into()),
            None if self.interrupted && self.delete => {
                Err("interrupted; one copy of each event remains; run it again to delete the rest"
                    .into())
            }
            None if self.interrupted => Err("interrupted; nothing was deleted".into()),
            None => Ok(()),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let report = &self.report;
        json!({
            "collection": self.collection,
            "dryRun": !self.delete,
            "examined": report.examined,
            "duplicated": report.duplicated,
            "surplus": report.surplus,
            "deleted": report.deleted,
            "differing": report.differing,
            "tooYoung": report.too_young,
            "missing": report.missing,
            "indistinguishable": report.indistinguishable,
            "tooManyCopies": report.too_many_copies,
            "missingKey": report.missing_key,
            "arrayKey": report.array_key,
            "notObjectId": report.not_object_id,
            "interrupted": self.interrupted,
            "seconds": self.began.elapsed().as_secs_f64(),
        })
    }
}

/// Summary in one line.
impl fmt::Display for DedupeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        write!(
            f,
            "{}: {} of {} several copies",
            self.collection,
            plural(report.duplicated, "event", "events"),
            format_args!(
                "{} {}",
                plural(report.examined, "document", "documents"),
                if report.duplicated == 1 { "has" } else { "have" },
            ),
        )?;
        let copies = |number: u64| plural(number, "copy", "copies");
        if self.delete {
            let were = if report.deleted == 1 { "was" } else { "were" };
            write!(f, "; {} {were} deleted", copies(report.deleted))?;
        } else if report.duplicated > 0 {
            write!(f, "; {} would be deleted", copies(report.surplus))?;
        }
        if report.too_young > 0 {
            let events = plural(report.too_young, "event is", "events are");
            write!(f, "; {events} skipped, a copy is too young")?;
        }
        if report.missing > 0 {
            write!(f, "; {} deleted meanwhile", copies(report.missing))?;
        }
        if self.left() > 0 {
            write!(f, "; {} could not be deleted", copies(self.left()))?;
        }
        if self.is_cut_short || self.interrupted {
            f.write_str("; ended early")?;
        }
        Ok(())
    }
}
