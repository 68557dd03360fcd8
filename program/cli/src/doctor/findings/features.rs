//! Features of the driver on this deployment: retries, sessions, transactions, deadlines and others.

use std::time::Duration;

use steadfast::options::Acknowledgment;

use super::{Findings, list};
use crate::{
    doctor::facts::{DeploymentKind, Facts, RecordLifetime},
    duration,
};

/// Wire version of MongoDB 3.6, the first with sessions and retryable writes.
const SESSIONS: i32 = 6;
/// A shorter record lifetime does not protect retries: server selection alone may take 30 s.
const SHORT_RECORD_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// Wire version of MongoDB 8.2, the first with load shedding.
const SHEDDING: i32 = 27;

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    retryable_writes(facts, findings);
    retryable_reads(facts, findings);
    sessions(facts, findings);
    record_lifetime(facts, findings);
    transactions(facts, findings);
    change_streams(facts, findings);
    deadlines(facts, findings);
    overload(facts, findings);
}

const MAKE_IT_A_SET: &str = "Make it a replica set, which may have one member: start mongod with \
                             --replSet, then rs.initiate().";

/// Returns the reason why servers do not support retryable writes, and advice.
fn no_retryable_writes(facts: &Facts) -> Option<(&'static str, &'static str)> {
    let oldest = facts.reached().filter_map(|server| server.max_wire_version).min();
    if facts.kind == DeploymentKind::Standalone {
        Some(("a standalone server does not support them", MAKE_IT_A_SET))
    } else if oldest.is_some_and(|version| version < SESSIONS) {
        Some(("a server is older than MongoDB 3.6", "Upgrade the servers."))
    } else if facts.storage_engine.as_deref() == Some("mmapv1") {
        Some(("the storage engine is MMAPv1", "Move the data to WiredTiger."))
    } else if facts.kind != DeploymentKind::LoadBalanced && session_timeout(facts).is_none() {
        Some(("not all servers support sessions", "Upgrade the servers, or wait until all are up."))
    } else {
        None
    }
}

fn retryable_writes(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "retryable_writes";
    const WHY: &str =
        "After a network error, the application has to find out whether a write was applied.";
    let unacknowledged = facts.uri.write_concern.as_ref().and_then(|concern| concern.w.as_ref())
        == Some(&Acknowledgment::Nodes(0));
    if facts.uri.retry_writes == Some(false) {
        findings.warning(
            CODE,
            "writes are not retried: the connection string has retryWrites=false",
            WHY,
            "Remove retryWrites=false from the connection string.",
        );
    } else if let Some((because, next)) = no_retryable_writes(facts) {
        findings.warning(CODE, format!("writes are not retried: {because}"), WHY, next);
    } else if unacknowledged {
        findings.warning(
            CODE,
            "writes are not retried: with w=0, errors are not reported",
            WHY,
            "Remove w=0 from the connection string.",
        );
    } else {
        findings.ok(CODE, "writes are retried, and applied at most once");
    }
}

fn retryable_reads(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "retryable_reads";
    if facts.uri.retry_reads == Some(false) {
        findings.warning(
            CODE,
            "reads are not retried: the connection string has retryReads=false",
            "A failover or a network error causes an error in the application.",
            "Remove retryReads=false from the connection string.",
        );
    } else {
        findings.ok(CODE, "reads are retried");
    }
}

/// Returns the shortest session time-out of all servers. `None` if a server does not support sessions.
fn session_timeout(facts: &Facts) -> Option<Duration> {
    let bearing = facts.reached().filter(|server| server.server_type.is_data_bearing());
    let timeouts: Option<Vec<_>> = bearing.map(|server| server.session_timeout).collect();
    timeouts?.into_iter().min()
}

fn sessions(facts: &Facts, findings: &mut Findings) {
    match session_timeout(facts) {
        Some(time) => {
            let time = duration::show(time);
            findings.ok("sessions", format!("sessions expire {time} after their last use"));
        }
        // A load balancer hides the session time-out of the servers.
        None if facts.kind == DeploymentKind::LoadBalanced => {}
        None => findings.warning(
            "sessions",
            "sessions are not supported",
            "Retryable writes, transactions and causal consistency require sessions.",
            "Upgrade the servers to MongoDB 4.2 or later.",
        ),
    }
}

