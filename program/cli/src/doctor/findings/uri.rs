//! Options of the connection string that have no effect, are harmful, or are missing.

use std::time::Duration;

use steadfast::{
    ServerType,
    options::{Acknowledgment, Compressor, ReadPreference},
};

use super::{Findings, list};
use crate::{
    doctor::facts::{DeploymentKind, Facts, Server},
    duration,
};

/// Approximate duration of an election, including the detection of a failed primary.
const ELECTION: Duration = Duration::from_secs(10);
/// Shorter server selection time-outs are a warning.
const SHORT: Duration = Duration::from_secs(2);

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    for warning in &facts.uri.warnings {
        findings.warning(
            "option_ignored",
            format!("connection string: {warning}"),
            "The option has no effect.",
            "Correct it, or remove it.",
        );
    }
    writes(facts, findings);
    overruled(facts, findings);
    without_effect(facts, findings);
    connection_mode(facts, findings);
    timeouts(facts, findings);
    too_short(facts, findings);
    pool(facts, findings);
    reads(facts, findings);
    compression(facts, findings);
    if facts.uri.app_name.is_none() {
        findings.note(
            "app_name",
            "the connection string has no appName",
            "Server logs and currentOp do not show which connections belong to this application.",
            "Add appName= with the name of the application.",
        );
    }
}

fn writes(facts: &Facts, findings: &mut Findings) {
    let Some(concern) = &facts.uri.write_concern else { return };
    match concern.w {
        Some(Acknowledgment::Nodes(0)) => findings.warning(
            "w0",
            "w=0: writes are not acknowledged",
            "Errors of writes are not reported.",
            "Remove w=0 from the connection string.",
        ),
        Some(Acknowledgment::Nodes(1)) if facts.kind != DeploymentKind::Standalone => findings.warning(
            "w1",
            "w=1: writes are acknowledged by the primary alone",
            "If it fails before a write is replicated, the acknowledged write is lost, despite retries.",
            "Set w=majority, or omit w: majority is the default since MongoDB 5.0.",
        ),
        _ => {}
    }
    if concern.journal == Some(false) {
        findings.warning(
            "journal",
            "journal=false: writes are acknowledged before they are on a disk",
            "When servers lose power, acknowledged writes may be lost.",
            "Remove journal=false from the connection string.",
        );
    }
    let one = matches!(concern.w, Some(Acknowledgment::Nodes(0 | 1)));
    if concern.w_timeout.is_some_and(|it| !it.is_zero()) && one {
        findings.note(
            "w_timeout",
            "wTimeoutMS has no effect",
            "It limits the wait for other members, which w does not require.",
            "Remove it, or set w=majority.",
        );
    }
}

/// Reports time-outs that `timeoutMS` overrules or should replace.
fn overruled(facts: &Facts, findings: &mut Findings) {
    let uri = &facts.uri;
    let w_timeout = uri.write_concern.as_ref().and_then(|concern| concern.w_timeout);
    let given = [
        ("socketTimeoutMS", uri.socket_timeout),
        ("waitQueueTimeoutMS", uri.wait_queue_timeout),
        ("wTimeoutMS", w_timeout),
    ];
    let given = given.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
    let given: Vec<_> = given.collect();
    if uri.timeout.is_some() {
        if !given.is_empty() {
            findings.note(
                "overruled",
                format!("timeoutMS overrules {}", list(given)),
                "The deadline of an operation limits each of its steps.",
                "Remove the overruled options from the connection string.",
            );
        }
    } else if uri.socket_timeout.is_some_and(|it| !it.is_zero()) {
        findings.note(
            "socket_timeout",
            "socketTimeoutMS closes connections with a late reply",
            "The server continues the command, and the driver retries it, which adds load.",
            "Use timeoutMS instead: the server receives the remaining time as maxTimeMS.",
        );
    }
}

