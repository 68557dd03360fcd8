//! Members of a replica set: states, votes, versions, clocks, replication lag, round-trip times.

use std::time::Duration;

use steadfast::{ServerType, options::Acknowledgment};

use super::{Findings, list};
use crate::{
    doctor::facts::{Clock, DeploymentKind, Facts, Member, Server},
    duration,
};

/// Difference of clocks that is worth a note.
const CLOCK_NOTICED: Duration = Duration::from_secs(1);
/// Half of the default margin of counter sweeps.
const CLOCK_HARMFUL: Duration = Duration::from_secs(30);
/// An idle primary writes a no-op every ten seconds: the lag of a secondary may appear to be as large.
const LAG_NOTICED: Duration = Duration::from_secs(15);
const LAG_HARMFUL: Duration = Duration::from_secs(90);
/// Round-trip time from which the network dominates the latency of writes.
const FAR: Duration = Duration::from_millis(50);

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    states(facts, findings);
    votes(facts, findings);
    acknowledgment(facts, findings);
    versions(facts, findings);
    clocks(facts, findings);
    lags(facts, findings);
    distances(facts, findings);
}

fn states(facts: &Facts, findings: &mut Findings) {
    for server in facts.of_type(ServerType::RsOther).chain(facts.of_type(ServerType::RsGhost)) {
        findings.warning(
            "not_ready",
            format!("{} is a member that cannot be used at present", server.address),
            "It is starting, recovering, hidden or removed: it serves no reads and may not become primary.",
            "Check its stateStr in rs.status(), and its log.",
        );
    }
}

fn votes(facts: &Facts, findings: &mut Findings) {
    if facts.kind != DeploymentKind::ReplicaSet {
        return;
    }
    let Some(members) = &facts.members else {
        return not_examined("the replica set configuration", facts, findings);
    };
    let voting = members.iter().filter(|member| member.votes).count();
    if members.len() == 1 {
        findings.note(
            "one_member",
            "the replica set has one member",
            "Retryable writes and transactions work, but there is no failover.",
            "For production, add two members.",
        );
    } else if voting % 2 == 0 {
        findings.warning(
            "even_votes",
            format!("{voting} members vote, which is an even number"),
            &format!(
                "{voting} votes tolerate the loss of no more members than {} votes, and a network partition into \
                 halves leaves no primary.",
                voting - 1
            ),
            "Add a voting member, or remove the vote of one.",
        );
    } else {
        spare_votes(facts, members, voting, findings);
    }
    let hold = members.iter().filter(|member| !member.arbiter).count();
    if hold < members.len() && hold < 3 {
        findings.note(
            "arbiter",
            format!("{} of {} members hold data, the others only vote", hold, members.len()),
            "While one of these is down, there is a primary, but writes with w=majority are not acknowledged.",
            "Replace the arbiter with a member that holds data.",
        );
    }
}

/// Reports that a part of the facts could not be read.
pub(super) fn not_examined(what: &str, facts: &Facts, findings: &mut Findings) {
    // Otherwise there is a problem that explains it.
    if facts.failure.is_none() && facts.login.required != Some(true) {
        findings.note(
            "not_examined",
            format!("{what} could not be read"),
            "The user is not authorized, or the time-out passed. There are no findings about it.",
            "Use a user with the role clusterMonitor, or a longer --timeout.",
        );
    }
}

fn spare_votes(facts: &Facts, members: &[Member], voting: usize, findings: &mut Findings) {
    let spare = (voting - 1) / 2;
    let is_down = |member: &&Member| {
        let mut lost = facts.servers.iter().filter(|server| !server.is_reached());
        member.votes && lost.any(|server| server.address.to_string() == member.host)
    };
    match members.iter().filter(is_down).count() {
        0 => findings.ok("votes", format!("{voting} members vote: {spare} may be down")),
        down if down >= spare && facts.primary().is_some() => findings.warning(
            "votes",
            format!("{down} of {voting} voting members cannot be reached from here"),
            "If they are down, the loss of one more leaves no majority and no primary.",
            "Restart them before another member is stopped.",
        ),
        // `connection` reports each unreachable member, and a missing primary.
        _ => {}
    }
}

