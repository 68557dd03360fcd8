//! The token bucket alone: tokens are neither lost nor created.

use std::{panic, thread};

use proptest::{collection::vec, prelude::*};

use super::*;

fn budget(tokens: u32) -> Arc<RetryBudget> {
    Arc::new(RetryBudget::with_capacity(tokens))
}

fn spend(budget: &Arc<RetryBudget>, tokens: usize) {
    for _ in 0..tokens {
        budget.withdraw().expect("there are enough").spend();
    }
}

#[test]
fn budget_starts_with_1000_tokens() {
    let budget = Arc::new(RetryBudget::default());
    assert_eq!(budget.tokens_left(), 1000.0);
    spend(&budget, 1000);
    assert_eq!(budget.tokens_left(), 0.0);
    assert!(budget.withdraw().is_none());
    assert_eq!((budget.withdrawn(), budget.denied()), (1000, 1));
}

#[test]
fn deposits_are_counted_without_rounding() {
    let budget = budget(200_000);
    spend(&budget, 150_000);
    for _ in 0..1_000_000 {
        budget.deposit();
    }
    assert_eq!(budget.tokens_left(), 150_000.0);
}

#[test]
fn ten_successes_allow_one_retry() {
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
fn budget_never_exceeds_its_capacity() {
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
fn dropped_token_is_returned_even_after_a_panic() {
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
fn concurrent_withdrawals_neither_lose_nor_overdraw_tokens() {
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
    let attempts = (THREADS * ROUNDS) as u64;
    assert_eq!(budget.withdrawn() + budget.denied(), attempts);
}

#[test]
fn concurrent_deposits_add_up() {
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
enum BudgetStep {
    Withdraw,
    Spend,
    PutBack,
    Deposit,
}

proptest! {
    /// Compares the bucket with plain arithmetic in tenths.
    #[test]
    fn budget_matches_plain_arithmetic(
        capacity in 0_u32..6,
        steps in vec(
            prop_oneof![
                3 => Just(BudgetStep::Withdraw),
                1 => Just(BudgetStep::Spend),
                1 => Just(BudgetStep::PutBack),
                3 => Just(BudgetStep::Deposit),
            ],
            0..200,
        ),
    ) {
        let budget = budget(capacity);
        let full = capacity * 10;
        let (mut tenths, mut held) = (full, Vec::new());
        for step in steps {
            match step {
                BudgetStep::Withdraw => {
                    let token = budget.withdraw();
                    prop_assert_eq!(token.is_some(), tenths >= 10);
                    tenths -= if token.is_some() { 10 } else { 0 };
                    held.extend(token);
                }
                BudgetStep::Spend => {
                    if let Some(token) = held.pop() {
                        token.spend();
                    }
                }
                BudgetStep::PutBack => {
                    if held.pop().is_some() {
                        tenths = full.min(tenths + 10);
                    }
                }
                BudgetStep::Deposit => {
                    budget.deposit();
                    tenths = full.min(tenths + 1);
                }
            }
            prop_assert_eq!(budget.tokens_left(), f64::from(tenths) / 10.0);
        }
    }
}
