//! What came out, as two tables for people or as a document for programs.

use serde_json::{Value, json};

use crate::paint::Paint;

use super::{
    plan::{Plan, Trouble},
    tally::{Tallies, Tally, Verdict},
};

const MEANING: &str = "\
dont-retry        raises the error: what was lost on its way is never counted
always-retry      sends again on any error: what was done already is done twice
retry-once        sends again once if the network broke: done twice as well
idempotent        counts in two steps, each safe to repeat: twice the writes
retryable-writes  lets Steadfast send again, and the server recognise it

exact: each event is counted once. in doubt: nobody can know whether it was.
Why: docs/resilience.md. The same trouble for your own: steadfast pipe --help";

/// In 80 columns.
pub(super) fn text(paint: Paint, plan: &Plan, tallies: &Tallies) -> String {
    let squares = squares(paint, plan, tallies);
    let totals = totals(paint, tallies);
    format!("{squares}\n{totals}\n{MEANING}")
}

/// The table of the guide: what each trouble does to each counter.
fn squares(paint: Paint, plan: &Plan, tallies: &Tallies) -> String {
    let titles = Trouble::ALL.map(|trouble| format!("{:>14}", trouble.title())).concat();
    let hits = Trouble::ALL.map(|trouble| {
        let (events, hits) = plan.of(trouble);
        format!("{:>14}", format!("{hits} of {events}"))
    });
    let mut lines = vec![
        paint.strong(format!("{:<16}{titles}", "strategy")),
        paint.faint(format!("{:<16}{}", "  events hit", hits.concat())),
    ];
    for tally in tallies.iter() {
        let cells = Trouble::ALL.map(|trouble| {
            let verdict = tally.of(trouble);
            judged(paint, verdict, format!("{verdict:>14}"))
        });
        lines.push(format!("{:<16}{}", tally.strategy, cells.concat()));
    }
    lines.join("\n") + "\n"
}

fn totals(paint: Paint, tallies: &Tallies) -> String {
    let titles = format!(
        "{:<16}{:>8}{:>9}  {:<11}{:>8}{:>10}{:>6}{:>9}",
        "strategy", "events", "counted", "verdict", "errors", "in doubt", "sent", "waited"
    );
    let mut lines = vec![paint.strong(titles)];
    lines.extend(tallies.iter().map(|tally| total(paint, tally)));
    lines.join("\n") + "\n"
}

fn total(paint: Paint, tally: &Tally) -> String {
    let verdict = tally.verdict();
    format!(
        "{:<16}{:>8}{:>9}  {}{:>8}{:>10}{:>6}{:>7.1} s",
        tally.strategy,
        tally.events(),
        tally.counted(),
        judged(paint, verdict, format!("{verdict:<11}")),
        tally.errors,
        tally.in_doubt,
        tally.sent,
        tally.time.as_secs_f64(),
    )
}

/// Text about a verdict, in its colour.
pub(super) fn judged(paint: Paint, verdict: Verdict, text: String) -> String {
    if verdict.is_exact() { paint.good(text) } else { paint.bad(text) }
}

/// One document.
pub(super) fn json(seed: u64, plan: &Plan, tallies: &Tallies, surprises: &[String]) -> Value {
    let hits = Trouble::ALL.map(|trouble| {
        let (events, hits) = plan.of(trouble);
        (trouble.key().to_owned(), json!({ "events": events, "hit": hits }))
    });
    let strategies: Vec<Value> = tallies.iter().map(one).collect();
    json!({
        "seed": seed,
        "troubles": Value::Object(hits.into_iter().collect()),
        "strategies": strategies,
        "surprises": surprises,
    })
}

fn one(tally: &Tally) -> Value {
    let judge = |Verdict { too_many, missing }| json!({ "tooMany": too_many, "missing": missing });
    let troubles = Trouble::ALL.map(|it| (it.key().to_owned(), judge(tally.of(it))));
    let verdict = tally.verdict();
    json!({
        "strategy": tally.strategy.name(),
        "events": tally.events(),
        "counted": tally.counted(),
        "exact": verdict.is_exact(),
        "tooMany": verdict.too_many,
        "missing": verdict.missing,
        "errors": tally.errors,
        "inDoubt": tally.in_doubt,
        "sent": tally.sent,
        "seconds": tally.time.as_secs_f64(),
        "troubles": Value::Object(troubles.into_iter().collect()),
    })
}
