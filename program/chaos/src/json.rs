//! Results as a JSON document. Its fields are described in docs/chaos.md and are stable.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    Report,
    account::{Account, Incident},
    contradiction::Contradiction,
    figures::{Answers, ErrorFigures, Figures, Latency, Operations, Recovery},
    judge::Verdict,
    plan::{Fault, Plan, Servers},
    repeat::{load_names, repeat_command},
};

/// Maximum number of contradictions of each sort. The counts include all of them.
const CONTRADICTIONS: usize = 100;

/// Returns the document.
pub(super) fn document(report: &Report, page: Option<&Path>) -> Value {
    let Report { account, verdict, figures, .. } = report;
    json!({
        "verdict": verdict_of(verdict),
        "contradictions": contradictions(account, verdict),
        "interrupted": account.interrupted,
        "lastedMs": millis(account.lasted),
        "server": account.server,
        "plan": plan(&account.plan),
        "operations": operations(&account.plan, verdict, figures),
        "kinds": kinds(figures),
        "attempts": attempts(&figures.all),
        "latencyMs": latency(&figures.all.latency),
        "errors": figures.errors.iter().map(error).collect::<Vec<_>>(),
        "incidents": account.incidents.iter().map(incident).collect::<Vec<_>>(),
        "failovers": figures.recoveries.iter().map(failover).collect::<Vec<_>>(),
        "report": page.map(|path| path.display().to_string()),
        "command": repeat_command(&account.plan),
    })
}

fn verdict_of(verdict: &Verdict) -> Value {
    json!({
        "clean": verdict.is_clean(),
        "duplicated": verdict.duplicated.len(),
        "lost": verdict.lost.len(),
        "wronglyLabelled": verdict.mislabelled.len(),
        "torn": verdict.torn.len(),
        "foreign": verdict.foreign.len(),
    })
}

fn contradictions(account: &Account, verdict: &Verdict) -> Vec<Value> {
    let one = |it: Contradiction<'_>| {
        json!({
            "what": it.what,
            "mark": it.mark,
            "operation": it.operation,
            "kind": it.record.map(|record| record.kind.name()),
            "beganMs": it.record.map(|record| millis(record.began)),
            "attempts": it.record.map(|record| record.attempts),
            "failures": it.failures(),
            "result": it.result(),
            "found": it.found,
        })
    };
    Contradiction::first(CONTRADICTIONS, account, verdict).into_iter().map(one).collect()
}

fn plan(plan: &Plan) -> Value {
    json!({
        // Without the connection string, which may contain a password.
        "servers": match &plan.servers {
            Servers::Embedded => "embedded",
            Servers::Mongod => "mongod",
            Servers::Sharded => "sharded",
            Servers::Foreign(_) => "uri",
        },
        "workload": load_names(plan),
        "faults": plan.faults.iter().copied().map(Fault::name).collect::<Vec<_>>(),
        "strategy": plan.strategy.name(),
        "tasks": plan.tasks,
        "rate": plan.rate,
        "durationMs": millis(plan.lasting),
        "timeoutMs": millis(plan.timeout),
        "seed": plan.seed,
        "database": plan.database,
    })
}

fn operations(plan: &Plan, verdict: &Verdict, figures: &Figures) -> Value {
    json!({
        "planned": plan.operations(),
        "all": figures.all.count(),
        "acknowledged": verdict.acknowledged,
        "notApplied": verdict.not_applied,
        "inDoubt": verdict.in_doubt,
        "inDoubtApplied": verdict.in_doubt_applied,
        "dropped": verdict.dropped,
    })
}

fn answers(counts: &Answers) -> Value {
    json!({
        "acknowledged": counts.acknowledged,
        "notApplied": counts.not_applied,
        "inDoubt": counts.in_doubt,
    })
}

fn kinds(figures: &Figures) -> Value {
    let kinds = figures.kinds.iter().map(|(kind, operations)| {
        let mut fields = answers(&operations.answers);
        fields["attempts"] = operations.attempts().into();
        fields["latencyMs"] = latency(&operations.latency);
        (kind.name().to_owned(), fields)
    });
    Value::Object(kinds.collect())
}

fn attempts(all: &Operations) -> Value {
    let by: Map<String, Value> = all
        .by_attempts
        .iter()
        .map(|(attempts, count)| (attempts.to_string(), (*count).into()))
        .collect();
    json!({
        "all": all.attempts(),
        "failed": all.failed_attempts,
        "retriedOperations": all.retried(),
        "operationsByAttempts": by,
    })
}

fn latency(it: &Latency) -> Value {
    json!({
        "p50": millis(it.p50),
        "p90": millis(it.p90),
        "p99": millis(it.p99),
        "p999": millis(it.p999),
        "max": millis(it.max),
    })
}

fn error(met: &ErrorFigures) -> Value {
    json!({ "what": met.what, "attempts": met.attempts, "operations": answers(&met.answers) })
}

fn incident(incident: &Incident) -> Value {
    json!({
        "fault": incident.fault.name(),
        "what": incident.what,
        "beganMs": millis(incident.began),
        "endedMs": millis(incident.ended),
        "failover": incident.is_failover,
        "hits": incident.hits,
        "lostReplies": incident.lost_replies,
    })
}

fn failover(recovery: &Recovery) -> Value {
    json!({
        "incident": recovery.incident,
        "tookMs": recovery.took.map(millis),
        "silenceMs": millis(recovery.silence),
    })
}

/// Returns milliseconds, rounded to microseconds.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
