//! What of the driver works on this deployment: retries, transactions, deadlines and the rest.

use std::time::Duration;

use steadfast::options::Acknowledgment;

use super::{Findings, list};
use crate::{
    doctor::facts::{Facts, Kind, RecordLifetime},
    duration,
};

/// The wire version of MongoDB 3.6, the first with sessions and retryable writes.
const SESSIONS: i32 = 6;
/// A shorter lifetime of records is no protection: a retry waits up to 30 s for a new primary alone.
const SHORT_RECORD_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The wire version of MongoDB 8.2, the first whose servers shed load.
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

/// Why the servers cannot tell a write that is sent again from a new one.
fn no_retryable_writes(facts: &Facts) -> Option<(&'static str, &'static str)> {
    let oldest = facts.reached().filter_map(|server| server.max_wire_version).min();
    if facts.kind == Kind::Standalone {
        Some(("a standalone server keeps no record of transaction ids", MAKE_IT_A_SET))
    } else if oldest.is_some_and(|version| version < SESSIONS) {
        Some(("a server is older than MongoDB 3.6", "Upgrade the servers."))
    } else if facts.storage_engine.as_deref() == Some("mmapv1") {
        Some(("the storage engine is MMAPv1", "Move the data to WiredTiger."))
    } else if facts.kind != Kind::LoadBalanced && session_timeout(facts).is_none() {
        Some(("not all servers have sessions", "Upgrade the servers, or wait until all are up."))
    } else {
        None
    }
}

fn retryable_writes(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "retryable_writes";
    const WHY: &str = "When a connection breaks, the application must find out itself whether a write was \
                       applied.";
    let unacknowledged = facts.uri.write_concern.as_ref().and_then(|concern| concern.w.as_ref())
        == Some(&Acknowledgment::Nodes(0));
    if facts.uri.retry_writes == Some(false) {
        findings.warning(
            CODE,
            "writes are not retried: the connection string says retryWrites=false",
            WHY,
            "Take retryWrites=false out of the connection string.",
        );
    } else if let Some((because, next)) = no_retryable_writes(facts) {
        findings.warning(CODE, format!("writes are not retried: {because}"), WHY, next);
    } else if unacknowledged {
        findings.warning(
            CODE,
            "writes are not retried: with w=0, nobody hears whether one failed",
            WHY,
            "Take w=0 out of the connection string.",
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
            "reads are not retried: the connection string says retryReads=false",
            "A failover, or a connection that breaks, shows as an error in the application.",
            "Take retryReads=false out of the connection string.",
        );
    } else {
        findings.ok(CODE, "reads are retried");
    }
}

/// The shortest time that a server remembers a session; none if one has no sessions.
fn session_timeout(facts: &Facts) -> Option<Duration> {
    let bearing = facts.reached().filter(|server| server.server_type.is_data_bearing());
    let timeouts: Option<Vec<_>> = bearing.map(|server| server.session_timeout).collect();
    timeouts?.into_iter().min()
}

fn sessions(facts: &Facts, findings: &mut Findings) {
    match session_timeout(facts) {
        Some(time) => {
            let time = duration::show(time);
            findings.ok("sessions", format!("sessions are kept for {time} after their last use"));
        }
        // Behind a balancer, it is the servers' secret.
        None if facts.kind == Kind::LoadBalanced => {}
        None => findings.warning(
            "sessions",
            "there are no sessions here",
            "Neither retryable writes, transactions nor causal consistency work without.",
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
            format!("the record of a retryable write may be gone after {shown} ({short})"),
            "A retry that comes later is applied a second time. Drivers see the session time-out only, \
             and limit their retries by it; the record is certain to be kept for \
             TransactionRecordMinimumLifetimeMinutes alone.",
            "Start these servers with --setParameter TransactionRecordMinimumLifetimeMinutes=30, or as \
             many minutes as localLogicalSessionTimeoutMinutes if that is more.",
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
                "the user may not read how long {} keep the record of a retryable write",
                list(denied)
            ),
            WHY,
            "Give the user the role clusterMonitor, or ask an administrator to run this.",
        );
    }
    if let Some((_, why)) = not_read.first() {
        findings.note(
            CODE,
            format!(
                "it was not read how long {} keep the record of a retryable write",
                list(not_read.iter().map(|(server, _)| server))
            ),
            &format!("{why}. {WHY}"),
            match facts.kind {
                Kind::Sharded | Kind::LoadBalanced => {
                    "Run this on each shard, with the connection string of its replica set."
                }
                _ => "Run this again when that is resolved.",
            },
        );
    }
}

fn transactions(facts: &Facts, findings: &mut Findings) {
    match facts.kind {
        Kind::Standalone => findings.note(
            "transactions",
            "transactions do not work on a standalone server",
            "start_transaction succeeds, and the first operation in it fails.",
            "Make it a replica set.",
        ),
        Kind::ReplicaSet | Kind::Sharded | Kind::LoadBalanced => {
            findings.ok("transactions", "transactions work");
        }
        Kind::Unknown => {}
    }
}

fn change_streams(facts: &Facts, findings: &mut Findings) {
    match facts.kind {
        Kind::Standalone => findings.note(
            "change_streams",
            "change streams do not work on a standalone server",
            "They read the log that members of a set replicate by, and there is none here.",
            "Make it a replica set.",
        ),
        Kind::ReplicaSet | Kind::Sharded | Kind::LoadBalanced => {
            findings.ok("change_streams", "change streams work, and go on after failures");
        }
        Kind::Unknown => {}
    }
}

fn deadlines(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "deadlines";
    match facts.uri.timeout.filter(|limit| !limit.is_zero()) {
        Some(limit) => {
            let limit = duration::show(limit);
            findings.ok(CODE, format!("a call ends after {limit}, retries included"));
        }
        None => findings.note(
            CODE,
            "calls have no deadline: the connection string does not say timeoutMS",
            "A server that neither answers nor closes its connection is waited for without end, and a \
             call is retried once only.",
            "Add timeoutMS=10000, or as long as your callers wait.",
        ),
    }
}

fn overload(facts: &Facts, findings: &mut Findings) {
    const CODE: &str = "overload";
    let oldest = facts.reached().filter_map(|server| server.max_wire_version).min();
    if facts.uri.max_adaptive_retries == Some(0) {
        findings.note(
            CODE,
            "calls that an overloaded server refuses are not tried again: maxAdaptiveRetries=0",
            "Each refusal shows as an error in the application.",
            "Take maxAdaptiveRetries out of the connection string.",
        );
    } else if oldest.is_some_and(|version| version >= SHEDDING) {
        // Not the 449 of MongoDB 8.2.0, which lacks the label.
        findings.ok(CODE, "calls rejected with RetryableError are tried again, with pauses");
    } else {
        findings.ok(CODE, "overload: calls would be tried again; servers before 8.2 refuse none");
    }
}
