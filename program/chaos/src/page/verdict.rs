//! Top of the page: the verdict, the run that it is about, and the results that the application got.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::words::{clock, counted, grouped, harmless, listed, spoken, times};
use crate::{
    Report,
    account::Kind,
    contradiction::{Contradiction, TORN},
    figures::FaultTotals,
    judge::Verdict,
    plan::{Fault, Servers},
    strategy::Strategy,
};

/// Contradictions of each sort that are shown.
const EACH: usize = 4;

/// Returns the title of the page.
pub(super) fn title(run: &Report) -> String {
    let count = |(what, marks): (&str, &[u64])| format!("{} {what}", grouped(marks.len() as u64));
    let counts: Vec<String> = run.verdict.shown().into_iter().map(count).collect();
    format!("{} – steadfast chaos", counts.join(", "))
}

pub(super) fn header(run: &Report) -> Markup {
    let class = match run {
        run if !run.verdict.is_clean() => "bad",
        run if proves_nothing(run) => "void",
        _ => "clean",
    };
    html! {
        header class=(class) {
            p.brow {
                "steadfast chaos"
                span { " · " (harmless(&run.account.server)) " · seed " (run.account.plan.seed) }
            }
            h1 { (headline(run)) }
            (counts(&run.verdict))
            p.lead { (lead(run)) }
            @for note in notes(run) { p.note { (note) } }
            (contradictions(run))
        }
    }
}

/// Meaning of each sort of contradiction, in the order of [`Verdict::contradictions`].
const MEANINGS: [&str; 5] = [
    "applied more than once",
    "acknowledged, and not in the database",
    "an error or result that is not correct",
    "a transaction applied in part",
    "in the database, and never written",
];

/// Returns `true` for a run without acknowledged writes.
fn proves_nothing(run: &Report) -> bool {
    run.verdict.is_clean() && run.figures.all.answers.acknowledged == 0
}

fn headline(run: &Report) -> String {
    if !run.verdict.is_clean() {
        let marks = run.verdict.contradictions().into_iter().flat_map(|(_, marks)| marks);
        let marks: BTreeSet<&u64> = marks.collect();
        let count = counted(marks.len() as u64, "write contradicts", "writes contradict");
        return format!("{count} the results that the application got.");
    }
    if proves_nothing(run) {
        return "No write was acknowledged: this run proves nothing.".to_owned();
    }
    match run.verdict.not_applied + run.verdict.in_doubt {
        0 => "No write was lost, and none was applied twice.".to_owned(),
        _ => "No write was lost, none was applied twice, and every error was correct.".to_owned(),
    }
}

/// Large numbers of the contradictions.
fn counts(verdict: &Verdict) -> Markup {
    let shown = verdict.shown();
    html! {
        ul class={ "counts of-" (shown.len()) } {
            @for ((what, marks), meaning) in shown.into_iter().zip(MEANINGS) {
                @let class = match marks.len() { 0 => "zero", 1..1_000 => "wrong", _ => "wrong many" };
                li class=(class) {
                    b { (grouped(marks.len() as u64)) } " " strong { (what) } " " span { (meaning) }
                }
            }
        }
    }
}

/// Summary of the load, the servers and the faults.
fn lead(run: &Report) -> Markup {
    let Report { account, figures, .. } = run;
    let plan = &account.plan;
    let tasks = counted(u64::from(plan.tasks), "task", "tasks");
    let made = match (figures.all.count(), plan.operations()) {
        (count, planned) if count < planned => {
            format!("{} of {} planned writes", grouped(count), grouped(planned))
        }
        (count, _) => counted(count, "write", "writes"),
    };
    let kinds = counted(figures.kinds.len() as u64, "kind", "kinds");
    let server = harmless(&account.server);
    let servers = html! {
        @match plan.servers {
            Servers::Embedded => { "three servers in memory" }
            Servers::Mongod => { "three real servers" }
            Servers::Sharded => { "a sharded cluster of real servers" }
            Servers::Foreign(_) => { "the deployment of " code { "--uri" } }
        }
        " (" (server) ")"
    };
    if figures.all.count() == 0 {
        return html! { (tasks) " on " (servers) "; no operation ended." };
    }
    let happened: u64 = figures.faults.values().map(|happened| happened.incidents).sum();
    let faults: Vec<String> =
        figures.faults.iter().map(|(fault, happened)| fault_summary(*fault, happened)).collect();
    html! {
        "In " (spoken(account.lasted)) ", " (tasks) " made " (made) ", of " (kinds) ", on " (servers)
        @if happened == 0 {
            ". There was no fault, so that this run proves little."
        } @else {
            ", while there " (if happened == 1 { "was" } else { "were" }) " "
            (counted(happened, "fault", "faults")) ": " (listed(&faults)) "."
        }
    }
}

fn fault_summary(fault: Fault, happened: &FaultTotals) -> String {
    let what = match fault {
        Fault::Cuts => "connections broke",
        Fault::Slow => "a member replied late",
        Fault::Freeze => "a member froze",
        Fault::StepDown => "the primary stepped down",
        Fault::Kill => "a member was killed",
        Fault::Overload => "servers rejected writes",
        Fault::Drops => "callers dropped futures",
        Fault::Migrate => "a chunk moved to the other shard",
    };
    let often = times(happened.incidents);
    match happened.hits {
        0 => format!("{what} {often}"),
        hits => {
            let executed = match fault {
                Fault::Cuts => format!(", {} of them executed", grouped(happened.lost_replies)),
                _ => String::new(),
            };
            let met = match fault {
                Fault::Drops => counted(hits, "call", "calls"),
                Fault::Migrate => counted(hits, "chunk", "chunks"),
                _ => counted(hits, "request", "requests"),
            };
            format!("{what} {often} ({met}{executed})")
        }
    }
}