/// Compares the minimum lifetime of the record of a retryable write with the session time-out.
fn record_lifetime(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "record_lifetime";
    let needed = session_timeout(facts).unwrap_or_default().max(SHORT_RECORD_LIFETIME);
    let known = facts.record_lifetimes.iter().filter_map(|(server, lifetime)| match lifetime {
        RecordLifetime::Known(lifetime) => Some((server, *lifetime)),
        RecordLifetime::Denied | RecordLifetime::NotRead(_) => None,
    });
    let Some(shortest) = known.clone().map(|(_, lifetime)| lifetime).min() else {
        return record_lifetime_not_read(facts, findings);
    };
    if shortest < needed {
        let short = list(known.filter(|(_, it)| *it < needed).map(|(server, _)| server));
        let shown = duration::show(shortest);
        findings.warning(
            CODE,
            format!("the record of a retryable write may be deleted after {shown} ({short})"),
            "A later retry is applied a second time. Drivers limit retries by the session time-out, but servers \
             guarantee the record only for TransactionRecordMinimumLifetimeMinutes.",
            "Start these servers with --setParameter TransactionRecordMinimumLifetimeMinutes=30, or with the \
             value of localLogicalSessionTimeoutMinutes if that is greater.",
        );
    }
    let all_known = facts.record_lifetimes.len() == known_count(facts);
    if !all_known {
        record_lifetime_not_read(facts, findings);
    } else if shortest >= needed {
        let shown = duration::show(shortest);
        findings.ok(CODE, format!("the record of a retryable write is kept for {shown} or longer"));
    }
}

fn known_count(facts: &Facts) -> usize {
    let known = |lifetime: &RecordLifetime| matches!(lifetime, RecordLifetime::Known(_));
    facts.record_lifetimes.iter().filter(|(_, lifetime)| known(lifetime)).count()
}

fn record_lifetime_not_read(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "record_lifetime_not_read";
    let mut denied = Vec::new();
    let mut not_read = Vec::new();
    for (server, lifetime) in &facts.record_lifetimes {
        match lifetime {
            RecordLifetime::Known(_) => {}
            RecordLifetime::Denied => denied.push(server),
            RecordLifetime::NotRead(why) => not_read.push((server, why)),
        }
    }
    const WHY: &str = "If TransactionRecordMinimumLifetimeMinutes is shorter than the session time-out, a \
                       late retry is applied a second time.";
    if !denied.is_empty() {
        findings.note(
            CODE,
            format!(
                "not authorized to read how long {} keep the record of a retryable write",
                list(denied)
            ),
            WHY,
            "Grant the role clusterMonitor to the user, or run this as an administrator.",
        );
    }
    if let Some((_, why)) = not_read.first() {
        findings.note(
            CODE,
            format!(
                "unknown how long {} keep the record of a retryable write",
                list(not_read.iter().map(|(server, _)| server))
            ),
            &format!("{why}. {WHY}"),
            match facts.kind {
                DeploymentKind::Sharded | DeploymentKind::LoadBalanced => {
                    "Run this on each shard, with the connection string of its replica set."
                }
                _ => "Run this again when that is resolved.",
            },
        );
    }
}

fn transactions(facts: &Facts, findings: &mut Findings) {
    match facts.kind {
        DeploymentKind::Standalone => findings.note(
            "transactions",
            "transactions do not work on a standalone server",
            "start_transaction succeeds, and the first operation in it fails.",
            "Make it a replica set.",
        ),
        DeploymentKind::ReplicaSet | DeploymentKind::Sharded | DeploymentKind::LoadBalanced => {
            findings.ok("transactions", "transactions work");
        }
        DeploymentKind::Unknown => {}
    }
}

fn change_streams(facts: &Facts, findings: &mut Findings) {
    match facts.kind {
        DeploymentKind::Standalone => findings.note(
            "change_streams",
            "change streams do not work on a standalone server",
            "They require the oplog of a replica set.",
            "Make it a replica set.",
        ),
        DeploymentKind::ReplicaSet | DeploymentKind::Sharded | DeploymentKind::LoadBalanced => {
            findings.ok("change_streams", "change streams work, and resume after errors");
        }
        DeploymentKind::Unknown => {}
    }
}

fn deadlines(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "deadlines";
    match facts.uri.timeout.filter(|limit| !limit.is_zero()) {
        Some(limit) => {
            let limit = duration::show(limit);
            findings.ok(CODE, format!("operations time out after {limit}, including retries"));
        }
        None => findings.note(
            CODE,
            "operations have no deadline: the connection string has no timeoutMS",
            "An operation waits without limit for a server that neither replies nor closes the connection, and \
             is retried only once.",
            "Add timeoutMS=10000, or another time-out that suits the application.",
        ),
    }
}

fn overload(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "overload";
    let oldest = facts.reached().filter_map(|server| server.max_wire_version).min();
    if facts.uri.max_adaptive_retries == Some(0) {
        findings.note(
            CODE,
            "commands rejected by an overloaded server are not retried: maxAdaptiveRetries=0",
            "Each rejection causes an error in the application.",
            "Remove maxAdaptiveRetries from the connection string.",
        );
    } else if oldest.is_some_and(|version| version >= SHEDDING) {
        // Except code 449 of MongoDB 8.2.0, which lacks the label.
        findings.ok(CODE, "commands rejected with RetryableError are retried with backoff");
    } else {
        findings.ok(
            CODE,
            "overload: rejected commands would be retried; servers before 8.2 reject none",
        );
    }
}
