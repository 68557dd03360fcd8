//! The report as text for a terminal of 100 columns. It begins with the verdict.

use std::{fmt::Write, path::Path, time::Duration};

use anstyle::Style;
use steadfast_report::{
    duration,
    quantiles::quantile,
    table::Table,
    words::{clock, grouped, plural, rough, wrapped},
};

use super::{
    Report,
    account::Account,
    contradiction::Contradiction,
    figures::{Answers, ErrorFigures, FaultTotals, Figures, Recovery},
    judge::{NOTHING_ACKNOWLEDGED, Verdict},
    plan::{Fault, Plan},
    repeat::repeat_command,
};

/// Styles of a summary. The default is plain text.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Styles {
    /// Counts of contradictions that are zero.
    pub good: Style,
    /// Counts of contradictions above zero.
    pub bad: Style,
    /// Headings.
    pub strong: Style,
}

const WIDE: usize = 100;
/// Columns of the labels.
const LABEL: usize = 12;
const CONTRADICTIONS: usize = 8;
/// Maximum number of contradictions of each sort.
const EACH: usize = 3;
const FAILOVERS: usize = 6;
const ERRORS: usize = 8;

/// Returns the summary.
pub(super) fn text(styles: Styles, report: &Report, page: Option<&Path>) -> String {
    let Report { account, verdict, figures, .. } = report;
    let mut lines = verdict_lines(styles, account, verdict);
    if figures.proves_little(account) {
        lines.push(NO_REPLY_LOST.to_owned());
    }
    lines.push(String::new());
    lines.push(line("servers", &format!("{}: {}", account.plan.servers.title(), account.server)));
    lines.push(line("load", &load(&account.plan)));
    lines.extend(wrapped_line("operations", &operations(&account.plan, verdict), ","));
    lines.push(line("attempts", &attempts(figures)));
    lines.push(line("latency", &latency(figures)));
    lines.extend(wrapped_line("faults", &faults(account, figures), ","));
    lines.extend(failovers(account, figures));
    lines.extend(errors(styles, &figures.errors));
    lines.push(String::new());
    if let Some(page) = page {
        lines.push(line("report", &page.display().to_string()));
    }
    lines.extend(repetition(&account.plan));
    lines.join("\n")
}

