//! Layouts compared with the members of the shards.

use super::*;
use crate::zones::{cluster::Shard, plan::plan};

fn layout() -> Layout {
    let datacenters = [("alfa", ["shard0000"]), ("bravo", ["shard0001"])];
    Layout::new("app.messages", ["datacenter", "userid"], datacenters).unwrap()
}

/// A member of a datacenter, or of none that is known.
fn member(host: &str, datacenter: &str, priority: f64) -> ShardMember {
    let tags = [("datacenter".to_owned(), datacenter.to_owned()), ("disk".into(), "ssd".into())];
    let tags = tags.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    ShardMember { host: host.to_owned(), votes: true, priority, tags }
}

fn as_in_the_guide(own: &str, other: &str) -> Vec<ShardMember> {
    vec![member("a", own, 1.0), member("b", own, 1.0), member("c", other, 0.0)]
}

/// A cluster whose second shard has the members of the guide.
fn cluster(members: ShardMembers) -> Cluster {
    let shard = |name: &str| Shard { name: name.to_owned(), ..Shard::default() };
    let second = ShardMembers::Read(as_in_the_guide("bravo", "alfa"));
    Cluster {
        shards: vec![shard("shard0000"), shard("shard0001")],
        members: [("shard0000".to_owned(), members), ("shard0001".to_owned(), second)].into(),
        sharding_enabled: true,
        ..Cluster::default()
    }
}

/// The reason of the step that puts the first shard into its zone, and the warnings.
fn planned(members: ShardMembers) -> (String, Vec<String>) {
    let plan = plan(&layout(), &cluster(members)).unwrap();
    (plan.steps()[0].reason().to_owned(), plan.warnings().to_vec())
}

fn read(members: &[ShardMember]) -> (String, Vec<String>) {
    planned(ShardMembers::Read(members.to_vec()))
}

#[test]
fn members_of_the_guide_give_the_reason_and_no_warning() {
    let (reason, warnings) = read(&as_in_the_guide("alfa", "bravo"));
    assert_eq!(reason, "2 of 3 voting members of shard0000 are in alfa");
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn majority_in_another_datacenter_gives_a_warning() {
    let (reason, warnings) = read(&as_in_the_guide("bravo", "alfa"));
    assert_eq!(reason, "the layout has shard0000 in alfa", "nothing is claimed");
    assert!(
        warnings[0].starts_with("1 of 3 voting members of shard0000 is in alfa"),
        "{warnings:?}"
    );
    assert!(warnings[1].starts_with("a in bravo has the highest priority of"), "{warnings:?}");
    assert!(warnings[2].starts_with("b in bravo has the highest priority of"), "{warnings:?}");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    let mut members = as_in_the_guide("bravo", "alfa");
    members[0].priority = 2.0;
    let (_, warnings) = read(&members);
    assert!(warnings[1].starts_with("a in bravo has the highest priority of"), "{warnings:?}");
    assert!(warnings[2].starts_with("b in bravo can become primary of"), "{warnings:?}");
    // Half of them are no majority.
    let half = [member("a", "alfa", 1.0), member("b", "bravo", 0.0)];
    assert!(read(&half).1[0].starts_with("1 of 2 voting members"), "{:?}", read(&half));
}

#[test]
fn members_without_a_vote_do_not_count() {
    let mut members = as_in_the_guide("alfa", "bravo");
    members[1].votes = false;
    members[1].priority = 0.0;
    let (_, warnings) = read(&members);
    assert!(
        warnings[0].starts_with("1 of 2 voting members of shard0000 is in alfa"),
        "{warnings:?}"
    );
}

#[test]
fn electable_members_of_another_datacenter_give_a_warning() {
    for (priority, words) in [
        (0.5, "c in bravo can become primary of shard0000 (priority 0.5)"),
        (1.0, "c in bravo can become primary of shard0000 (priority 1)"),
        (2.0, "c in bravo has the highest priority of shard0000 (priority 2)"),
    ] {
        let mut members = as_in_the_guide("alfa", "bravo");
        members[2].priority = priority;
        let (_, warnings) = read(&members);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(words), "{warnings:?}");
    }
}

#[test]
fn members_without_a_datacenter_tag_give_a_warning() {
    let members = [member("a", "alfa", 1.0), member("b", "", 1.0), member("c", "charlie", 1.0)];
    let (reason, warnings) = read(&members);
    assert_eq!(reason, "the layout has shard0000 in alfa");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let known = "1 of 3 voting members of shard0000 is known to be in alfa: no tag of b, c names";
    assert!(warnings[0].starts_with(known), "{warnings:?}");
    // Two tags that name two datacenters name none.
    let mut both = as_in_the_guide("alfa", "bravo");
    both[0].tags.insert("backup".to_owned(), "bravo".to_owned());
    assert!(read(&both).1[0].contains("no tag of a names one datacenter"), "{:?}", read(&both));
}

#[test]
fn unread_members_give_a_warning_and_no_reason() {
    let (reason, warnings) = planned(ShardMembers::NotRead("no reply from rs/a:1".to_owned()));
    assert_eq!(reason, "the layout has shard0000 in alfa");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words =
        "the members of shard0000 were not read: no reply from rs/a:1. Check with rs.conf()";
    assert!(warnings[0].starts_with(words), "{warnings:?}");
}