/// Compares the number of acknowledgements in `w` with the number of members.
fn acknowledgment(facts: &Facts, findings: &mut Findings) {
    let concern = facts.uri.write_concern.as_ref();
    let Some(Acknowledgment::Nodes(wanted)) = concern.and_then(|it| it.w.as_ref()) else { return };
    if facts.kind != DeploymentKind::ReplicaSet || facts.is_direct() {
        return;
    }
    let wanted = usize::try_from(*wanted).unwrap_or(usize::MAX);
    let up = facts.reached().filter(|it| it.server_type.is_data_bearing()).count();
    let all = facts.servers.iter().filter(|it| it.server_type != ServerType::RsArbiter).count();
    let hidden = facts.members.iter().flatten().filter(|it| it.hidden).count();
    if wanted > all + hidden {
        findings.problem(
            "w_too_large",
            format!("w={wanted}, but {} members hold data", all + hidden),
            "Each write fails, or waits for members that do not exist.",
            "Set w=majority.",
        );
    } else if wanted > up + hidden {
        findings.problem(
            "w_too_large",
            format!("w={wanted}, but {} members that hold data can be reached", up + hidden),
            "Each write waits until more of them are up.",
            "Start them, or set w=majority.",
        );
    }
}

fn versions(facts: &Facts, findings: &mut Findings) {
    let mut known: Vec<_> = facts.servers.iter().filter_map(|it| it.version.as_deref()).collect();
    known.sort();
    known.dedup();
    if known.len() > 1 {
        findings.warning(
            "versions_differ",
            format!("the servers are of different versions: {}", list(known)),
            "This is meant for the duration of an upgrade. Features may depend on which server is primary.",
            "Complete the upgrade.",
        );
    }
}

fn clocks(facts: &Facts, findings: &mut Findings) {
    let known: Vec<(&Server, Clock)> =
        facts.servers.iter().filter_map(|server| Some((server, server.clock?))).collect();
    let (off, what) = match (widest(&known), worst(&known)) {
        (Some(apart), Some(alone)) if apart.0 > alone.0 => apart,
        (_, Some(alone)) => alone,
        (_, None) => return,
    };
    if off < CLOCK_NOTICED {
        let off = (off + Duration::from_millis(1)).as_millis();
        findings.ok(
            "clocks",
            format!("the clocks of the servers and of this machine agree within {off} ms"),
        );
        return;
    }
    let why = "Exactly-once counters depend on clocks: an increment expires a minute after it began, by the clocks \
               of client and server, and sweeps assume that servers differ by less than a minute.";
    let next = "Synchronise the clocks of all machines (chrony, ntpd).";
    if off < CLOCK_HARMFUL {
        findings.note("clocks", what, why, next);
    } else {
        findings.warning("clocks", what, why, next);
    }
}

/// Returns the largest certain difference between the clocks of a server and this machine, with a description.
fn worst(known: &[(&Server, Clock)]) -> Option<(Duration, String)> {
    let (server, clock) = known.iter().max_by_key(|(_, clock)| clock.off_by())?;
    let side = if clock.ahead_ms > 0 { "ahead of" } else { "behind" };
    let shown = duration::show(Duration::from_millis(clock.ahead_ms.unsigned_abs()));
    let what = format!("the clock of {} is {shown} {side} this machine's", server.address);
    Some((clock.off_by(), what))
}

/// Returns the largest certain difference between the clocks of two servers, with a description.
fn widest(known: &[(&Server, Clock)]) -> Option<(Duration, String)> {
    let (late, behind) = known.iter().min_by_key(|(_, clock)| clock.ahead_ms)?;
    let (early, ahead) = known.iter().max_by_key(|(_, clock)| clock.ahead_ms)?;
    let apart = Duration::from_millis(ahead.ahead_ms.abs_diff(behind.ahead_ms));
    let (early, late) = (&early.address, &late.address);
    let what = format!("the clock of {early} is {} ahead of that of {late}", duration::show(apart));
    Some((apart.saturating_sub(ahead.uncertainty + behind.uncertainty), what))
}

fn lags(facts: &Facts, findings: &mut Findings) {
    for server in &facts.servers {
        let Some(lag) = facts.lag(server).filter(|lag| *lag >= LAG_NOTICED) else { continue };
        let what = format!("{} is {} behind the primary", server.address, duration::show(lag));
        let why = "Reads from it return old data, majority writes wait for it if another member is down, and it \
                   must catch up before it can become primary.";
        let next = "Check its load, disk and network, and rs.printSecondaryReplicationInfo().";
        if lag < LAG_HARMFUL {
            findings.note("lag", what, why, next);
        } else {
            findings.warning("lag", what, why, next);
        }
    }
}

fn distances(facts: &Facts, findings: &mut Findings) {
    let writes = facts.reached().filter(|server| server.server_type.is_writable());
    let Some(far) = writes.filter_map(Server::median).min().filter(|it| *it >= FAR) else { return };
    findings.note(
        "far_away",
        format!("a round trip to the nearest writable server takes {} ms", far.as_millis()),
        "Each write takes at least one; a loop of single writes is slow.",
        "Run the application near the primary, and use insert_many and bulk_write.",
    );
}
