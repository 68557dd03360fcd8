//! Tasks that count events and whose clients are killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use super::{
    journal::Entry,
    lifetime::{Killed, Lifetime, limited},
    strategies::{CountingStrategy, IncrementResult},
    stress_run::{StressRun, TASKS},
};
use crate::rng::Rng;

/// Number of concurrent increments of a task. Each has a page of the journal.
const CONCURRENT_INCREMENTS: usize = 4;

/// Page of the task that completes all abandoned entries at the end.
pub(super) const FINAL_PAGE: usize = TASKS * CONCURRENT_INCREMENTS;

impl<S: CountingStrategy> StressRun<S> {
    /// Runs one client after the other until no events are left. Tasks with an even number record each
    /// increment first, and are killed at any time. The others do not, and are killed between calls.
    pub(super) async fn task(self: Arc<Self>, task: usize, mut rng: Rng) {
        loop {
            self.counts.clients.fetch_add(1, Relaxed);
            let lifetime = Lifetime::up_to(2_000, 3_000, &mut rng);
            let end = if task.is_multiple_of(2) {
                let client = self.run_with_journal(task * CONCURRENT_INCREMENTS, rng.child());
                limited(lifetime, client).await.and_then(|end| end)
            } else {
                self.run_without_journal(task * CONCURRENT_INCREMENTS, lifetime, rng.child()).await
            };
            if end.is_ok() {
                return;
            }
            self.counts.killed.fetch_add(1, Relaxed);
            if rng.one_in(2) {
                (task * CONCURRENT_INCREMENTS..(task + 1) * CONCURRENT_INCREMENTS)
                    .for_each(|page| self.journal.abandon(page));
            }
        }
    }

    async fn run_with_journal(&self, page: usize, mut rng: Rng) -> Result<(), Killed> {
        let strategy = self.strategy(&mut rng).await;
        let increments =
            |slot: usize, rng: Rng| self.count_with_journal(&strategy, page + slot, rng);
        let (left, right) = (rng.child(), rng.child());
        tokio::try_join!(increments(0, left), increments(1, right)).map(drop)
    }

    async fn count_with_journal(
        &self,
        strategy: &S,
        page: usize,
        mut rng: Rng,
    ) -> Result<(), Killed> {
        loop {
            while let Some(entry) = self.journal.open(page) {
                self.complete(strategy, page, &entry, &mut rng).await?;
            }
            let Some(day) = self.journal.next_event(&mut rng) else { return Ok(()) };
            self.journal.begin(page, entry(strategy, &day, &mut rng));
            if rng.one_in(200) {
                // The client crashes after it has recorded the entry and before it sends a request.
                self.journal.abandon(page);
            }
        }
    }

    async fn run_without_journal(
        &self,
        page: usize,
        lifetime: Lifetime,
        mut rng: Rng,
    ) -> Result<(), Killed> {
        let strategy = self.strategy(&mut rng).await;
        let (began, is_ending) = (Instant::now(), AtomicBool::new(false));
        let is_running = || !is_ending.load(Relaxed) && began.elapsed() < lifetime.time;
        let increments = async |slot: usize, mut rng: Rng| {
            // A call takes about eight polls.
            for _ in 0..lifetime.polls.div_ceil(8 * CONCURRENT_INCREMENTS as u64) {
                if !is_running() {
                    break;
                }
                match self.count_next_event(&strategy, page + slot, &mut rng).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(Killed) => break,
                }
            }
            is_ending.store(true, Relaxed);
            Err(Killed)
        };
        let (left, right) = (rng.child(), rng.child());
        let (left, right) = tokio::join!(increments(0, left), increments(1, right));
        left.and(right)
    }

    /// Returns `false` if no event is left.
    async fn count_next_event(
        &self,
        strategy: &S,
        page: usize,
        rng: &mut Rng,
    ) -> Result<bool, Killed> {
        if let Some(entry) = self.journal.open(page) {
            self.complete(strategy, page, &entry, rng).await?;
            return Ok(true);
        }
        let Some(day) = self.journal.next_event(rng) else { return Ok(false) };
        if rng.one_in(40) {
            self.count_unrecorded(strategy, rng).await;
        }
        let by = S::amount(rng);
        match strategy.increment(&day, by).await {
            Ok(()) => self.journal.count(&day, by),
            Err(ticket) => {
                self.counts.failed.fetch_add(1, Relaxed);
                self.journal.begin(page, Entry { day, by, ticket });
            }
        }
        Ok(true)
    }

    /// Makes an increment that is not recorded, and mostly drops it before it ends.
    async fn count_unrecorded(&self, strategy: &S, rng: &mut Rng) {
        let (number, document, by) = self.unrecorded.begin();
        let lifetime = Lifetime { polls: 1 + rng.below(8), time: rng.millis(50, 500) };
        if let Ok(Ok(())) = limited(lifetime, strategy.increment(&document, by)).await {
            self.unrecorded.acknowledged(number);
        }
    }

    /// Completes an increment. One call in twenty is dropped and repeated. A client whose call exceeds its
    /// lifetime is killed.
    async fn complete(
        &self,
        strategy: &S,
        page: usize,
        open: &Entry<S::Ticket>,
        rng: &mut Rng,
    ) -> Result<(), Killed> {
        if rng.one_in(20) {
            let lifetime = Lifetime { polls: 1 + rng.below(8), time: rng.millis(50, 500) };
            // The result of a dropped call is ignored.
            let _ = limited(lifetime, strategy.count(&open.ticket)).await;
            self.counts.dropped_calls.fetch_add(1, Relaxed);
        }
        let result = match page {
            FINAL_PAGE => strategy.count(&open.ticket).await,
            _ => limited(Lifetime::for_one_call(rng), strategy.count(&open.ticket)).await?,
        };
        match result {
            IncrementResult::Counted => {
                self.journal.close(page, open);
                // No step one can arrive this late.
                if page == FINAL_PAGE && strategy.remove_tombstone(&open.ticket).await {
                    self.counts.tombstones_removed.fetch_add(1, Relaxed);
                }
            }
            IncrementResult::NotCounted => {
                self.journal.replace(page, open, entry(strategy, &open.day, rng));
            }
            IncrementResult::Failed => drop(self.counts.failed.fetch_add(1, Relaxed)),
        }
        Ok(())
    }

    /// Completes the entries that crashed tasks have abandoned.
    pub(super) async fn complete_all(&self, rng: &mut Rng) {
        let strategy = self.strategy(rng).await;
        self.journal.adopt_abandoned(FINAL_PAGE);
        while let Some(entry) = self.journal.open(FINAL_PAGE) {
            self.complete(&strategy, FINAL_PAGE, &entry, rng)
                .await
                .expect("the final task is not killed");
        }
    }
}

fn entry<S: CountingStrategy>(strategy: &S, day: &str, rng: &mut Rng) -> Entry<S::Ticket> {
    let by = S::amount(rng);
    Entry { day: day.to_owned(), by, ticket: strategy.ticket(day, by) }
}
