//! Members of the shards' replica sets: their datacenters, votes and priorities.
//!
//! A member is in the datacenter that one of its tags names, such as `tags: { datacenter: "alfa" }`.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{
    cluster::Cluster,
    layout::{Datacenter, Layout},
};

/// Members of a shard's replica set.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ShardMembers {
    /// Members in the set's configuration (`replSetGetConfig`).
    Read(Vec<ShardMember>),
    /// The reason why the configuration was not read.
    NotRead(String),
}

/// Member of a shard's replica set, as its configuration has it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShardMember {
    /// Host and port.
    pub host: String,
    /// True if it has a vote (`votes`).
    pub votes: bool,
    /// Its `priority`; with 0, it cannot become primary.
    pub priority: f64,
    /// Its `tags`.
    pub tags: BTreeMap<String, String>,
}

impl ShardMember {
    /// Returns the datacenter of its tags; `None` if they name no datacenter of the layout, or several.
    fn datacenter<'a>(&self, layout: &'a Layout) -> Option<&'a Datacenter> {
        let named = |it: &&Datacenter| self.tags.values().any(|value| *value == it.name);
        let mut named = layout.datacenters().iter().filter(named);
        named.next().filter(|_| named.next().is_none())
    }
}

/// Members of one shard, compared with its datacenter in the layout.
struct Placement<'a> {
    shard: &'a str,
    datacenter: &'a str,
    voting: usize,
    /// Voting members in the datacenter.
    here: usize,
    /// Voting members without a datacenter.
    untagged: Vec<&'a str>,
    /// Members of another datacenter that can become primary, with that datacenter.
    electable_elsewhere: Vec<(&'a ShardMember, &'a str)>,
    /// Highest priority in the datacenter.
    highest_here: f64,
    /// Highest priority of all members.
    highest: f64,
}

impl<'a> Placement<'a> {
    fn of(
        layout: &'a Layout,
        shard: &'a str,
        datacenter: &'a str,
        members: &'a [ShardMember],
    ) -> Self {
        let mut placement = Self {
            shard,
            datacenter,
            voting: members.iter().filter(|member| member.votes).count(),
            here: 0,
            untagged: Vec::new(),
            electable_elsewhere: Vec::new(),
            highest_here: 0.0,
            highest: members.iter().map(|member| member.priority).fold(0.0, f64::max),
        };
        for member in members {
            match member.datacenter(layout) {
                Some(found) if found.name == datacenter => {
                    placement.here += usize::from(member.votes);
                    placement.highest_here = placement.highest_here.max(member.priority);
                }
                Some(found) if member.priority > 0.0 => {
                    placement.electable_elsewhere.push((member, &found.name));
                }
                None if member.votes => placement.untagged.push(&member.host),
                Some(_) | None => {}
            }
        }
        placement
    }

    fn has_majority(&self) -> bool {
        2 * self.here > self.voting
    }

    fn warnings(&self) -> Vec<String> {
        let Self { shard, datacenter, voting, here, untagged, .. } = self;
        let mut warnings = Vec::new();
        let verb = if *here == 1 { "is" } else { "are" };
        if self.has_majority() {
            // The location of the others matters only if they can become primary.
        } else if 2 * (here + untagged.len()) > *voting {
            warnings.push(format!(
                "{here} of {voting} voting members of {shard} {verb} known to be in {datacenter}: no tag of \
                 {} names one datacenter of the layout. Give each member a tag, such as {{ datacenter: \
                 \"{datacenter}\" }}",
                untagged.join(", ")
            ));
        } else {
            warnings.push(format!(
                "{here} of {voting} voting members of {shard} {verb} in {datacenter}: writes for \
                 {datacenter} with w: \"majority\" wait for another datacenter, and have no primary while \
                 that is down. Move members, or assign {shard} to the datacenter of most members"
            ));
        }
        for (member, elsewhere) in &self.electable_elsewhere {
            let ShardMember { host, priority, .. } = member;
            let is_preferred = *priority > self.highest_here && *priority >= self.highest;
            let can = match is_preferred {
                true => "has the highest priority of",
                false => "can become primary of",
            };
            warnings.push(format!(
                "{host} in {elsewhere} {can} {shard} (priority {priority}): while it is primary, writes for \
                 {datacenter} go to {elsewhere}. Give it priority 0"
            ));
        }
        warnings
    }
}

impl Cluster {
    /// Returns the reason to put a shard into the zone of a datacenter.
    pub(super) fn reason(&self, layout: &Layout, shard: &str, datacenter: &str) -> String {
        if let Some(ShardMembers::Read(members)) = self.members.get(shard) {
            let placement = Placement::of(layout, shard, datacenter, members);
            if placement.has_majority() {
                let Placement { here, voting, .. } = placement;
                return format!("{here} of {voting} voting members of {shard} are in {datacenter}");
            }
        }
        format!("the layout has {shard} in {datacenter}")
    }

    /// Returns differences between the layout and the members of its shards.
    pub(super) fn member_warnings(&self, layout: &Layout) -> Vec<String> {
        let mut warnings = Vec::new();
        for datacenter in layout.datacenters() {
            for shard in &datacenter.shards {
                match self.members.get(shard) {
                    Some(ShardMembers::Read(members)) => {
                        let placement = Placement::of(layout, shard, &datacenter.name, members);
                        warnings.extend(placement.warnings());
                    }
                    Some(ShardMembers::NotRead(reason)) => warnings.push(format!(
                        "the members of {shard} were not read: {reason}. Check with rs.conf() that most of \
                         its voting members are in {}, and that the others have priority 0",
                        datacenter.name
                    )),
                    None => {}
                }
            }
        }
        warnings
    }
}
