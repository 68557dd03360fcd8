//! Elections and step-downs.

use super::*;

#[test]
fn first_member_starts_as_primary() {
    let lab = TestState::new(3);
    assert_eq!(lab.state.primary(), Some(0));
    let hello = lab.state.hello(0, lab.now);
    assert!(hello.get_bool("isWritablePrimary").unwrap());
    assert_eq!(hello.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000001");
    let hello = lab.state.hello(1, lab.now);
    assert!(hello.get_bool("secondary").unwrap());
    assert_eq!(hello.get_str("primary").unwrap(), "localhost:27017");
    assert!(!hello.contains_key("electionId"));
}

#[test]
fn killed_primary_is_replaced_after_election_timeout() {
    let mut lab = TestState::new(3);
    lab.state.kill(0, lab.now);
    assert_eq!(lab.state.primary(), None);
    lab.advance_time(TIMEOUT - milliseconds(1));
    assert_eq!(lab.state.primary(), None);
    lab.advance_time(milliseconds(1));
    assert_eq!(lab.state.primary(), Some(1));
    assert_eq!(lab.state.member(1).term, 2);
    lab.state.restart(0, lab.now);
    assert_eq!(lab.state.primary(), Some(1));
    assert!(lab.state.is_replicated());
}

#[test]
fn minority_elects_no_primary_and_primary_steps_down() {
    let mut lab = TestState::new(3);
    lab.state.kill(1, lab.now);
    lab.advance_time(TIMEOUT * 4);
    assert_eq!(lab.state.primary(), Some(0));
    lab.state.kill(2, lab.now);
    assert_eq!(lab.state.primary(), Some(0));
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), None);
    assert_eq!(lab.state.next_deadline(), None, "there is nothing to wait for");
    lab.state.restart(2, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(0));
}

#[test]
fn member_with_newest_oplog_is_elected() {
    let mut lab = TestState::new(3);
    lab.state.hold_replication(1, true, lab.now);
    lab.insert(0, 1).unwrap();
    lab.state.kill(0, lab.now);
    lab.state.hold_replication(2, true, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(2));
}

#[test]
fn thawed_stale_primary_steps_down() {
    let mut lab = TestState::new(3);
    lab.state.freeze(0, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(1));
    lab.state.thaw(0, lab.now);
    assert!(!lab.state.member(0).is_primary());
    assert_eq!(lab.state.primary(), Some(1));
}

#[test]
fn partition_has_two_primaries_for_a_while() {
    let mut lab = TestState::new(3);
    lab.state.set_manual_elections(true, lab.now);
    lab.state.partition(&[&[0], &[1, 2]], lab.now);
    lab.state.elect(1, lab.now).unwrap();
    assert!(lab.state.member(0).is_primary() && lab.state.member(1).is_primary());
    assert_ne!(lab.state.member(0).term, lab.state.member(1).term);
    lab.state.heal(lab.now);
    assert!(!lab.state.member(0).is_primary() && lab.state.member(1).is_primary());
}

#[test]
fn step_down_elects_another_member_at_once() {
    let mut lab = TestState::new(3);
    let before = lab.state.signals(0).0;
    lab.state.step_down(0, lab.now + milliseconds(5000), lab.now);
    assert_eq!(lab.state.primary(), Some(1));
    assert!(lab.state.signals(0).0 > before, "clients are notified");
    assert_eq!(lab.state.hello(0, lab.now).get_str("primary").unwrap(), "localhost:27018");
}

#[test]
fn stepped_down_member_is_not_electable_for_its_period() {
    let mut lab = TestState::new(3);
    lab.state.kill(1, lab.now);
    lab.state.hold_replication(2, true, lab.now);
    lab.insert(0, 1).unwrap();
    lab.state.step_down(0, lab.now + milliseconds(5000), lab.now);
    lab.advance_time(milliseconds(4999));
    assert_eq!(lab.state.primary(), None, "member 2 lacks an entry that member 0 has");
    lab.advance_time(milliseconds(1));
    assert_eq!(lab.state.primary(), Some(0));
}

#[test]
fn member_without_majority_committed_entries_is_not_elected() {
    let mut lab = TestState::new(3);
    lab.state.hold_replication(2, true, lab.now);
    lab.insert(0, 1).unwrap();
    assert_eq!(lab.state.elect(2, lab.now).unwrap_err().code.number, 125);
    assert_eq!(lab.state.primary(), Some(0));
    lab.state.hold_replication(2, false, lab.now);
    lab.state.elect(2, lab.now).unwrap();
    assert_eq!(lab.state.primary(), Some(2));
}

#[test]
fn single_member_is_primary_after_restart() {
    let mut lab = TestState::new(1);
    lab.insert(0, 1).unwrap();
    let process = lab.state.process(0);
    lab.state.kill(0, lab.now);
    assert_eq!(lab.state.primary(), None);
    lab.state.restart(0, lab.now);
    assert_eq!(lab.state.primary(), Some(0));
    assert_ne!(lab.state.process(0), process);
    assert_eq!(lab.ids(0), [1]);
}

#[test]
fn idle_set_has_no_timer() {
    let lab = TestState::new(3);
    assert_eq!(lab.state.next_deadline(), None);
}

#[test]
fn priority_zero_member_votes_but_is_never_primary() {
    let mut lab = TestState::with_priority_zero(3, vec![2]);
    assert!(lab.state.elect(2, lab.now).is_err());
    lab.state.kill(0, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(1), "with the vote of the third");
    lab.state.restart(0, lab.now);
    lab.state.kill(1, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(0));
    lab.state.kill(0, lab.now);
    lab.advance_time(TIMEOUT * 4);
    assert_eq!(lab.state.primary(), None);
    assert_eq!(lab.state.next_deadline(), None, "no timer is set");
}

#[test]
fn new_primary_catches_up_from_priority_zero_member() {
    let mut lab = TestState::with_priority_zero(3, vec![2]);
    lab.state.hold_replication(1, true, lab.now);
    let at = lab.insert(0, 1).unwrap();
    assert!(lab.state.is_committed(at));
    lab.state.kill(0, lab.now);
    lab.state.hold_replication(1, false, lab.now);
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(1));
    assert!(lab.state.member(1).oplog.has(at), "it has copied it from the third");
}

#[test]
fn first_electable_member_is_primary_and_hello_lists_passives() {
    let lab = TestState::with_priority_zero(3, vec![0]);
    assert_eq!(lab.state.primary(), Some(1));
    let hello = lab.state.hello(0, lab.now);
    assert_eq!(hello.get_array("hosts").unwrap().len(), 2);
    assert_eq!(hello.get_array("passives").unwrap(), &["localhost:27017".into()]);
    assert!(hello.get_bool("passive").unwrap());
    assert!(!lab.state.hello(1, lab.now).contains_key("passive"));
    let config = lab.state.configuration(1);
    let members = config.get_array("members").unwrap();
    let priority = |at: usize| members[at].as_document().unwrap().get_f64("priority").unwrap();
    assert_eq!([priority(0), priority(1)], [0.0, 1.0]);
}
