//! Results as two tables and as a JSON document.

use serde_json::{Value, json};
use steadfast_report::table::Table;

use crate::paint::Paint;

use super::{
    plan::{Plan, Trouble},
    tally::{Tallies, Tally, Verdict},
};

const MEANING: &str = "\
dont-retry        raises the error: a lost request is never counted
always-retry      retries after any error: an executed write is applied twice
retry-once        retries once after a network error: applied twice as well
idempotent        counts in two idempotent steps: twice the writes
retryable-writes  uses retryable writes: the server recognises the retry

exact: each event is counted once. in doubt: the error leaves it open.
Why: docs/resilience.md. Faults for your application: steadfast pipe --help";

/// Returns both tables, in 80 columns.
pub(super) fn text(paint: Paint, plan: &Plan, tallies: &Tallies) -> String {
    let squares = squares(paint, plan, tallies);
    let totals = totals(paint, tallies);
    format!("{squares}\n{totals}\n{MEANING}")
}

/// Table of the guide: the result of each strategy with each trouble.
fn squares(paint: Paint, plan: &Plan, tallies: &Tallies) -> String {
    let titles = Trouble::ALL.map(Trouble::title).join("|>");
    let mut table = Table::new(&format!("strategy|>{titles}"));
    let hits = Trouble::ALL.map(|trouble| {
        let (events, hits) = plan.of(trouble);
        format!("{hits} of {events}")
    });
    let hits = ["  events hit".to_owned()].into_iter().chain(hits);
    table.row(hits.map(|cell| paint.faint(cell)));
    for tally in tallies.iter() {
        let verdicts = Trouble::ALL.map(|trouble| judged(paint, tally.of(trouble)));
        table.row([tally.strategy.to_string()].into_iter().chain(verdicts));
    }
    lines(paint, &table)
}

fn totals(paint: Paint, tallies: &Tallies) -> String {
    let titles = "strategy|>events|>counted|verdict|>errors|>in doubt|>sent|>waited";
    let mut table = Table::new(titles);
    for tally in tallies.iter() {
        table.row([
            tally.strategy.to_string(),
            tally.events().to_string(),
            tally.counted().to_string(),
            judged(paint, tally.verdict()),
            tally.errors.to_string(),
            tally.in_doubt.to_string(),
            tally.sent.to_string(),
            format!("{:.1} s", tally.time.as_secs_f64()),
        ]);
    }
    lines(paint, &table)
}

fn lines(paint: Paint, table: &Table) -> String {
    let mut lines = table.lines();
    lines[0] = paint.strong(&lines[0]);
    lines.join("\n") + "\n"
}

/// Formats a verdict in its colour.
pub(super) fn judged(paint: Paint, verdict: Verdict) -> String {
    in_color(paint, verdict, verdict.to_string())
}

/// Colours text about a verdict.
pub(super) fn in_color(paint: Paint, verdict: Verdict, text: String) -> String {
    if verdict.is_exact() { paint.good(text) } else { paint.bad(text) }
}

/// Returns the JSON document.
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
