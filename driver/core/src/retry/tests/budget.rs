//! The token bucket by itself: nothing is lost, nothing comes from nowhere.

use std::{panic, thread};

use proptest::{collection::vec, prelude::*};

use super::*;

fn budget(tokens: u32) -> Arc<Budget> {
    Arc::new(Budget::with_capacity(tokens))
}

fn spend(budget: &Arc<Budget>, tokens: usize) {
    for _ in 0..tokens {
        budget.withdraw().expect("there are enough").spend();
    }
}

#[test]
fn a_client_begins_with_a_thousand_tokens() {
    let budget = Arc::new(Budget::default());
    assert_eq!(budget.tokens_left(), 1000.0);
    spend(&budget, 1000);
    assert_eq!(budget.tokens_left(), 0.0);
    assert!(budget.withdraw().is_none());
    assert_eq!((budget.withdrawn(), budget.refused()), (1000, 1));
}

#[test]
fn a_million_tenths_are_exactly_a_hundred_thousand() {
    let budget = budget(200_000);
    spend(&budget, 150_000);
    for _ in 0..1_000_000 {
        budget.deposit();
    }
    assert_eq!(budget.tokens_left(), 150_000.0);
}

#[test]
fn ten_successes_pay_for_a_retry_and_nine_do_not() {
    let budget = budget(1);
    spend(&budget, 1);
    for _ in 0..9 {
        budget.deposit();
    }
    assert!(budget.withdraw().is_none());
    budget.deposit();
    assert!(budget.withdraw().is_some());
}

#[test]
fn a_full_bucket_stays_as_it_is() {
    let budget = budget(3);
    let token = budget.withdraw().unwrap();
    for _ in 0..5 {
        budget.deposit();
    }
    assert_eq!(budget.tokens_left(), 2.5);
    drop(token);
    assert_eq!(budget.tokens_left(), 3.0);
    budget.deposit();
    assert_eq!(budget.tokens_left(), 3.0);
}

/// pitfall 37.
#[test]
fn a_token_survives_what_it_was_taken_for() {
    let budget = budget(5);
    drop(budget.withdraw().unwrap());
    assert_eq!(budget.tokens_left(), 5.0);
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _token = budget.withdraw().unwrap();
        panic::resume_unwind(Box::new("as if by accident"));
    }));
    assert!(panicked.is_err());
    assert_eq!(budget.tokens_left(), 5.0);
    budget.withdraw().unwrap().spend();
    assert_eq!(budget.tokens_left(), 4.0);
}

#[test]
fn many_threads_lose_nothing_and_overdraw_nothing() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 2_000;
    let budget = budget(40);
    let spent: usize = thread::scope(|scope| {
        let work = || {
            let mut spent = 0;
            for round in 0..ROUNDS {
                let Some(token) = budget.withdraw() else { continue };
                assert!(budget.tokens_left() <= 39.0, "more than there ever was");
                if round % 50 == 0 {
                    token.spend();
                    spent += 1;
                }
            }
            spent
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(budget.tokens_left(), 40.0 - spent as f64, "{spent} were spent");
    let asked = (THREADS * ROUNDS) as u64;
    assert_eq!(budget.withdrawn() + budget.refused(), asked);
}

#[test]
fn deposits_of_many_threads_add_up() {
    let budget = budget(200_000);
    spend(&budget, 200_000);
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| (0..1_000).for_each(|_| budget.deposit()));
        }
    });
    assert_eq!(budget.tokens_left(), 6_400.0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Withdraw,
    Spend,
    PutBack,
    Deposit,
}

proptest! {
    /// Against plain arithmetic in tenths.
    #[test]
    fn the_bucket_counts_as_one_would_by_hand(
        capacity in 0_u32..6,
        steps in vec(
            prop_oneof![
                3 => Just(Step::Withdraw),
                1 => Just(Step::Spend),
                1 => Just(Step::PutBack),
                3 => Just(Step::Deposit),
            ],
            0..200,
        ),
    ) {
        let budget = budget(capacity);
        let full = capacity * 10;
        let (mut tenths, mut held) = (full, Vec::new());
        for step in steps {
            match step {
                Step::Withdraw => {
                    let token = budget.withdraw();
                    prop_assert_eq!(token.is_some(), tenths >= 10);
                    tenths -= if token.is_some() { 10 } else { 0 };
                    held.extend(token);
                }
                Step::Spend => {
                    if let Some(token) = held.pop() {
                        token.spend();
                    }
                }
                Step::PutBack => {
                    if held.pop().is_some() {
                        tenths = full.min(tenths + 10);
                    }
                }
                Step::Deposit => {
                    budget.deposit();
                    tenths = full.min(tenths + 1);
                }
            }
            prop_assert_eq!(budget.tokens_left(), f64::from(tenths) / 10.0);
        }
    }
}
