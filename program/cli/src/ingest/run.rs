//! The work: a thread reads and understands, some tasks write, and one position takes down what is done.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex, mpsc, watch},
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    Ingest,
    batch::{BatchReader, ParsedBatch},
    checkpoint::Checkpoint,
    existing::ExistingIds,
    frontier::Frontier,
    progress::Progress,
    record::Shape,
    rejects::{Reject, Rejects},
    report::IngestOutcome,
    source::Source,
    split::Position,
    write::{BatchWriter, DocumentOutcome, WriteTarget},
};
use crate::{
    notes::{Notes, plural},
    signals::ShutdownSignals,
};

/// After an interruption, what is under way has so long to be answered.
const GRACE: Duration = Duration::from_secs(10);

/// How often the checkpoint is put down, and people see how far it is.
const EVERY: Duration = Duration::from_millis(500);

/// A batch whose records are all settled.
struct WrittenBatch {
    sequence: u64,
    source: usize,
    end: Position,
    bytes: u64,
    settled: Vec<DocumentOutcome>,
    rejects: Vec<Reject>,
}

/// What all have to do with.
pub(super) struct IngestRun<'a> {
    pub(super) notes: Notes,
    pub(super) progress: Progress,
    pub(super) sources: Arc<Vec<Source>>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) rejects: Rejects,
    pub(super) max_rejects: Option<u64>,
    pub(super) outcome: &'a mut IngestOutcome,
    /// Whether more is done than was put down.
    pub(super) is_new: bool,
}

impl IngestRun<'_> {
    /// Reads and writes all, until the end, an interruption or a failure.
    pub(super) async fn run(
        &mut self,
        ingest: &Ingest,
        shape: Shape,
        target: WriteTarget,
        signals: &mut ShutdownSignals,
    ) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut done = self.begin(ingest, shape, target, stopped);
        let mut frontier = Frontier::default();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut grace = None;
        loop {
            let received = tokio::select! {
                batch = done.recv() => batch,
                () = signals.received() => {
                    let was_interrupted = std::mem::replace(&mut self.outcome.interrupted, true);
                    // A second signal ends the wait for batches in progress.
                    if was_interrupted { None } else { grace = self.interrupt(&stop); continue }
                }
                () = until(grace) => None,
                _ = ticks.tick() => {
                    self.progress.show(self.outcome);
                    self.save_checkpoint()?;
                    continue;
                }
            };
            match received {
                None => break,
                Some(Ok(batch)) => self.record(batch, &mut frontier)?,
                Some(Err(why)) => {
                    self.outcome.error.get_or_insert(why);
                    grace = grace.or_else(|| Some(Instant::now() + GRACE));
                    stop.send_replace(true);
                }
            }
            let many = self.max_rejects.filter(|most| self.outcome.rejected > *most);
            if let Some(most) = many.filter(|_| !*stop.borrow()) {
                let rejected = plural(self.outcome.rejected, "record was", "records were");
                self.outcome.error = Some(format!("{rejected} rejected, more than {most}"));
                grace = Some(Instant::now() + GRACE);
                stop.send_replace(true);
            }
        }
        stop.send_replace(true);
        self.save_checkpoint()
    }

    /// Starts the reading thread and the tasks that write; gives what they tell.
    fn begin(
        &self,
        ingest: &Ingest,
        shape: Shape,
        target: WriteTarget,
        stop: watch::Receiver<bool>,
    ) -> mpsc::Receiver<Result<WrittenBatch, String>> {
        let (send, batches) = mpsc::channel(1);
        let (tell, done) = mpsc::channel(ingest.parallel);
        let reading = BatchReader {
            sources: Arc::clone(&self.sources),
            from: self.outcome.positions.clone(),
            shape,
            batch: ingest.batch,
            stop: stop.clone(),
            send,
        };
        // It may wait for a stream forever; the end of the program does not wait for it.
        std::thread::spawn(move || reading.run());
        let writer = BatchWriter {
            target,
            look: ExistingIds::default(),
            retry_timeout: ingest.retry_timeout,
            stop,
            notes: self.notes,
            bar: self.progress.bar().clone(),
            is_told: AtomicBool::new(false),
        };
        let line = Arc::new(WriteTasks { writer, batches: Mutex::new(batches) });
        for _ in 0..ingest.parallel {
            tokio::spawn(Arc::clone(&line).run(tell.clone()));
        }
        done
    }

    /// No more is begun, and what is under way is waited for, for so long.
    fn interrupt(&self, stop: &watch::Sender<bool>) -> Option<Instant> {
        stop.send_replace(true);
        self.progress.info("interrupted; waiting for what is under way …");
        Some(Instant::now() + GRACE)
    }

    fn record(
        &mut self,
        done: WrittenBatch,
        frontier: &mut Frontier<(usize, Position)>,
    ) -> io::Result<()> {
        let outcome = &mut *self.outcome;
        outcome.records += (done.settled.len() + done.rejects.len()) as u64;
        done.settled.iter().for_each(|settled| outcome.count(settled));
        outcome.rejected += done.rejects.len() as u64;
        let source = &self.sources[done.source];
        for reject in &done.rejects {
            if let Some(shown) = self.rejects.add(&source.file, reject)? {
                self.progress.warn(shown);
            }
        }
        for (source, end) in frontier.done(done.sequence, (done.source, done.end)) {
            outcome.positions[source] = end;
        }
        self.progress.advance(done.bytes);
        self.is_new = true;
        Ok(())
    }

    /// The checkpoint: what was rejected before it is on disk.
    fn save_checkpoint(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let Some(checkpoint) = &mut self.checkpoint else { return self.rejects.sync() };
        self.rejects.sync()?;
        for (source, position) in self.sources.iter().zip(&self.outcome.positions) {
            if position.offset > 0 {
                checkpoint.put(source, *position)?;
            }
        }
        checkpoint.write()
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep(when.saturating_duration_since(Instant::now())).await,
        None => std::future::pending().await,
    }
}

/// What the tasks share that write.
struct WriteTasks {
    writer: BatchWriter,
    batches: Mutex<mpsc::Receiver<Result<ParsedBatch, String>>>,
}

impl WriteTasks {
    /// Takes batches and writes them, until there is none or it is stopped.
    async fn run(self: Arc<Self>, tell: mpsc::Sender<Result<WrittenBatch, String>>) {
        let mut stop = self.writer.stop.clone();
        loop {
            let next = async { self.batches.lock().await.recv().await };
            let batch = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                batch = next => batch,
            };
            let Some(batch) = batch else { return };
            let done = match batch {
                Ok(batch) => self.write(batch).await,
                Err(error) => Err(error),
            };
            let failed = done.is_err();
            if tell.send(done).await.is_err() || failed {
                return;
            }
        }
    }

    async fn write(&self, batch: ParsedBatch) -> Result<WrittenBatch, String> {
        let ParsedBatch { batch, end, documents, of, mut rejects } = batch;
        let (sequence, source, bytes) = (batch.sequence, batch.source, batch.bytes);
        let answers = self.writer.write(&documents).await?;
        let mut settled = Vec::with_capacity(answers.len());
        for (answer, index) in answers.into_iter().zip(of) {
            match answer {
                DocumentOutcome::Rejected(reason) => rejects.push(batch.reject(index, reason)),
                DocumentOutcome::Added
                | DocumentOutcome::Existing
                | DocumentOutcome::MaybeTwice => {
                    settled.push(answer);
                }
            }
        }
        rejects.sort_by_key(|reject| reject.at.offset);
        Ok(WrittenBatch { sequence, source, end, bytes, settled, rejects })
    }
}