/// Limits of the verdict.
fn notes(run: &Report) -> Vec<Markup> {
    let account = &run.account;
    let mut notes = Vec::new();
    if account.interrupted {
        let (lasted, planned) = (spoken(account.lasted), spoken(account.plan.lasting));
        notes.push(html! {
            strong { "Interrupted." } " The run ended after " (lasted) " of " (planned)
            "; the operations until then are counted."
        });
    }
    if run.figures.proves_little(account) {
        notes.push(html! {
            strong { "This proves little." } " No reply of an executed write was lost, which is the hardest \
             case: a longer run or a higher rate proves more."
        });
    }
    let strategy = &account.plan.strategy;
    let control = match strategy {
        Strategy::RetryableWrites => return notes,
        Strategy::DontRetry => {
            "neither the application nor the driver retries. No write is applied twice, but writes remain in doubt after a network error."
        }
        Strategy::AlwaysRetry { .. } => {
            "the application retries after any error, and retryable writes of the driver are disabled. A write whose reply was lost is applied twice."
        }
        Strategy::RetryNetworkErrorsOnce => {
            "the application retries once after a network error, and retryable writes of the driver are disabled. A write whose reply was lost is applied twice."
        }
        Strategy::RetryIdempotent => {
            "the application retries idempotent writes, and retryable writes of the driver are disabled."
        }
    };
    notes.push(html! {
        strong { "This is a control." } " With the strategy " code { (harmless(&strategy.to_string())) } ", "
        (control)
    });
    notes
}

/// The first contradictions with their operations.
fn contradictions(run: &Report) -> Markup {
    let most = EACH * usize::try_from(Kind::MARKS).expect("a few");
    let first = Contradiction::first(most, &run.account, &run.verdict);
    if first.is_empty() {
        return html! {};
    }
    let (mut sort, mut in_sort, mut shown) = ("", 0, 0);
    let mut items = Vec::new();
    // Marks of one operation are shown together.
    for alike in
        first.chunk_by(|a, b| (a.what, a.operation, a.found) == (b.what, b.operation, b.found))
    {
        if alike[0].what != sort {
            (sort, in_sort) = (alike[0].what, 0);
        }
        in_sort += 1;
        if in_sort <= EACH {
            shown += alike.len() as u64;
            items.push(contradiction(alike));
        }
    }
    let all: u64 = run.verdict.contradictions().iter().map(|(_, marks)| marks.len() as u64).sum();
    html! {
        h2 { "The first contradictions" }
        ol.wrongs { @for item in items { li { (item) } } }
        @if all > shown { p.fine { "… and " (grouped(all - shown)) " more." } }
    }
}

fn contradiction(alike: &[Contradiction<'_>]) -> Markup {
    let one = &alike[0];
    let Contradiction { what, operation, found, record, .. } = one;
    let marks: Vec<String> = alike.iter().map(|it| it.mark.to_string()).collect();
    let (noun, are) = if marks.len() == 1 { ("mark", "is") } else { ("marks", "are") };
    let found =
        if *found == 0 { "not there".to_owned() } else { format!("there {}", times(*found)) };
    let failures = one.failures();
    let failures: Vec<String> = failures.chunk_by(|a, b| a == b).take(6).map(repeated).collect();
    html! {
        strong { (what) } ": operation " (operation)
        @if let Some(record) = record {
            ", " code { (record.kind.name()) } " at " (clock(record.began))
        }
        ": " (harmless(&one.result())) "; "
        @if *what == TORN {
            (one.found()) "."
        } @else {
            "its " (noun) " " (listed(&marks)) " " (are) " " (found) "."
            @if !failures.is_empty() { " " span { "Attempts failed: " (failures.join(", then ")) } }
        }
    }
}

fn repeated(alike: &[&str]) -> String {
    let what = harmless(alike[0]);
    if alike.len() == 1 { what } else { format!("{what} ({} times)", alike.len()) }
}

/// The section with the results of the operations, and their meaning.
pub(super) fn results(run: &Report) -> Markup {
    let verdict = &run.verdict;
    let dropped = match verdict.dropped {
        0 => String::new(),
        dropped => format!(", or dropped by the caller ({} of them)", grouped(dropped)),
    };
    let doubt = match (verdict.in_doubt, verdict.in_doubt_applied) {
        (0, _) => "None. The error of such a write means: it may have been applied.".to_owned(),
        (_, there) => format!(
            "Failed with an error that means: it may have been applied{dropped}. {} in the database, which is \
             no contradiction.",
            counted(there, "mark of theirs is", "marks of theirs are")
        ),
    };
    let not_applied = match verdict.not_applied {
        0 => "None. The error of such a write means: nothing was written.",
        _ => {
            "Failed with an error that means: nothing was written. It is safe to retry such a write."
        }
    };
    let rows = [
        (
            verdict.acknowledged,
            "acknowledged",
            "Succeeded. Each must be in the database exactly once.".to_owned(),
        ),
        (verdict.not_applied, "not applied", not_applied.to_owned()),
        (verdict.in_doubt, "in doubt", doubt),
    ];
    super::section(
        "results",
        "Results of the operations",
        &html! {
            dl.results {
                @for (count, what, meaning) in rows {
                    div { dt { b { (grouped(count)) } " " (what) } dd { (meaning) } }
                }
            }
            p.fine {
                "Each write has marks, unique numbers that the database contains once for each time that the write \
                 was applied: one mark, or three if it writes several documents. The numbers above count marks, \
                 those here operations."
            }
        },
    )
}
