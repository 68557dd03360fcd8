//! The tasks that count, and what their clients live through.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use super::{
    journal::Entry,
    life::{Killed, Lifetime, mortal},
    storm::{Storm, TASKS},
    ways::{Told, Way},
};
use crate::dice::Dice;

/// How many increments a task makes at a time, each on a page of the journal of its own.
const HANDS: usize = 4;

/// The page of who looks through everything in the end.
pub(super) const LAST: usize = TASKS * HANDS;

impl<W: Way> Storm<W> {
    /// One life after the other until there is nothing left to do. Every other task writes down what it
    /// begins, and can be killed at any time; those between count at once, and can be killed after each call.
    pub(super) async fn task(self: Arc<Self>, task: usize, mut dice: Dice) {
        loop {
            self.tally.lives.fetch_add(1, Relaxed);
            let lifetime = Lifetime::up_to(2_000, 3_000, &mut dice);
            let end = if task.is_multiple_of(2) {
                let life = self.life_with_journal(task * HANDS, dice.child());
                mortal(lifetime, life).await.and_then(|end| end)
            } else {
                self.life_at_once(task * HANDS, lifetime, dice.child()).await
            };
            if end.is_ok() {
                return;
            }
            self.tally.killed.fetch_add(1, Relaxed);
            if dice.one_in(2) {
                (task * HANDS..(task + 1) * HANDS).for_each(|page| self.journal.leave_lying(page));
            }
        }
    }

    async fn life_with_journal(&self, page: usize, mut dice: Dice) -> Result<(), Killed> {
        let way = self.way(&mut dice).await;
        let hand = |hand: usize, dice: Dice| self.hand_with_journal(&way, page + hand, dice);
        let (left, right) = (dice.child(), dice.child());
        tokio::try_join!(hand(0, left), hand(1, right)).map(drop)
    }

    async fn hand_with_journal(&self, way: &W, page: usize, mut dice: Dice) -> Result<(), Killed> {
        loop {
            while let Some(entry) = self.journal.open(page) {
                self.settle(way, page, &entry, &mut dice).await?;
            }
            let Some(day) = self.journal.next_event(&mut dice) else { return Ok(()) };
            self.journal.begin(page, entry(way, &day, &mut dice));
            if dice.one_in(200) {
                // It ended after that, and before it sent anything.
                self.journal.leave_lying(page);
            }
        }
    }

    async fn life_at_once(
        &self,
        page: usize,
        lifetime: Lifetime,
        mut dice: Dice,
    ) -> Result<(), Killed> {
        let way = self.way(&mut dice).await;
        let (born, is_dying) = (Instant::now(), AtomicBool::new(false));
        let lives = || !is_dying.load(Relaxed) && born.elapsed() < lifetime.time;
        let hand = async |hand: usize, mut dice: Dice| {
            // A call has a few polls.
            for _ in 0..lifetime.polls.div_ceil(8 * HANDS as u64) {
                if !lives() {
                    break;
                }
                match self.count_one_at_once(&way, page + hand, &mut dice).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(Killed) => break,
                }
            }
            is_dying.store(true, Relaxed);
            Err(Killed)
        };
        let (left, right) = (dice.child(), dice.child());
        let (left, right) = tokio::join!(hand(0, left), hand(1, right));
        left.and(right)
    }

    /// Whether there was one.
    async fn count_one_at_once(
        &self,
        way: &W,
        page: usize,
        dice: &mut Dice,
    ) -> Result<bool, Killed> {
        if let Some(entry) = self.journal.open(page) {
            self.settle(way, page, &entry, dice).await?;
            return Ok(true);
        }
        let Some(day) = self.journal.next_event(dice) else { return Ok(false) };
        if dice.one_in(40) {
            self.doubt(way, dice).await;
        }
        let by = W::amount(dice);
        match way.count_at_once(&day, by).await {
            Ok(()) => self.journal.count(&day, by),
            Err(ticket) => {
                self.tally.failed.fetch_add(1, Relaxed);
                self.journal.begin(page, Entry { day, by, ticket });
            }
        }
        Ok(true)
    }

    /// Counts what is not written down, and is most likely dropped in the middle of it.
    async fn doubt(&self, way: &W, dice: &mut Dice) {
        let (number, document, by) = self.doubts.begin();
        let lifetime = Lifetime { polls: 1 + dice.below(8), time: dice.millis(50, 500) };
        if let Ok(Ok(())) = mortal(lifetime, way.count_at_once(&document, by)).await {
            self.doubts.acknowledged(number);
        }
    }

    /// Goes on with an increment. Now and then the call is dropped, and made again by the same client. A
    /// client that takes long is killed.
    async fn settle(
        &self,
        way: &W,
        page: usize,
        open: &Entry<W::Ticket>,
        dice: &mut Dice,
    ) -> Result<(), Killed> {
        if dice.one_in(20) {
            let lifetime = Lifetime { polls: 1 + dice.below(8), time: dice.millis(50, 500) };
            // Whatever it says, it is not heard.
            let _ = mortal(lifetime, way.count(&open.ticket)).await;
            self.tally.dropped_calls.fetch_add(1, Relaxed);
        }
        let told = match page {
            LAST => way.count(&open.ticket).await,
            _ => mortal(Lifetime::of_patience(dice), way.count(&open.ticket)).await?,
        };
        match told {
            Told::Counted => {
                self.journal.close(page, open);
                // What is settled this late can be forgotten at once.
                if page == LAST && way.forget(&open.ticket).await {
                    self.tally.forgotten.fetch_add(1, Relaxed);
                }
            }
            Told::NotCounted => {
                self.journal.begin_anew(page, open, entry(way, &open.day, dice));
            }
            Told::Nothing => drop(self.tally.failed.fetch_add(1, Relaxed)),
        }
        Ok(())
    }

    /// What crashed tasks left lying is found, and settled.
    pub(super) async fn settle_all(&self, dice: &mut Dice) {
        let way = self.way(dice).await;
        self.journal.pick_up(LAST);
        while let Some(entry) = self.journal.open(LAST) {
            self.settle(&way, LAST, &entry, dice).await.expect("it is not killed");
        }
    }
}

fn entry<W: Way>(way: &W, day: &str, dice: &mut Dice) -> Entry<W::Ticket> {
    let by = W::amount(dice);
    Entry { day: day.to_owned(), by, ticket: way.ticket(day, by) }
}
