//! Random faults: majority-acknowledged writes are never lost, committed oplogs agree, a term has
//! at most one primary.

use std::collections::BTreeMap;

use super::*;
use crate::set::MemberRole;

/// Observations, and the invariants that follow from them.
#[derive(Default)]
struct InvariantChecker {
    /// Primary of each term.
    primaries: BTreeMap<i64, usize>,
    /// Majority-acknowledged writes.
    acknowledged: Vec<(i32, OpTime)>,
    /// Writes that may still be acknowledged.
    pending: Vec<(usize, i64, i32, OpTime)>,
}

impl InvariantChecker {
    fn observe(&mut self, lab: &TestState) {
        for (index, member) in lab.state.members().iter().enumerate() {
            if member.role == MemberRole::Primary {
                let first = *self.primaries.entry(member.term).or_insert(index);
                assert_eq!(first, index, "two primaries in term {}", member.term);
            }
            assert!(member.oplog.has(member.commit), "a member lacks its commit point");
            for (_, at) in self.acknowledged.iter().filter(|(_, at)| *at <= member.commit) {
                assert!(member.oplog.has(*at), "a committed log lacks {at:?}");
            }
        }
        self.pending.retain(|(index, term, id, at)| {
            let member = lab.state.member(*index);
            if !member.is_primary() || member.term != *term {
                return false;
            }
            if lab.is_majority(*index, *at) {
                self.acknowledged.push((*id, *at));
                return false;
            }
            true
        });
    }
}

/// Applies a random operation or fault.
fn step(lab: &mut TestState, checker: &mut InvariantChecker, id: i32) {
    let members = lab.state.members().len();
    let pick =
        |lab: &mut TestState| usize::try_from(lab.state.next_random() % 64).unwrap() % members;
    let index = pick(lab);
    match lab.state.next_random() % 16 {
        0 => lab.state.kill(index, lab.now),
        1 | 2 => lab.state.restart(index, lab.now),
        3 => lab.state.freeze(index, lab.now),
        4 => lab.state.thaw(index, lab.now),
        5 => {
            let (one, other): (Vec<usize>, Vec<usize>) =
                (0..members).partition(|_| lab.state.next_random().is_multiple_of(2));
            lab.state.partition(&[&one, &other], lab.now);
        }
        6 => lab.state.heal(lab.now),
        7 => {
            let replication_held = lab.state.next_random().is_multiple_of(2);
            lab.state.hold_replication(index, replication_held, lab.now);
        }
        8 => {
            let latency = milliseconds(lab.state.next_random() % 3 * 100);
            lab.state.set_latency(index, latency, lab.now);
        }
        9 if lab.state.member(index).is_primary() => {
            lab.state.step_down(index, lab.now + milliseconds(200), lab.now);
        }
        10 => drop(lab.state.elect(index, lab.now)),
        11 => {
            let time = milliseconds(lab.state.next_random() % 500);
            lab.advance_time(time);
        }
        _ => {
            // Clients can write on every member that considers itself primary.
            let primary =
                (0..members).find(|at| lab.state.member((at + index) % members).is_primary());
            if let Some(primary) = primary.map(|at| (at + index) % members) {
                let term = lab.state.member(primary).term;
                let at = lab.insert(primary, id).unwrap();
                checker.pending.push((primary, term, id, at));
            }
        }
    }
    checker.observe(lab);
}

fn run(members: usize, seed: u64) {
    let mut lab = TestState::new(members);
    for _ in 0..seed {
        lab.state.next_random();
    }
    let mut checker = InvariantChecker::default();
    for id in 0..400 {
        step(&mut lab, &mut checker, id);
    }
    // All faults end.
    for index in 0..members {
        lab.state.restart(index, lab.now);
        lab.state.thaw(index, lab.now);
        lab.state.hold_replication(index, false, lab.now);
        lab.state.set_latency(index, Duration::ZERO, lab.now);
        checker.observe(&lab);
    }
    lab.state.heal(lab.now);
    lab.advance_time(Duration::from_secs(1));
    checker.observe(&lab);
    let primary = lab.state.primary().expect("a majority runs");
    assert!(lab.state.is_replicated());
    let ids = lab.ids(primary);
    for (id, at) in &checker.acknowledged {
        assert!(ids.contains(id), "seed {seed}: {id} at {at:?} was lost");
    }
    for index in 0..members {
        assert_eq!(lab.ids(index), ids, "seed {seed}: a member has something else");
    }
    // Data that was copied equals the data that the oplog produces.
    let mut replayed = crate::store::Store::default();
    for entry in lab.state.member(primary).oplog.entries() {
        replayed.apply(&entry).unwrap();
    }
    assert_eq!(replayed.collection(&namespace()).unwrap().len(), ids.len());
}

#[test]
fn majority_acknowledged_writes_are_never_lost() {
    for seed in 0..150 {
        run(3, seed);
    }
}

#[test]
fn majority_acknowledged_writes_are_never_lost_with_five_members() {
    for seed in 0..60 {
        run(5, seed);
    }
}
