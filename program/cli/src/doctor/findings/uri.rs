//! Options of the connection string that do nothing, do harm, or are missed.

use std::time::Duration;

use steadfast::{
    ServerType,
    options::{Acknowledgment, Compressor, ReadPreference},
};

use super::{Findings, list};
use crate::{
    doctor::facts::{Facts, Kind, Server},
    duration,
};

/// An election takes about as long, and longer if the primary's end is to be noticed first.
const ELECTION: Duration = Duration::from_secs(10);
const HASTY: Duration = Duration::from_secs(2);

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    for warning in &facts.uri.warnings {
        findings.warning(
            "option_ignored",
            format!("connection string: {warning}"),
            "What it was meant for does not happen.",
            "Correct it, or take it out.",
        );
    }
    writes(facts, findings);
    overruled(facts, findings);
    without_effect(facts, findings);
    membership(facts, findings);
    timeouts(facts, findings);
    too_short(facts, findings);
    pool(facts, findings);
    reads(facts, findings);
    compression(facts, findings);
    if facts.uri.app_name.is_none() {
        findings.note(
            "app_name",
            "the connection string has no appName",
            "Servers' logs and currentOp cannot tell this application from others.",
            "Add appName=, with a name of yours.",
        );
    }
}

fn writes(facts: &Facts, findings: &mut Findings) {
    let Some(concern) = &facts.uri.write_concern else { return };
    match concern.w {
        Some(Acknowledgment::Nodes(0)) => findings.warning(
            "w0",
            "w=0: writes are not acknowledged",
            "A write that fails is not heard of.",
            "Take w=0 out of the connection string.",
        ),
        Some(Acknowledgment::Nodes(1)) if facts.kind != Kind::Standalone => findings.warning(
            "w1",
            "w=1: writes are acknowledged by the primary alone",
            "If it fails before others have the write, an acknowledged write is lost, retries or not.",
            "Write w=majority, or leave w out: since MongoDB 5.0 that means majority.",
        ),
        _ => {}
    }
    if concern.journal == Some(false) {
        findings.warning(
            "journal",
            "journal=false: writes are acknowledged before they are on a disk",
            "When servers lose power, acknowledged writes may be lost.",
            "Take journal=false out of the connection string.",
        );
    }
    let one = matches!(concern.w, Some(Acknowledgment::Nodes(0 | 1)));
    if concern.w_timeout.is_some_and(|it| !it.is_zero()) && one {
        findings.note(
            "w_timeout",
            "wTimeoutMS does nothing here",
            "It limits the wait for other members, and w asks for none.",
            "Take it out, or write w=majority.",
        );
    }
}

/// What a deadline takes the place of.
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
                format!("timeoutMS is set, so that {} does not count", list(given)),
                "A call's one deadline limits each of its steps.",
                "Take what does not count out of the connection string.",
            );
        }
    } else if uri.socket_timeout.is_some_and(|it| !it.is_zero()) {
        findings.note(
            "socket_timeout",
            "socketTimeoutMS closes connections on which a reply is late",
            "The server goes on with what it was asked, the call is sent once more, and both are work.",
            "Use timeoutMS instead: the server is told how much time is left.",
        );
    }
}

fn without_effect(facts: &Facts, findings: &mut Findings) {
    let uri = &facts.uri;
    let zlib = uri.compressors.iter().flatten().any(|it| *it == Compressor::Zlib);
    let rows = [
        (
            uri.server_selection_try_once.is_some(),
            "serverSelectionTryOnce does nothing",
            "It is for drivers with one thread.",
        ),
        (
            uri.uuid_representation.is_some(),
            "uuidRepresentation does nothing",
            "The type of a value says how it is written: bson::Uuid is the standard representation.",
        ),
        (
            uri.zlib_compression_level.is_some() && !zlib,
            "zlibCompressionLevel does nothing",
            "compressors does not name zlib.",
        ),
        (
            uri.auth_source.is_some() && uri.credential.is_none(),
            "authSource does nothing",
            "The connection string names no user.",
        ),
    ];
    for (given, what, why) in rows {
        if given {
            findings.note("no_effect", what, why, "Take it out of the connection string.");
        }
    }
}

fn membership(facts: &Facts, findings: &mut Findings) {
    if facts.kind != Kind::ReplicaSet {
        return;
    }
    let set = facts.set_name().unwrap_or("<name>");
    if facts.is_direct() {
        let primary = facts.primary().is_some();
        let now = if primary { "primary now" } else { "not the primary: it takes no writes" };
        findings.warning(
            "direct_connection",
            format!("directConnection=true to a member of the set {set}, which is {now}"),
            "Only this member is used: after an election, nothing is retried on the new primary.",
            "For an application, take directConnection out of the connection string.",
        );
        return;
    }
    if facts.uri.replica_set.is_none() {
        findings.note(
            "set_name_missing",
            "the connection string does not say replicaSet",
            "The servers are taken for what they say they are; a host of another set would be, too.",
            &format!("Add replicaSet={set}."),
        );
    }
    let members = facts.servers.len();
    if facts.seeds.len() == 1 && members > 1 && facts.uri.original_srv_hostname.is_none() {
        findings.note(
            "one_seed",
            format!("the connection string names one host of {members}"),
            "If that one is down when an application starts, the set is not found.",
            &format!("Name {}.", list(facts.servers.iter().map(|it| &it.address))),
        );
    }
}