fn in_style(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

fn verdict_lines(styles: Styles, account: &Account, verdict: &Verdict) -> Vec<String> {
    let number = |(what, marks): (&str, &[u64])| {
        let text = in_style(styles.strong, &format!("{} {what}", grouped(marks.len() as u64)));
        in_style(if marks.is_empty() { styles.good } else { styles.bad }, &text)
    };
    let mut lines = vec![verdict.shown().into_iter().map(number).collect::<Vec<_>>().join("   ")];
    if account.interrupted {
        let (after, of) = (rough(account.lasted), duration::show(account.plan.lasting));
        lines.push(in_style(styles.strong, &format!("(interrupted after {after} of {of})")));
    }
    if verdict.acknowledged == 0 {
        lines.push(NOTHING_ACKNOWLEDGED.to_owned());
    }
    for one in Contradiction::first(EACH, account, verdict).iter().take(CONTRADICTIONS) {
        lines.push(cut(&contradicted(one), WIDE));
    }
    lines
}

/// Note on a run without the hardest case.
const NO_REPLY_LOST: &str =
    "no reply of an executed write was lost: a longer run or a higher rate proves more";

fn contradicted(one: &Contradiction<'_>) -> String {
    let Contradiction { what, operation, record, .. } = one;
    let of = record.map_or_else(String::new, |record| {
        format!(" ({}, {})", record.kind.name(), clock(record.began))
    });
    let why = match one.failures() {
        none if none.is_empty() => String::new(),
        failures => format!("; attempts failed: {}", failures.join(", ")),
    };
    format!("  {what}: operation {operation}{of}: {}, and {}{why}", one.result(), one.found())
}

/// Returns a labelled line, cut to the width.
fn line(label: &str, text: &str) -> String {
    cut(&format!("{label:LABEL$}{text}"), WIDE)
}

/// Returns a labelled list of words that is wrapped instead of cut, with a separator after each word but the last.
fn wrapped_line(label: &str, words: &[String], separator: &str) -> Vec<String> {
    let mut words = words.to_vec();
    words.iter_mut().rev().skip(1).for_each(|word| word.push_str(separator));
    let (first, rest) = (format!("{label:LABEL$}"), " ".repeat(LABEL));
    wrapped(words.iter().map(String::as_str), WIDE - 2, &first, &rest)
}

/// Cuts a line to a width. The page and the JSON document contain the whole text.
fn cut(line: &str, wide: usize) -> String {
    if line.chars().count() <= wide {
        return line.to_owned();
    }
    line.chars().take(wide - 1).chain(['…']).collect()
}

fn load(plan: &Plan) -> String {
    let Plan { strategy, tasks, rate, lasting, seed, .. } = plan;
    let (tasks, lasting) = (plural(u64::from(*tasks), "task", "tasks"), duration::show(*lasting));
    format!("{tasks}, {rate} operations a second for {lasting}, strategy {strategy}, seed {seed}")
}

fn operations(plan: &Plan, verdict: &Verdict) -> Vec<String> {
    let Verdict { acknowledged, not_applied, in_doubt, dropped, in_doubt_applied, .. } = verdict;
    let (made, planned) = (acknowledged + not_applied + in_doubt, plan.operations());
    let all = match made < planned {
        true => format!("{} of {} planned", grouped(made), grouped(planned)),
        false => grouped(made),
    };
    let dropped = match dropped {
        0 => String::new(),
        _ => format!(" ({} dropped by the caller)", grouped(*dropped)),
    };
    let applied = match in_doubt {
        0 => String::new(),
        _ => format!(", {} of their writes applied", grouped(*in_doubt_applied)),
    };
    vec![
        format!("{all}: {} acknowledged", grouped(*acknowledged)),
        format!("{} not applied", grouped(*not_applied)),
        format!("{} in doubt{dropped}{applied}", grouped(*in_doubt)),
    ]
}

fn attempts(figures: &Figures) -> String {
    let all = &figures.all;
    let by = |range: std::ops::RangeInclusive<u32>| -> u64 {
        all.by_attempts.range(range).map(|(_, count)| count).sum()
    };
    let mut parts =
        vec![format!("{} once", grouped(by(1..=1))), format!("{} twice", grouped(by(2..=2)))];
    for (count, what) in [(by(3..=u32::MAX), "more often"), (by(0..=0), "never sent")] {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    }
    format!("{}: {}", grouped(all.attempts()), parts.join(", "))
}

fn latency(figures: &Figures) -> String {
    let it = &figures.all.latency;
    let (p50, p99, max) = (rough(it.p50), rough(it.p99), rough(it.max));
    format!("{p50} at the median, {p99} at the 99th percentile, {max} at most")
}

fn faults(account: &Account, figures: &Figures) -> Vec<String> {
    let (mut all, mut missed) = (Vec::new(), Vec::new());
    for fault in &account.plan.faults {
        let name = fault.name();
        match figures.faults.get(fault) {
            None => missed.push(name),
            Some(FaultTotals { incidents, hits: 0, .. }) => all.push(format!("{incidents} {name}")),
            Some(FaultTotals { incidents, hits, lost_replies, .. }) => {
                let lost = match (fault, lost_replies) {
                    (Fault::Cuts, 0) => ", none of them executed".to_owned(),
                    (Fault::Cuts, lost) => format!(", {} of them executed", grouped(*lost)),
                    _ => String::new(),
                };
                let hits = grouped(*hits);
                let met = match fault {
                    Fault::Migrate => format!("{hits} of them succeeded"),
                    Fault::Drops => format!("hit {hits} calls"),
                    _ => format!("hit {hits} requests{lost}"),
                };
                all.push(format!("{incidents} {name} ({met})"));
            }
        }
    }
    if !missed.is_empty() {
        all.push(format!("not injected: {}", missed.join(", ")));
    }
    if all.is_empty() { vec!["none".to_owned()] } else { all }
}

/// Times to recover after failovers: median and maximum, and each time if there are few.
fn failovers(account: &Account, figures: &Figures) -> Vec<String> {
    let all = &figures.recoveries;
    if all.is_empty() {
        return vec![line("failovers", "none")];
    }
    let mut took: Vec<Duration> = all.iter().filter_map(|recovery| recovery.took).collect();
    took.sort_unstable();
    let never = all.len() - took.len();
    let mut text = match (quantile(&took, 500), took.last()) {
        (Some(median), Some(worst)) => {
            let (median, worst) = (rough(median), rough(*worst));
            format!("{}: time to recover {median} at the median, {worst} at most", all.len())
        }
        _ => format!("{}", all.len()),
    };
    if never > 0 {
        let _ = write!(text, "; no recovery before the end after {never} of them");
    }
    let mut lines = vec![line("failovers", &text)];
    if all.len() <= FAILOVERS {
        let each = |recovery: &Recovery| {
            let incident = account.incidents.get(recovery.incident)?;
            let took = recovery.took.map_or_else(|| "never".to_owned(), rough);
            Some(line("", &format!("{:>7}  {took:>7}  {}", clock(incident.began), incident.what)))
        };
        lines.extend(all.iter().filter_map(each));
    }
    lines
}

fn errors(styles: Styles, errors: &[ErrorFigures]) -> Vec<String> {
    if errors.is_empty() {
        return vec![line("errors", "none")];
    }
    let titles =
        "errors, and outcomes of their operations|>attempts|>acknowledged|>not applied|>in doubt";
    let mut table = Table::new(titles);
    for met in errors.iter().take(ERRORS) {
        let Answers { acknowledged, not_applied, in_doubt } = met.answers;
        let counts = [met.attempts, acknowledged, not_applied, in_doubt].map(grouped);
        table.row([cut(&met.what, 52)].into_iter().chain(counts));
    }
    if errors.len() > ERRORS {
        let rest: u64 = errors[ERRORS..].iter().map(|met| met.attempts).sum();
        let others = format!("{} other kinds", errors.len() - ERRORS);
        table.row([others, grouped(rest), String::new(), String::new(), String::new()]);
    }
    let mut lines = table.lines();
    lines[0] = in_style(styles.strong, &lines[0]);
    lines.insert(0, String::new());
    lines
}

/// Returns the command that repeats the run, with line continuations of a shell.
fn repetition(plan: &Plan) -> Vec<String> {
    let words: Vec<String> = repeat_command(plan).split(' ').map(str::to_owned).collect();
    let mut lines = wrapped_line("repeat", &words, "");
    let last = lines.len() - 1;
    lines[..last].iter_mut().for_each(|line| line.push_str(" \\"));
    lines
}

#[cfg(test)]
mod tests;
