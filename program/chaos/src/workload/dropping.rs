//! Drops the future of a call at a random moment, as a caller with a time-out of its own does.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::timeout;

use steadfast_report::random::Rng;

/// Longest time before a call is dropped, in microseconds.
const LONGEST_MICROS: u64 = 20_000;
/// Maximum number of polls before a call is dropped.
const MOST_POLLS: u64 = 12;

/// Time at which a call is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    After(Duration),
    /// After this number of polls of its future.
    Polls(u64),
}

impl Moment {
    /// Selects calls, this number per thousand, and the time at which a selected call is dropped.
    pub(super) fn of(seed: u64, operation: u64, per_mille: u32) -> Option<Self> {
        let mut rng = Rng(Rng(seed).next_u64() ^ operation.wrapping_mul(0x9e6c_63d0_876a_3f6b));
        if rng.below(1000) >= u64::from(per_mille) {
            return None;
        }
        Some(match rng.below(2) {
            0 => Self::After(Duration::from_micros(rng.below(LONGEST_MICROS))),
            _ => Self::Polls(1 + rng.below(MOST_POLLS)),
        })
    }

    /// Awaits a call and drops it at this time. Calls `dropping` before the drop, and returns `None` after it.
    pub(super) async fn cut<T>(
        self,
        call: impl Future<Output = T>,
        dropping: impl FnOnce(),
    ) -> Option<T> {
        let mut call = pin!(call);
        let output = match self {
            Self::After(time) => timeout(time, call.as_mut()).await.ok(),
            Self::Polls(polls) => {
                let mut left = polls;
                let poll = |cx: &mut Context<'_>| {
                    left -= 1;
                    match call.as_mut().poll(cx) {
                        Poll::Ready(output) => Poll::Ready(Some(output)),
                        Poll::Pending if left == 0 => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                };
                poll_fn(poll).await
            }
        };
        if output.is_none() {
            dropping();
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts its drop.
    struct Dropped<'a>(&'a Cell<u32>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[tokio::test]
    async fn call_is_dropped_at_its_time_unless_it_has_completed() {
        let dropped = Cell::new(0);
        let was_called = Cell::new(false);
        let forever = async {
            let _guard = Dropped(&dropped);
            std::future::pending::<()>().await;
        };
        let dropping = || was_called.set(dropped.get() == 0);
        assert_eq!(Moment::Polls(1).cut(forever, dropping).await, None);
        assert!(was_called.get(), "called before the drop");
        assert_eq!(dropped.get(), 1);
        let soon = Moment::After(Duration::from_micros(1));
        assert_eq!(soon.cut(std::future::pending::<()>(), || ()).await, None);
        let short = tokio::task::yield_now();
        let never = || unreachable!("the call has completed");
        assert_eq!(Moment::Polls(2).cut(short, never).await, Some(()));
    }

    #[test]
    fn seed_selects_the_given_share_of_calls() {
        let dropped = |seed| {
            let moments = (0..10_000).map(|operation| Moment::of(seed, operation, 50));
            moments.collect::<Vec<_>>()
        };
        assert_eq!(dropped(1), dropped(1));
        assert_ne!(dropped(1), dropped(2));
        let count = dropped(1).iter().flatten().count();
        assert!((400..600).contains(&count), "{count}");
        assert!((0..10_000).all(|operation| Moment::of(1, operation, 0).is_none()));
    }
}
