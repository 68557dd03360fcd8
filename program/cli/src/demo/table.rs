//! Results as two tables and as a JSON document.

use serde_json::{Value, json};
use steadfast_report::table::Table;

use crate::paint::Paint;

use super::{
    plan::{DemoFault, Plan},
    tally::{Miscount, Tallies, Tally},
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

/// Table of the README: the result of each strategy with each fault.
fn squares(paint: Paint, plan: &Plan, tallies: &Tallies) -> String {
    let titles = DemoFault::ALL.map(DemoFault::title).join("|>");
    let mut table = Table::new(&format!("strategy|>{titles}"));
    let hits = DemoFault::ALL.map(|fault| {
        let (events, hits) = plan.of(fault);
        format!("{hits} of {events}")
    });
    let hits = ["  events hit".to_owned()].into_iter().chain(hits);
    table.row(hits.map(|cell| paint.faint(cell)));
    for tally in tallies.iter() {
        let miscounts = DemoFault::ALL.map(|fault| colored_miscount(paint, tally.of(fault)));
        table.row([tally.strategy.to_string()].into_iter().chain(miscounts));
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
            colored_miscount(paint, tally.miscount()),
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

/// Formats a miscount in its colour.
pub(super) fn colored_miscount(paint: Paint, miscount: Miscount) -> String {
    in_color(paint, miscount, miscount.to_string())
}

/// Colours text about a miscount.
pub(super) fn in_color(paint: Paint, miscount: Miscount, text: String) -> String {
    if miscount.is_exact() { paint.good(text) } else { paint.bad(text) }
}

/// Returns the JSON document.
pub(super) fn json(seed: u64, plan: &Plan, tallies: &Tallies, unexpected: &[String]) -> Value {
    let hits = DemoFault::ALL.map(|fault| {
        let (events, hits) = plan.of(fault);
        (fault.key().to_owned(), json!({ "events": events, "hit": hits }))
    });
    let strategies: Vec<Value> = tallies.iter().map(one).collect();
    json!({
        "seed": seed,
        "faults": Value::Object(hits.into_iter().collect()),
        "strategies": strategies,
        "unexpected": unexpected,
    })
}

fn one(tally: &Tally) -> Value {
    let to_json =
        |Miscount { too_many, missing }| json!({ "tooMany": too_many, "missing": missing });
    let faults = DemoFault::ALL.map(|it| (it.key().to_owned(), to_json(tally.of(it))));
    let miscount = tally.miscount();
    json!({
        "strategy": tally.strategy.name(),
        "events": tally.events(),
        "counted": tally.counted(),
        "exact": miscount.is_exact(),
        "tooMany": miscount.too_many,
        "missing": miscount.missing,
        "errors": tally.errors,
        "inDoubt": tally.in_doubt,
        "sent": tally.sent,
        "seconds": tally.time.as_secs_f64(),
        "faults": Value::Object(faults.into_iter().collect()),
    })
}
