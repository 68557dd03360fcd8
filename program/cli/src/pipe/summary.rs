//! What the servers executed, in the end.

use std::fmt::Write;

use blackpipe::proxy::{Ledger, RuleState};
use serde_json::{Value, json};

/// A table of commands, a line for each rule, and whether a write was executed twice.
pub(super) fn of(ledger: &Ledger, rules: &[RuleState]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = table(&mut text, ledger);
    for state in rules {
        let name = state.rule().as_name().unwrap_or_default();
        let (applied, met) = (state.applied(), state.met());
        let what = state.rule().reaction().name();
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

/// The same for programs.
pub(super) fn document(ledger: &Ledger, rules: &[RuleState]) -> Value {
    let commands = ledger.counts().map(|(server, command, namespace, count)| {
        json!({
            "server": server,
            "command": command,
            "namespace": namespace,
            "came": count.attempts,
            "delivered": count.deliveries,
            "executed": count.executions,
            "fromRecord": count.from_record,
            "refused": count.errors,
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
        "retryableWrites": { "all": writes, "sentAgain": retried, "appliedTwice": twice },
    })
}

/// How many retryable writes there were, were sent more than once, and were applied more than once.
fn writes(ledger: &Ledger) -> (usize, usize, usize) {
    let twice = ledger.writes().filter(|write| write.was_applied_twice()).count();
    let retried = ledger.writes().filter(|write| write.attempts > 1).count();
    (ledger.writes().count(), retried, twice)
}

fn table(text: &mut String, ledger: &Ledger) -> std::fmt::Result {
    let counts: Vec<_> = ledger.counts().collect();
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0).max(9);
    let server = longest(&mut counts.iter().map(|count| count.0.len()));
    let command = longest(&mut counts.iter().map(|count| count.1.len()));
    let namespace = longest(&mut counts.iter().map(|count| count.2.len()));
    writeln!(
        text,
        "{:server$}  {:command$}  {:namespace$}  came  delivered  executed  from record  refused",
        "server", "command", "namespace"
    )?;
    for (at, name, place, count) in counts {
        writeln!(
            text,
            "{at:server$}  {name:command$}  {place:namespace$}  {:>4}  {:>9}  {:>8}  {:>11}  {:>7}",
            count.attempts, count.deliveries, count.executions, count.from_record, count.errors
        )?;
    }
    Ok(())
}