fn without_effect(facts: &Facts, findings: &mut Findings) {
    let uri = &facts.uri;
    let zlib = uri.compressors.iter().flatten().any(|it| matches!(it, Compressor::Zlib { .. }));
    let rows = [
        (
            uri.server_selection_try_once.is_some(),
            "serverSelectionTryOnce has no effect",
            "It is for single-threaded drivers.",
        ),
        (
            uri.uuid_representation.is_some(),
            "uuidRepresentation has no effect",
            "The type of a value determines its representation: bson::Uuid is the standard one.",
        ),
        (
            uri.zlib_compression_level.is_some() && !zlib,
            "zlibCompressionLevel has no effect",
            "compressors does not contain zlib.",
        ),
        (
            uri.auth_source.is_some() && uri.credential.is_none(),
            "authSource has no effect",
            "The connection string has no user.",
        ),
    ];
    for (given, what, why) in rows {
        if given {
            findings.note("no_effect", what, why, "Remove it from the connection string.");
        }
    }
}

fn connection_mode(facts: &Facts, findings: &mut Findings) {
    if facts.kind != DeploymentKind::ReplicaSet {
        return;
    }
    let set = facts.set_name().unwrap_or("<name>");
    if facts.is_direct() {
        let primary = facts.primary().is_some();
        let role = if primary { "the primary at present" } else { "not the primary: writes fail" };
        findings.warning(
            "direct_connection",
            format!("directConnection=true to a member of the replica set {set}, which is {role}"),
            "Only this member is used: after an election, operations are not retried on the new primary.",
            "For an application, remove directConnection from the connection string.",
        );
        return;
    }
    if facts.uri.replica_set.is_none() {
        findings.note(
            "set_name_missing",
            "the connection string has no replicaSet",
            "The driver cannot detect a host that belongs to another replica set.",
            &format!("Add replicaSet={set}."),
        );
    }
    let members = facts.servers.len();
    if facts.seeds.len() == 1 && members > 1 && facts.uri.original_srv_hostname.is_none() {
        findings.note(
            "one_seed",
            format!("the connection string names one host of {members}"),
            "If that host is down when an application starts, the replica set is not found.",
            &format!("Name {}.", list(facts.servers.iter().map(|it| &it.address))),
        );
    }
}

fn timeouts(facts: &Facts, findings: &mut Findings) {
    if let Some(given) = facts.uri.server_selection_timeout
        && given < ELECTION
        && facts.kind != DeploymentKind::Standalone
    {
        let what = format!("serverSelectionTimeoutMS is {}", duration::show(given));
        let why = "An election takes about ten seconds, and longer if machines fail. Operations in that time fail \
                   that would succeed with a longer time-out.";
        let next =
            "Omit it: the default is 30 seconds. For operations with a deadline, use timeoutMS.";
        if given < SHORT {
            findings.warning("short_selection_timeout", what, why, next);
        } else {
            findings.note("short_selection_timeout", what, why, next);
        }
    }
    if facts.uri.connect_timeout.is_some_and(|limit| limit.is_zero()) {
        findings.warning(
            "connect_timeout",
            "connectTimeoutMS=0: opening a connection has no time-out",
            "A server that drops packets is not detected.",
            "Omit it: the default is 10 seconds.",
        );
    }
}

/// Reports a time-out that is shorter than an operation on the nearest server takes.
fn too_short(facts: &Facts, findings: &mut Findings) {
    let uri = &facts.uri;
    let limits = [("timeoutMS", uri.timeout), ("socketTimeoutMS", uri.socket_timeout)];
    let mut limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    // `timeoutMS` overrules `socketTimeoutMS`.
    let Some((name, limit)) = limits.find(|(_, limit)| !limit.is_zero()) else { return };
    let writable = facts.reached().filter(|server| server.server_type.is_writable());
    let Some(trip) = writable.filter_map(Server::median).min() else { return };
    if limit < 2 * trip {
        findings.problem(
            "limit_too_short",
            format!("{name} is {}, too short", duration::show(limit)),
            &format!(
                "A ping takes {:.1} ms; most operations cannot complete in time.",
                trip.as_secs_f64() * 1000.0
            ),
            "Use several seconds.",
        );
    }
}

