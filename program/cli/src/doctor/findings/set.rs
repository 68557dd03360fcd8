//! How the servers stand to each other: members, versions, clocks, distances.

use std::time::Duration;

use steadfast::{ServerType, options::Acknowledgment};

use super::{Findings, list};
use crate::{
    doctor::facts::{Clock, Facts, Kind, Member, Server},
    duration,
};

/// More than this, and people wonder.
const CLOCK_NOTICED: Duration = Duration::from_secs(1);
/// Half of the margin that sweeps of counters leave by default.
const CLOCK_HARMFUL: Duration = Duration::from_secs(30);
/// An idle primary writes every ten seconds; a secondary may seem to lag by as much.
const LAG_NOTICED: Duration = Duration::from_secs(15);
const LAG_HARMFUL: Duration = Duration::from_secs(90);
/// From here on, distance decides how fast an application is.
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
            format!("{} is a member that cannot be used now", server.address),
            "It is starting up, recovering, hidden or was removed: it serves no reads and may not take \
             over.",
            "Look at its stateStr in rs.status(), and into its log.",
        );
    }
}

fn votes(facts: &Facts, findings: &mut Findings) {
    if facts.kind != Kind::ReplicaSet {
        return;
    }
    let Some(members) = &facts.members else {
        return not_examined("the set's configuration, and so who votes,", facts, findings);
    };
    let voting = members.iter().filter(|member| member.votes).count();
    if members.len() == 1 {
        findings.note(
            "one_member",
            "the replica set has one member",
            "All that sets offer works, but when this server is down, there is no other.",
            "For production, add two members.",
        );
    } else if voting % 2 == 0 {
        findings.warning(
            "even_votes",
            format!("{voting} members vote, which is an even number"),
            &format!(
                "{voting} votes bear the loss of no more members than {} do, and a network that \
                 splits in halves leaves no primary.",
                voting - 1
            ),
            "Add a voting member, or take the vote from one.",
        );
    } else {
        spare_votes(facts, members, voting, findings);
    }
    let hold = members.iter().filter(|member| !member.arbiter).count();
    if hold < members.len() && hold < 3 {
        findings.note(
            "arbiter",
            format!("{} of {} members hold data, the rest only vote", hold, members.len()),
            "While one of these is down, there is a primary, but no majority acknowledges writes.",
            "Replace the arbiter by a member that holds data.",
        );
    }
}

/// What could not be read is not passed over in silence.
pub(super) fn not_examined(what: &str, facts: &Facts, findings: &mut Findings) {
    // Otherwise there is a greater problem.
    if facts.failure.is_none() && facts.login.required != Some(true) {
        findings.note(
            "not_examined",
            format!("{what} could not be read"),
            "The user may not read it, or there was no time left: nothing is concluded from it.",
            "Log in as a user with the role clusterMonitor, or give it a longer --timeout.",
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
            format!("{down} of {voting} members that vote cannot be reached from here"),
            "If they are down, one more leaves no majority, and so no primary.",
            "Bring them back before anything else is taken down.",
        ),
        // Who is down is said for each, and so is that there is no primary.
        _ => {}
    }
}

/// How many must acknowledge a write, and how many can.
fn acknowledgment(facts: &Facts, findings: &mut Findings) {
    let concern = facts.uri.write_concern.as_ref();
    let Some(Acknowledgment::Nodes(wanted)) = concern.and_then(|it| it.w.as_ref()) else { return };
    if facts.kind != Kind::ReplicaSet || facts.is_direct() {
        return;
    }
    let wanted = usize::try_from(*wanted).unwrap_or(usize::MAX);
    let up = facts.reached().filter(|it| it.server_type.is_data_bearing()).count();
    let all = facts.servers.iter().filter(|it| it.server_type != ServerType::RsArbiter).count();
    let hidden = facts.members.iter().flatten().filter(|it| it.hidden).count();
    if wanted > all + hidden {
        findings.problem(
            "w_too_large",
            format!("w={wanted}, and {} members hold data", all + hidden),
            "Each write fails, or waits for members that do not exist.",
            "Write w=majority.",
        );
    } else if wanted > up + hidden {
        findings.problem(
            "w_too_large",
            format!("w={wanted}, and {} members that hold data can be reached", up + hidden),
            "Each write waits until more of them are back.",
            "Start them, or write w=majority.",
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
            "That is meant for the time of an upgrade. What works may depend on which server is primary.",
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
        findings.ok("clocks", format!("clocks here and there agree within {off} ms"));
        return;
    }
    let why = "Exactly-once counters rest on clocks: an increment has a minute by the client's clock to \
               arrive by the server's, and sweeps trust servers to differ by less than a minute.";
    let next = "Synchronise the clocks of all machines (chrony, ntpd).";
    if off < CLOCK_HARMFUL {
        findings.note("clocks", what, why, next);
    } else {
        findings.warning("clocks", what, why, next);
    }
}

/// The server whose clock differs most from this machine's: by how much for certain, and in words.
fn worst(known: &[(&Server, Clock)]) -> Option<(Duration, String)> {
    let (server, clock) = known.iter().max_by_key(|(_, clock)| clock.off_by())?;
    let side = if clock.ahead_ms > 0 { "ahead of" } else { "behind" };
    let shown = duration::show(Duration::from_millis(clock.ahead_ms.unsigned_abs()));
    let what = format!("the clock of {} is {shown} {side} this machine's", server.address);
    Some((clock.off_by(), what))
}

/// The two servers whose clocks differ most from each other.
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
        let why = "Reads from it are as old, majority writes wait for it if another member is down, and \
                   it must catch up before it can take over.";
        let next = "Look at its load, its disk and its network; rs.printSecondaryReplicationInfo() says \
                    more.";
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
        format!("a round trip to the nearest server that takes writes is {} ms", far.as_millis()),
        "Each write costs at least one; a loop of single writes is slow.",
        "Run the application near the primary, and use insert_many and bulk_write.",
    );
}
