//! Tasks that write messages through local writers until they are told to stop, and what they were told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use steadfast::bson::{Document, doc};
use steadfast_patterns::local_writes::{LocalWriteError, LocalWriter, Receipt};
use tokio::{sync::watch, task::JoinSet};

use super::books::{Books, Told, is_certain};
use crate::dice::Dice;

/// How many tasks share a writer.
pub(crate) const TASKS: usize = 3;

/// Between two calls of a task: the load is to be there all the time, not to fill the memory.
const PAUSE: Duration = Duration::from_millis(8);

/// For what must happen under load; only a hang takes as long.
const PATIENCE: Duration = Duration::from_secs(180);

/// What the calls of one writer came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) home: String,
    /// Calls all of whose documents went where the writer writes first.
    pub(crate) at_home: usize,
    /// Calls of which a document went elsewhere.
    pub(crate) away: usize,
    /// Documents of which a copy may be somewhere else, too.
    pub(crate) doubtful: usize,
    /// Documents that no datacenter acknowledged.
    pub(crate) all_down: usize,
}

/// The tasks, and what they were told.
pub(crate) struct Load {
    books: Arc<Mutex<Books>>,
    counts: Arc<watch::Sender<BTreeMap<usize, Counts>>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Begins to write through these writers, each with the name of its nearest datacenter.
    pub(crate) fn start(writers: Vec<(&str, LocalWriter)>, dice: &mut Dice) -> Self {
        let counts = writers.iter().enumerate().map(|(number, (home, _))| {
            (number, Counts { home: (*home).to_owned(), ..Counts::default() })
        });
        let mut load = Self {
            books: Arc::default(),
            counts: Arc::new(watch::Sender::new(counts.collect())),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        };
        let keys = Arc::new(AtomicI64::new(0));
        for (number, (_, writer)) in writers.into_iter().enumerate() {
            let writer = Arc::new(writer);
            for _ in 0..TASKS {
                let task = Task {
                    number,
                    writer: Arc::clone(&writer),
                    keys: Arc::clone(&keys),
                    books: Arc::clone(&load.books),
                    counts: Arc::clone(&load.counts),
                    dice: dice.child(),
                };
                load.tasks.spawn(task.run(load.stop.subscribe()));
            }
        }
        load
    }

    /// Waits until what is counted has grown by so much, for every writer that is at home there.
    pub(crate) async fn until(&self, home: &str, more: usize, counted: fn(&Counts) -> usize) {
        let mut counts = self.counts.subscribe();
        let goals: BTreeMap<usize, usize> = counts
            .borrow()
            .iter()
            .filter(|(_, counts)| counts.home == home)
            .map(|(&number, counts)| (number, counted(counts) + more))
            .collect();
        let reached = counts.wait_for(|counts| {
            goals.iter().all(|(number, goal)| counted(&counts[number]) >= *goal)
        });
        let waited = tokio::time::timeout(PATIENCE, reached).await;
        assert!(waited.is_ok(), "it does not happen at {home}: {:?}", *self.counts.borrow());
    }

    /// What was acknowledged so far.
    pub(crate) fn acknowledged(&self) -> Vec<i64> {
        lock(&self.books).acknowledged().collect()
    }

    /// Lets every task end its call; returns what was said of every document.
    pub(crate) async fn stop(mut self) -> Books {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panics");
        }
        lock(&self.books).clone()
    }
}

struct Task {
    number: usize,
    writer: Arc<LocalWriter>,
    keys: Arc<AtomicI64>,
    books: Arc<Mutex<Books>>,
    counts: Arc<watch::Sender<BTreeMap<usize, Counts>>>,
    dice: Dice,
}

impl Task {
    async fn run(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            // Every third call is a batch.
            let several = if self.dice.below(3) == 0 { 2 + self.dice.below(5) } else { 1 };
            let messages: Vec<_> = (0..several).map(|_| self.message()).collect();
            let keys: Vec<i64> =
                messages.iter().map(|message| message.get_i64("message_id").unwrap()).collect();
            let answers = match &messages[..] {
                [message] => vec![self.writer.insert(message).await],
                _ => self.writer.insert_many(&messages).await,
            };
            assert_eq!(answers.len(), keys.len(), "an answer for each document");
            self.note(&keys, &answers);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn message(&mut self) -> Document {
        let key = self.keys.fetch_add(1, Relaxed);
        let userid = i64::try_from(self.dice.below(500)).unwrap();
        doc! { "message_id": key, "userid": userid, "text": format!("message {key}") }
    }

    fn note(&self, keys: &[i64], answers: &[Result<Receipt, LocalWriteError>]) {
        let mut books = lock(&self.books);
        for (key, answer) in keys.iter().zip(answers) {
            books.note(*key, Told::of(answer));
        }
        drop(books);
        self.counts.send_modify(|counts| {
            let counts = counts.get_mut(&self.number).unwrap();
            let is_home = |it: &Result<Receipt, _>| {
                it.as_ref().is_ok_and(|receipt| receipt.datacenter() == counts.home)
            };
            let is_away = |it: &Result<Receipt, _>| it.is_ok() && !is_home(it);
            let (at_home, away) = (answers.iter().all(is_home), answers.iter().any(is_away));
            counts.at_home += usize::from(at_home);
            counts.away += usize::from(away);
            // By the outcomes, not by the receipt's own word: that is for the judge.
            let is_doubtful = |it: &&Receipt| !it.failed().iter().all(is_certain);
            counts.doubtful += answers.iter().flatten().filter(is_doubtful).count();
            counts.all_down += answers.iter().filter(|it| it.is_err()).count();
        });
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