fn pool(facts: &Facts, findings: &mut Findings) {
    match facts.uri.max_pool_size {
        Some(1) => findings.warning(
            "pool_of_one",
            "maxPoolSize=1: all tasks share one connection",
            "Each operation waits for the previous one, and a cursor or transaction in use delays others.",
            "Omit it: the default is 100.",
        ),
        Some(0) => findings.note(
            "pool_without_limit",
            "maxPoolSize=0: the number of connections is not limited",
            "When servers are slow, connections accumulate and make them slower.",
            "Omit it: the default is 100.",
        ),
        Some(_) | None => {}
    }
}

fn reads(facts: &Facts, findings: &mut Findings) {
    let Some(preference) = &facts.uri.read_preference else { return };
    if facts.kind != DeploymentKind::ReplicaSet || facts.is_direct() {
        return;
    }
    if let Some(given) = preference.max_staleness() {
        let frequency = facts.uri.heartbeat_frequency.unwrap_or(Duration::from_secs(10));
        let least = Duration::from_secs(90).max(frequency + Duration::from_secs(10));
        if given < least {
            findings.problem(
                "max_staleness",
                format!("maxStalenessSeconds is {}, too short", duration::show(given)),
                &format!(
                    "With this heartbeatFrequencyMS, the minimum is {}.",
                    duration::show(least)
                ),
                "Increase it, or omit heartbeatFrequencyMS.",
            );
        }
    }
    let sets = preference.tag_sets();
    let matching = |server_type: ServerType| {
        facts.of_type(server_type).any(|server| {
            let has = |(key, value): (&String, &String)| server.tags.get(key) == Some(value);
            sets.is_empty() || sets.iter().any(|set| set.iter().all(has))
        })
    };
    let (secondary, primary) = (matching(ServerType::RsSecondary), matching(ServerType::RsPrimary));
    let mode = preference.mode();
    let is_without_server = match preference {
        ReadPreference::Secondary { .. } => !secondary,
        ReadPreference::Nearest { .. } => !secondary && !primary,
        _ => false,
    };
    let tags = if sets.is_empty() { "" } else { " with these tags" };
    if is_without_server {
        findings.problem(
            "no_server_to_read",
            format!("readPreference={mode}, but there is no server{tags} to read from"),
            "Each read fails after the server selection time-out.",
            &format!(
                "Set {mode}Preferred, add a tag set that matches every server, or add members."
            )
            .replace("nearestPreferred", "secondaryPreferred"),
        );
    } else if matches!(preference, ReadPreference::SecondaryPreferred { .. }) && !secondary {
        findings.note(
            "no_server_to_read",
            format!("readPreference={mode}, but there is no secondary{tags}"),
            "All reads go to the primary.",
            "",
        );
    }
}

fn compression(facts: &Facts, findings: &mut Findings) {
    let Some(wanted) = facts.uri.compressors.as_ref().filter(|it| !it.is_empty()) else { return };
    let names = list(wanted.iter().map(|it| it.as_str()));
    let none =
        facts.reached().find(|it| it.compressors.is_empty() && it.max_wire_version.is_some());
    if let Some(server) = none {
        findings.note(
            "compression",
            format!("{} supports no compressor of {names}", server.address),
            "Messages to and from it are not compressed.",
            "Enable one on the server (net.compression.compressors), or remove compressors.",
        );
    } else {
        findings.note(
            "compression",
            format!("messages are compressed with the first of {names} that a server supports"),
            "This program includes all compressors; an application includes those that are enabled.",
            &format!("Enable the cargo features {names} of steadfast in the application."),
        );
    }
}
