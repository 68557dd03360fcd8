//! Kinds of the operations, selected with the seed.

use steadfast_report::random::Rng;

use crate::{account::Kind, plan::Load};

/// Rounds of all kinds, each in random order. All kinds are equally frequent, and a short run has all of them.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    seed: u64,
    kinds: Vec<Kind>,
}

impl Sequence {
    pub(super) fn new(seed: u64, workload: &[Load]) -> Self {
        let mut kinds: Vec<Kind> =
            workload.iter().flat_map(|load| kinds_of(*load)).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self { seed, kinds }
    }

    #[cfg(test)]
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the kind of the operation with this number.
    pub(super) fn kind(&self, operation: u64) -> Kind {
        let count = self.kinds.len() as u64;
        let (round, place) = (operation / count, operation % count);
        let mut rng = rng(self.seed, round);
        let mut left = self.kinds.clone();
        for _ in 0..place {
            left.swap_remove(rng.index(left.len()));
        }
        left.swap_remove(rng.index(left.len()))
    }
}

fn kinds_of(load: Load) -> &'static [Kind] {
    match load {
        Load::Increments => &[Kind::Increment],
        Load::Inserts => &[Kind::InsertOne, Kind::InsertMany],
        Load::Updates => &[Kind::UpdateOne, Kind::ReplaceOne],
        Load::Deletes => &[Kind::DeleteOne],
        Load::FindAndModify => {
            &[Kind::FindOneAndUpdate, Kind::FindOneAndReplace, Kind::FindOneAndDelete]
        }
        Load::Bulk => &[Kind::BulkWrite],
        Load::Transactions => &[Kind::Transaction],
    }
}

/// Returns the random number generator of a round.
fn rng(seed: u64, round: u64) -> Rng {
    Rng(Rng(seed).next_u64() ^ round.wrapping_mul(0xd134_2543_de82_ef95))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_kind_once() {
        let sequence = Sequence::new(7, &Load::ALL);
        let round =
            |nth: u64| (nth * 11..nth * 11 + 11).map(|it| sequence.kind(it)).collect::<Vec<_>>();
        for nth in 0..50 {
            let mut kinds = round(nth);
            kinds.sort_unstable();
            assert_eq!(kinds, sequence.kinds(), "round {nth}");
        }
        assert!((1..50).any(|nth| round(nth) != round(0)));
    }

    #[test]
    fn kinds_depend_on_the_seed() {
        let kinds = |seed| {
            let sequence = Sequence::new(seed, &Load::ALL);
            (0..100).map(|operation| sequence.kind(operation)).collect::<Vec<_>>()
        };
        assert_eq!(kinds(3), kinds(3));
        assert_ne!(kinds(3), kinds(4));
    }

    #[test]
    fn repeated_group_is_not_more_frequent() {
        let sequence = Sequence::new(1, &[Load::Deletes, Load::Increments, Load::Deletes]);
        assert_eq!(sequence.kinds(), [Kind::Increment, Kind::DeleteOne]);
    }
}