fn timeouts(facts: &Facts, findings: &mut Findings) {
    if let Some(given) = facts.uri.server_selection_timeout
        && given < ELECTION
        && facts.kind != Kind::Standalone
    {
        let what = format!("serverSelectionTimeoutMS is {}", duration::show(given));
        let why = "An election takes about ten seconds, and longer if machines fail. Calls in that time \
                   fail that would have succeeded.";
        let next = "Leave it out: half a minute is the default. For calls that must end sooner, use \
                    timeoutMS.";
        if given < HASTY {
            findings.warning("hasty_selection", what, why, next);
        } else {
            findings.note("hasty_selection", what, why, next);
        }
    }
    if facts.uri.connect_timeout.is_some_and(|limit| limit.is_zero()) {
        findings.warning(
            "connect_timeout",
            "connectTimeoutMS=0: a connection may take for ever to open",
            "A server that swallows packets is not noticed.",
            "Leave it out: ten seconds are the default.",
        );
    }
}

/// A limit that a call to the nearest server may not keep.
fn too_short(facts: &Facts, findings: &mut Findings) {
    let uri = &facts.uri;
    let limits = [("timeoutMS", uri.timeout), ("socketTimeoutMS", uri.socket_timeout)];
    let mut limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    // Of the two, the first is the one that counts.
    let Some((name, limit)) = limits.find(|(_, limit)| !limit.is_zero()) else { return };
    let writable = facts.reached().filter(|server| server.server_type.is_writable());
    let Some(trip) = writable.filter_map(Server::median).min() else { return };
    if limit < 2 * trip {
        findings.problem(
            "limit_too_short",
            format!("{name} is {}, too short", duration::show(limit)),
            &format!(
                "A ping takes {:.1} ms; most calls cannot be done in time.",
                trip.as_secs_f64() * 1000.0
            ),
            "Make it much longer than a call takes: seconds.",
        );
    }
}

fn pool(facts: &Facts, findings: &mut Findings) {
    match facts.uri.max_pool_size {
        Some(1) => findings.warning(
            "pool_of_one",
            "maxPoolSize=1: there is one connection for all tasks",
            "Each call waits for the one before it, and a cursor or transaction that is in use holds up \
             others.",
            "Leave it out: a hundred are the default.",
        ),
        Some(0) => findings.note(
            "pool_without_limit",
            "maxPoolSize=0: there is no limit to connections",
            "When servers are slow, connections pile up, and make them slower.",
            "Leave it out: a hundred are the default.",
        ),
        Some(_) | None => {}
    }
}

fn reads(facts: &Facts, findings: &mut Findings) {
    let Some(preference) = &facts.uri.read_preference else { return };
    if facts.kind != Kind::ReplicaSet || facts.is_direct() {
        return;
    }
    if let Some(given) = preference.max_staleness() {
        let frequency = facts.uri.heartbeat_frequency.unwrap_or(Duration::from_secs(10));
        let least = Duration::from_secs(90).max(frequency + Duration::from_secs(10));
        if given < least {
            findings.problem(
                "max_staleness",
                format!("maxStalenessSeconds is {}, too short", duration::show(given)),
                &format!("With this heartbeatFrequencyMS, {} is the least.", duration::show(least)),
                "Make it longer, or leave heartbeatFrequencyMS out.",
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
    let nobody = match preference {
        ReadPreference::Secondary { .. } => !secondary,
        ReadPreference::Nearest { .. } => !secondary && !primary,
        _ => false,
    };
    let tags = if sets.is_empty() { "" } else { " with such tags" };
    if nobody {
        findings.problem(
            "nobody_to_read",
            format!("readPreference={mode}, and there is no server{tags} to read from"),
            "Each read fails once it has looked for a server long enough.",
            &format!(
                "Write {mode}Preferred, add a tag set that matches every server, or add members."
            )
            .replace("nearestPreferred", "secondaryPreferred"),
        );
    } else if matches!(preference, ReadPreference::SecondaryPreferred { .. }) && !secondary {
        findings.note(
            "nobody_to_read",
            format!("readPreference={mode}, and there is no secondary{tags}"),
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
            format!("{} compresses with none of {names}", server.address),
            "Messages to and from it are not compressed.",
            "Enable one on the server (net.compression.compressors), or take compressors out.",
        );
    } else {
        findings.note(
            "compression",
            format!("messages are compressed, by the first of {names} that a server has"),
            "This program has all compressors; an application has those that it was built with.",
            &format!("Enable the cargo features {names} of steadfast in the application."),
        );
    }
}
