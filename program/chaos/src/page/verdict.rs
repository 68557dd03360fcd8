//! The top of the page: the verdict, what was done to come to it, and what the application was told.

use std::collections::BTreeSet;

use crate::strategy::Strategy;

use super::{
    plot::put,
    words::{clock, counted, escaped, grouped, listed, spoken, times},
};
use crate::{
    Report,
    account::Kind,
    contradiction::{Contradiction, TORN},
    figures::Happened,
    judge::Verdict,
    plan::{Fault, Servers},
};

/// Contradictions that are told of each sort.
const EACH: usize = 4;

/// The title of the page.
pub(super) fn title(run: &Report) -> String {
    let count = |(what, marks): (&str, &[u64])| format!("{} {what}", grouped(marks.len() as u64));
    let counts: Vec<String> = run.verdict.shown().into_iter().map(count).collect();
    format!("{} – steadfast chaos", counts.join(", "))
}

pub(super) fn section(run: &Report) -> String {
    let class = match run {
        run if !run.verdict.is_clean() => "bad",
        run if shows_nothing(run) => "void",
        _ => "clean",
    };
    let mut html = format!(
        r#"<header class="{class}">
<p class="brow">steadfast chaos<span> · {server} · seed {seed}</span></p>
<h1>{headline}</h1>
{counts}<p class="lead">{lead}</p>
{notes}{contradictions}</header>
"#,
        server = escaped(&run.account.server),
        seed = run.account.plan.seed,
        headline = headline(run),
        counts = counts(&run.verdict),
        lead = lead(run),
        notes = notes(run).concat(),
        contradictions = contradictions(run),
    );
    html.push_str(&answers(run));
    html
}

/// Meaning of each sort of contradiction, in the order of [`Verdict::contradictions`].
const MEANINGS: [&str; 5] = [
    "made more than once",
    "said to be done, and not there",
    "an answer that was not true",
    "a transaction that was applied in part",
    "there, and never asked for",
];

/// True for a run without acknowledged writes.
fn shows_nothing(run: &Report) -> bool {
    run.verdict.is_clean() && run.figures.all.answers.acknowledged == 0
}

fn headline(run: &Report) -> String {
    if !run.verdict.is_clean() {
        let marks = run.verdict.contradictions().into_iter().flat_map(|(_, marks)| marks);
        let marks: BTreeSet<&u64> = marks.collect();
        let count = counted(marks.len() as u64, "write is", "writes are");
        return format!("{count} not what the application was told.");
    }
    if shows_nothing(run) {
        return "No write was acknowledged, so that this run shows nothing.".to_owned();
    }
    match run.verdict.not_applied + run.verdict.in_doubt {
        0 => "No write was lost, and none was made twice.".to_owned(),
        _ => "No write was lost, none was made twice, and every error told the truth.".to_owned(),
    }
}

/// The large numbers.
fn counts(verdict: &Verdict) -> String {
    let shown = verdict.shown();
    let mut html = format!("<ul class=\"counts of-{}\">\n", shown.len());
    for ((what, marks), meaning) in shown.into_iter().zip(MEANINGS) {
        let class = match marks.len() {
            0 => "zero",
            1..1_000 => "wrong",
            1_000.. => "wrong many",
        };
        let count = grouped(marks.len() as u64);
        put(
            &mut html,
            format_args!(
                "<li class=\"{class}\"><b>{count}</b> <strong>{what}</strong> <span>{meaning}</span></li>\n"
            ),
        );
    }
    html + "</ul>\n"
}

/// What was done, on which servers, under which faults.
fn lead(run: &Report) -> String {
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
    let server = escaped(&account.server);
    let servers = match plan.servers {
        Servers::Embedded => format!("three servers in memory ({server})"),
        Servers::Mongod => format!("three real servers ({server})"),
        Servers::Sharded => format!("a sharded cluster of real servers ({server})"),
        Servers::Foreign(_) => format!("the deployment of <code>--uri</code> ({server})"),
    };
    let lasted = spoken(account.lasted);
    if figures.all.count() == 0 {
        return format!("{tasks} were to write on {servers}, and no operation ended.");
    }
    let happened: u64 = figures.faults.values().map(|happened| happened.incidents).sum();
    let mut html = format!("In {lasted}, {tasks} made {made}, of {kinds}, on {servers}");
    if happened == 0 {
        html.push_str(". No fault came in between, so that this shows little.");
        return html;
    }
    let faults: Vec<String> =
        figures.faults.iter().map(|(fault, happened)| told(*fault, happened)).collect();
    let count = counted(happened, "fault", "faults");
    put(
        &mut html,
        format_args!(", while there {} {count}: ", if happened == 1 { "was" } else { "were" }),
    );
    put(&mut html, format_args!("{}.", listed(&faults)));
    html
}

