//! Summary of the commands that the servers executed.

use std::fmt::Write;

use blackpipe::proxy::{Ledger, RequestCounts, RuleState};
use serde_json::{Value, json};
use steadfast_report::table::Table;

/// Returns a table of commands, a line for each rule, and the number of writes that were executed twice.
pub(super) fn of(ledger: &Ledger, rules: &[RuleState]) -> String {
    let mut text = table(ledger).lines().join("\n") + "\n";
    for state in rules {
        let name = state.rule().as_name().unwrap_or_default();
        let (applied, met) = (state.applied(), state.met());
        let what = state.rule().reaction().name();
        // Writing to a string does not fail.
        let _ = writeln!(text, "rule \"{name}\" ({what}): applied {applied} of {met} times");
    }
    let (writes, retried, twice) = writes(ledger);
    let _ = writeln!(
        text,
        "retryable writes: {writes}, of which {retried} were sent more than once and {twice} applied more \
         than once",
    );
    text
}

/// Returns the summary as a JSON document.
pub(super) fn document(ledger: &Ledger, rules: &[RuleState]) -> Value {
    let commands = ledger.counts().map(|(server, command, namespace, count)| {
        json!({
            "server": server,
            "command": command,
            "namespace": namespace,
            "attempts": count.attempts,
            "deliveries": count.deliveries,
            "executions": count.executions,
            "fromRecord": count.from_record,
            "errors": count.errors,
        })
    });
    let rules = rules.iter().map(|state| {
        json!({
            "name": state.rule().as_name(),
            "reaction": state.rule().reaction().name(),
            "applied": state.applied(),
            "met": state.met(),
        })
    });
    let (writes, retried, twice) = writes(ledger);
    json!({
        "commands": commands.collect::<Vec<_>>(),
        "rules": rules.collect::<Vec<_>>(),
        "retryableWrites": { "all": writes, "retried": retried, "appliedTwice": twice },
    })
}

/// Returns the number of retryable writes, of those sent more than once, and of those applied more than once.
fn writes(ledger: &Ledger) -> (usize, usize, usize) {
    let twice = ledger.writes().filter(|write| write.was_applied_twice()).count();
    let retried = ledger.writes().filter(|write| write.attempts > 1).count();
    (ledger.writes().count(), retried, twice)
}

/// Returns the table of commands.
fn table(ledger: &Ledger) -> Table {
    let titles = "server|command|namespace|>attempts|>deliveries|>executions|>from record|>errors";
    let mut table = Table::new(titles);
    for (server, command, namespace, count) in ledger.counts() {
        let names = [server, command, namespace].map(ToString::to_string);
        let RequestCounts { attempts, deliveries, executions, from_record, errors, .. } = count;
        let counts = [attempts, deliveries, executions, from_record, errors];
        table.row(names.into_iter().chain(counts.map(|it| it.to_string())));
    }
    table
}
