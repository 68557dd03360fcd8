//! Sharded clusters: their mongos and their shards.

use super::{Findings, list, set::not_examined};
use crate::doctor::facts::{Facts, Kind, MemberState, Shard};

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    if facts.kind == Kind::Sharded && facts.servers.len() == 1 && !facts.is_direct() {
        findings.note(
            "one_router",
            "the connection string names one mongos",
            "A mongos does not report the others: when this one is down, the cluster is not found.",
            "Name two or more mongos.",
        );
    }
    if !matches!(facts.kind, Kind::Sharded | Kind::LoadBalanced) {
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
            &format!("It comes from the config servers. The mongos answered: {error}."),
            "Start the members of the config servers' replica set. A mongos that reaches none of them \
             sends no write to any shard.",
        ),
        (None, None) if facts.kind == Kind::Sharded => {
            not_examined("the list of shards", facts, findings);
        }
        (None, None) => {}
    }
}

/// Examines a shard; returns true if it is the reason why a command that needs all shards failed.
fn examine_shard(shard: &Shard, error: Option<&str>, findings: &mut Findings) -> bool {
    if shard.draining {
        findings.note(
            "draining",
            format!("the shard {} is being removed", shard.name),
            "Its chunks are moved to other shards, which takes some of their strength.",
            "",
        );
    }
    let (members, reached) = (shard.members.len(), shard.reached().count());
    if members == 0 {
        return false;
    }
    if reached == 0 {
        // Shards are often out of reach for applications. If the mongos reaches them, all is well.
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
                "If that is because it is down, {reached} of {members} members are left, and a primary needs \
                 a majority of the votes."
            ),
            "Bring it back before anything else is taken down.",
        );
    }
    for member in shard.members.iter().filter(|member| member.state == MemberState::Other) {
        findings.warning(
            "not_ready",
            format!("{} of the shard {} is neither primary nor secondary", member.host, shard.name),
            "It is starting up, recovering or votes only: it serves no reads and may not take over.",
            "Look at its stateStr in rs.status(), and into its log.",
        );
    }
    if members == 1 {
        findings.note(
            "one_member",
            format!("the shard {} has one member", shard.name),
            "When this server is down, there is no other for its documents.",
            "For production, add two members.",
        );
    }
    false
}

fn without_primary(shard: &Shard, findings: &mut Findings) {
    let (members, reached) = (shard.members.len(), shard.reached().count());
    let next = if 2 * reached > members {
        "An election may be going on: run this again. If there is still none, look into the members' logs, \
         and at rs.status()."
    } else {
        "Start its members that are down: a primary needs a majority of the votes."
    };
    findings.problem(
        "shard_without_primary",
        format!("the shard {} has no primary", shard.name),
        &format!(
            "Writes to its documents wait or fail, and so do reads from the primary. {reached} of {members} \
             members can be reached from here."
        ),
        next,
    );
}

/// No shard is known to be the reason: they cannot be reached from here, or all is well by now.
fn unanswered(error: &str, findings: &mut Findings) {
    findings.problem(
        "shards_unanswered",
        "not all shards answer the mongos",
        &format!("A command that needs every shard failed: {error}."),
        "Run this again. If it fails again, look at rs.status() of each shard.",
    );
}