fn told(fault: Fault, happened: &Happened) -> String {
    let what = match fault {
        Fault::Cuts => "connections broke",
        Fault::Slow => "a member answered late",
        Fault::Freeze => "a member froze",
        Fault::StepDown => "the primary stepped down",
        Fault::Kill => "a member was killed",
        Fault::Overload => "servers turned writes away",
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

/// What one must know to judge the verdict.
fn notes(run: &Report) -> Vec<String> {
    let account = &run.account;
    let mut notes = Vec::new();
    if account.interrupted {
        let (lasted, planned) = (spoken(account.lasted), spoken(account.plan.lasting));
        notes.push(format!("<p class=\"note\"><strong>Interrupted.</strong> It was ended after {lasted} of {planned}; what was done until then is counted.</p>\n"));
    }
    if run.figures.proves_little(account) {
        notes.push("<p class=\"note\"><strong>This proves little.</strong> No reply was lost to a write that was executed, which is the hardest case: a longer run, or a higher rate, proves more.</p>\n".to_owned());
    }
    let strategy = &account.plan.strategy;
    let control = match strategy {
        Strategy::RetryableWrites => return notes,
        Strategy::DontRetry => {
            "the application raises each error as it comes, and nobody sends again. Nothing is made twice so; what a broken connection left in doubt stays in doubt."
        }
        Strategy::AlwaysRetry { .. } => {
            "the application itself sends again on any error, and the driver’s retryable writes are off. What was done already, and only its reply was lost, is then done twice."
        }
        Strategy::RetryNetworkErrorsOnce => {
            "the application itself sends again once if the network broke, and the driver’s retryable writes are off. What was done already, and only its reply was lost, is then done twice."
        }
        Strategy::RetryIdempotent => {
            "the application itself sends again, and writes so that it may be repeated; the driver’s retryable writes are off."
        }
    };
    let name = escaped(&strategy.to_string());
    notes.push(format!("<p class=\"note\"><strong>This is a control.</strong> With the strategy <code>{name}</code>, {control}</p>\n"));
    notes
}

/// The first of them, with what they belong to.
fn contradictions(run: &Report) -> String {
    let most = EACH * usize::try_from(Kind::MARKS).expect("a few");
    let first = Contradiction::first(most, &run.account, &run.verdict);
    if first.is_empty() {
        return String::new();
    }
    let mut html = "<h2>The first contradictions</h2>\n<ol class=\"wrongs\">\n".to_owned();
    let (mut sort, mut told, mut shown) = ("", 0, 0);
    // Marks of one operation are told together.
    for alike in
        first.chunk_by(|a, b| (a.what, a.operation, a.found) == (b.what, b.operation, b.found))
    {
        if alike[0].what != sort {
            (sort, told) = (alike[0].what, 0);
        }
        told += 1;
        if told <= EACH {
            shown += alike.len() as u64;
            put(&mut html, format_args!("<li>{}</li>\n", contradiction(alike)));
        }
    }
    html.push_str("</ol>\n");
    let all: u64 = run.verdict.contradictions().iter().map(|(_, marks)| marks.len() as u64).sum();
    if all > shown {
        let rest = grouped(all - shown);
        put(&mut html, format_args!("<p class=\"fine\">… and {rest} more.</p>\n"));
    }
    html
}

fn contradiction(alike: &[Contradiction<'_>]) -> String {
    let one = &alike[0];
    let Contradiction { what, operation, found, record, .. } = one;
    let kind = record.map_or_else(String::new, |record| {
        format!(", <code>{}</code> at {}", record.kind.name(), clock(record.began))
    });
    if *what == TORN {
        let (said, there) = (escaped(&one.said()), one.there());
        return format!("<strong>{what}</strong>: operation {operation}{kind}: {said}; {there}.");
    }
    let marks: Vec<String> = alike.iter().map(|it| it.mark.to_string()).collect();
    let (are, marks) = match marks.len() {
        1 => ("mark", format!("{} is", marks[0])),
        _ => ("marks", format!("{} are", listed(&marks))),
    };
    let found =
        if *found == 0 { "not there".to_owned() } else { format!("there {}", times(*found)) };
    let said = escaped(&one.said());
    let mut html = format!(
        "<strong>{what}</strong>: operation {operation}{kind}: {said}; its {are} {marks} {found}."
    );
    let failures = one.failures();
    if !failures.is_empty() {
        let failures: Vec<String> =
            failures.chunk_by(|a, b| a == b).take(6).map(repeated).collect();
        put(&mut html, format_args!(" <span>Attempts failed: {}</span>", failures.join(", then ")));
    }
    html
}

fn repeated(alike: &[&str]) -> String {
    let what = escaped(alike[0]);
    if alike.len() == 1 { what } else { format!("{what} ({} times)", alike.len()) }
}

/// What the application was told, and what that means.
fn answers(run: &Report) -> String {
    let verdict = &run.verdict;
    let dropped = match verdict.dropped {
        0 => String::new(),
        dropped => format!("; or dropped by the caller, as {} of them were", grouped(dropped)),
    };
    let doubt = match (verdict.in_doubt, verdict.in_doubt_applied) {
        (0, _) => "None. Such a write fails with an error that says: this may have been written."
            .to_owned(),
        (_, there) => format!(
            "Failed, with an error that says: this may have been written{dropped}. {} to be there, which is no contradiction.",
            counted(there, "mark of theirs turned out", "marks of theirs turned out")
        ),
    };
    let not_applied = match verdict.not_applied {
        0 => "None. Such a write fails with an error that says: nothing was written.",
        _ => {
            "Failed, with an error that says: nothing was written. It is safe to make such a write again."
        }
    };
    let rows = [
        (
            verdict.acknowledged,
            "acknowledged",
            "The application was told that it is done. Each must be in the database, exactly once."
                .to_owned(),
        ),
        (verdict.not_applied, "not applied", not_applied.to_owned()),
        (verdict.in_doubt, "in doubt", doubt),
    ];
    let mut html = "<section aria-labelledby=\"told\">\n<h2 id=\"told\">What the application was told</h2>\n<dl class=\"told\">\n".to_owned();
    for (count, what, meaning) in rows {
        let count = grouped(count);
        put(
            &mut html,
            format_args!("<div><dt><b>{count}</b> {what}</dt><dd>{meaning}</dd></div>\n"),
        );
    }
    html + "</dl>\n<p class=\"fine\">Each write leaves marks in the database, numbers that no other write has, once for each time that it was applied: one mark, or three if it writes several documents. Above, marks are counted; here, operations.</p>\n</section>\n"
}
