//! What was found and deleted, for people and for programs.

use std::{fmt, io, time::Instant};

use serde_json::{Value, json};
use steadfast::bson::Bson;
use steadfast_patterns::duplicates::{CopyLocation, Finding, Surplus, TrimError, TrimReport};

use super::Dedupe;
use crate::{
    database,
    errand::Done,
    notes::{self, Notes, WrongArguments, plural},
};

/// Prints a copy.
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
        Finding::Gone => format!("{key}: {this} and {kept}: one of them has gone"),
        Finding::Indistinguishable => format!("{key}: nothing tells {this} from {kept}"),
        other => format!("{key}: {this} beside {kept}: {other}"),
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

/// What came of it.
pub(super) struct Outcome {
    collection: String,
    delete: bool,
    list: bool,
    pub(super) report: TrimReport,
    /// Why it could not go on, or could not do all of it.
    error: Option<String>,
    pub(super) wrong_arguments: bool,
    pub(super) interrupted: bool,
    /// Whether something was not even looked at.
    is_cut_short: bool,
    began: Instant,
}

impl Outcome {
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

    /// It could not go on, or had to leave copies.
    pub(super) fn fail(&mut self, error: TrimError) {
        self.error = Some(database::explain(&error.source));
        self.wrong_arguments = database::is_wrong_argument(&error.source);
        self.is_cut_short = error.ended_early;
        self.report = *error.report;
    }

    /// Copies that are too many and are still there, though everything was looked at.
    fn left(&self) -> u64 {
        match self.error {
            Some(_) if !self.is_cut_short => {
                self.report.surplus.saturating_sub(self.report.deleted)
            }
            Some(_) | None => 0,
        }
    }

    /// What to know about the result, and what to do next.
    pub(super) fn explain(&self, notes: &Notes) {
        let report = &self.report;
        if report.differing > 0 {
            let how = if self.list { "" } else { " (--list shows them)" };
            notes.warn(format_args!(
                "{} from the one to keep in more than _id and datacenter, and {} left alone{how}: which is \
                 right, the application has to say",
                plural(report.differing, "copy differs", "copies differ"),
                if report.differing == 1 { "was" } else { "were" },
            ));
        }
        if report.crowded > 0 {
            notes.warn(format_args!(
                "{} more than a thousand copies and {} left alone: does the key name an event?",
                plural(report.crowded, "event has", "events have"),
                if report.crowded == 1 { "was" } else { "were" },
            ));
        }
        if report.indistinguishable > 0 {
            notes.warn(format_args!(
                "{} the _id and the datacenter of the one to keep and {} left alone",
                plural(report.indistinguishable, "copy has", "copies have"),
                if report.indistinguishable == 1 { "was" } else { "were" },
            ));
        }
        let apart = report.missing_key + report.array_key + report.not_object_id;
        if apart > 0 {
            notes.say(format_args!(
                "left out: {} without the key, {} whose key is an array, {} whose _id is no ObjectId",
                plural(report.missing_key, "document", "documents"),
                report.array_key,
                report.not_object_id,
            ));
        }
        if !self.delete && report.surplus > 0 && self.error.is_none() {
            notes.say("nothing was deleted; to do it, run this again with --delete");
        }
    }

    pub(super) fn verdict(&self) -> Done {
        match &self.error {
            Some(error) if self.wrong_arguments => Err(WrongArguments(error.clone()).into()),
            Some(error) if !self.is_cut_short => Err(format!(
                "{} could not be marked for deletion, and stayed: {error}",
                plural(self.left(), "copy", "copies")
            )
            .into()),
            Some(error) => Err(error.clone().into()),
            None if self.interrupted && self.delete => {
                Err("interrupted; every event has a copy left; run it again to delete the rest"
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
            "gone": report.gone,
            "indistinguishable": report.indistinguishable,
            "crowded": report.crowded,
            "missingKey": report.missing_key,
            "arrayKey": report.array_key,
            "notObjectId": report.not_object_id,
            "interrupted": self.interrupted,
            "seconds": self.began.elapsed().as_secs_f64(),
        })
    }
}

/// In one line.
impl fmt::Display for Outcome {
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
            write!(f, "; {events} left alone, a copy is too young")?;
        }
        if report.gone > 0 {
            write!(f, "; {} went meanwhile", copies(report.gone))?;
        }
        if self.left() > 0 {
            write!(f, "; {} could not be", copies(self.left()))?;
        }
        if self.is_cut_short || self.interrupted {
            f.write_str("; then it was cut short")?;
        }
        Ok(())
    }
}
