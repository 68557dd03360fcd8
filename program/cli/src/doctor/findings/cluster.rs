//! Sharded clusters: their mongos and their shards.

use super::{Findings, list, replica_set::not_examined};
use crate::doctor::facts::{DeploymentKind, Facts, MemberState, Shard};

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    if facts.kind == DeploymentKind::Sharded && facts.servers.len() == 1 && !facts.is_direct() {
        findings.note(
            "one_mongos",
            "the connection string names one mongos",
            "A mongos does not report the others: while this one is down, the cluster cannot be reached.",
            "Name two or more mongos.",
        );
    }
    if !matches!(facts.kind, DeploymentKind::Sharded | DeploymentKind::LoadBalanced) {
        return;
    }
    match (&facts.shards, &facts.cluster_error) {
        (Some(shards), error) => {
            let blamed = shards.iter().map(|shard| examine_shard(shard, error.as_deref(), findings));
            let blamed = blamed.filter(|is_blamed| *is_blamed).count();
            if let Some(error) = error.as_deref().filter(|_| blamed == 0) {
                unanswered(error, findings);
            }
        }
        (None, Some(error)) => findings.problem(
            "config_servers",
            "the mongos cannot read the list of shards",
            &format!("The list is on the config servers. The mongos returned: {error}."),
            "Start the members of the config server replica set. Without it, a mongos cannot route writes.",
        ),
        (None, None) if facts.kind == DeploymentKind::Sharded => {
            not_examined("the list of shards", facts, findings);
        }
        (None, None) => {}
    }
}

/// Examines a shard. Returns `true` if it is the reason why a command that needs all shards failed.
fn examine_shard(shard: &Shard, error: Option<&str>, findings: &mut Findings) -> bool {
    if shard.draining {
        findings.note(
            "draining",
            format!("the shard {} is being removed", shard.name),
            "Its chunks are being moved to other shards, which adds load to them.",
            "",
        );
    }
    let (members, reached) = (shard.members.len(), shard.reached().count());
    if members == 0 {
        return false;
    }
    if reached == 0 {
        // Applications often cannot connect to shards directly. A shard that the mongos reaches is not a problem.
        if error.is_some() {
            without_primary(shard, findings);
        }
        return error.is_some();
    }
    if !shard.has_primary() {
        without_primary(shard, findings);
        return true;
    }
    let unreached = shard.members.iter().filter(|member| !member.state.is_reached());
    let unreached: Vec<_> = unreached.map(|member| &member.host).collect();
    if !unreached.is_empty() {
        findings.warning(
            "shard_member_unreachable",
            format!("{} of the shard {} cannot be reached from here", list(&unreached), shard.name),
            &format!(
                "If it is down, {reached} of {members} members are left, and a primary needs a majority of the \
                 votes."
            ),
            "Restart it before another member is stopped.",
        );
    }
    for member in shard.members.iter().filter(|member| member.state == MemberState::Other) {
        findings.warning(
            "not_ready",
            format!("{} of the shard {} is neither primary nor secondary", member.host, shard.name),
            "It is starting, recovering or an arbiter: it serves no reads and may not become primary.",
            "Check its stateStr in rs.status(), and its log.",
        );
    }
    if members == 1 {
        findings.note(
            "one_member",
            format!("the shard {} has one member", shard.name),
            "While this server is down, its documents are not available.",
            "For production, add two members.",
        );
    }
    false
}

fn without_primary(shard: &Shard, findings: &mut Findings) {
    let (members, reached) = (shard.members.len(), shard.reached().count());
    let next = if 2 * reached > members {
        "An election may be in progress: run this again. If there is still no primary, check the members' logs \
         and rs.status()."
    } else {
        "Start its members that are down: a primary needs a majority of the votes."
    };
    findings.problem(
        "shard_without_primary",
        format!("the shard {} has no primary", shard.name),
        &format!(
            "Writes to its documents and reads from the primary wait or fail. {reached} of {members} members can \
             be reached from here."
        ),
        next,
    );
}

/// Reports an error without a known cause: the shards cannot be reached from here, or have recovered.
fn unanswered(error: &str, findings: &mut Findings) {
    findings.problem(
        "shards_unanswered",
        "not all shards reply to the mongos",
        &format!("A command that needs every shard failed: {error}."),
        "Run this again. If it fails again, check rs.status() of each shard.",
    );
}
