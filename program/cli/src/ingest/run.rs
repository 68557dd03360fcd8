//! Run of an ingestion: a thread reads and parses, tasks write, and the caller records the progress.

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

/// Time for the batches in progress after an interruption.
const GRACE: Duration = Duration::from_secs(10);

/// Interval between checkpoints, and between updates of the display.
const EVERY: Duration = Duration::from_millis(500);

/// A batch whose records all have an outcome.
struct WrittenBatch {
    sequence: u64,
    source: usize,
    end: Position,
    bytes: u64,
    settled: Vec<DocumentOutcome>,
    rejects: Vec<Reject>,
}

/// State of a run.
pub(super) struct IngestRun<'a> {
    pub(super) notes: Notes,
    pub(super) progress: Progress,
    pub(super) sources: Arc<Vec<Source>>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) rejects: Rejects,
    pub(super) max_rejects: Option<u64>,
    pub(super) outcome: &'a mut IngestOutcome,
    /// `true` if there is progress since the last checkpoint.
    pub(super) has_progress: bool,
}

impl IngestRun<'_> {
    /// Reads and writes all records, until the end, an interruption or an error.
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
                self.outcome.error =
                    Some(format!("{rejected} rejected, more than {most} (--max-rejects)"));
                grace = Some(Instant::now() + GRACE);
                stop.send_replace(true);
            }
        }
        stop.send_replace(true);
        self.save_checkpoint()
    }

    /// Starts the reading thread and the writing tasks. Returns the channel of their results.
    fn begin(
        &self,
        ingest: &Ingest,
        shape: Shape,
        target: WriteTarget,
        stop: watch::Receiver<bool>,
    ) -> mpsc::Receiver<Result<WrittenBatch, String>> {
        let (send, batches) = mpsc::channel(1);
        let (results, done) = mpsc::channel(ingest.parallel);
        let reading = BatchReader {
            sources: Arc::clone(&self.sources),
            from: self.outcome.positions.clone(),
            shape,
            batch: ingest.batch,
            stop: stop.clone(),
            send,
        };
        // The thread may block on a stream forever; the program does not wait for it.
        std::thread::spawn(move || reading.run());
        let writer = BatchWriter {
            target,
            existing: ExistingIds::default(),
            retry_timeout: ingest.retry_timeout,
            stop,
            notes: self.notes,
            bar: self.progress.bar().clone(),
            is_outage_reported: AtomicBool::new(false),
        };
        let tasks = Arc::new(WriteTasks { writer, batches: Mutex::new(batches) });
        for _ in 0..ingest.parallel {
            tokio::spawn(Arc::clone(&tasks).run(results.clone()));
        }
        done
    }

    /// Stops reading. Returns the deadline of the batches in progress.
    fn interrupt(&self, stop: &watch::Sender<bool>) -> Option<Instant> {
        stop.send_replace(true);
        self.progress.info("interrupted; waiting for the batches in progress …");
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
        self.has_progress = true;
        Ok(())
    }

    /// Writes the checkpoint, after the rejected records before it.
    fn save_checkpoint(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_progress) {
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

/// State shared by the writing tasks.
struct WriteTasks {
    writer: BatchWriter,
    batches: Mutex<mpsc::Receiver<Result<ParsedBatch, String>>>,
}

impl WriteTasks {
    /// Writes batches until there are no more, or the run is stopped.
    async fn run(self: Arc<Self>, results: mpsc::Sender<Result<WrittenBatch, String>>) {
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
            if results.send(done).await.is_err() || failed {
                return;
            }
        }
    }

    async fn write(&self, batch: ParsedBatch) -> Result<WrittenBatch, String> {
        let ParsedBatch { batch, end, documents, record_indexes, mut rejects } = batch;
        let (sequence, source, bytes) = (batch.sequence, batch.source, batch.bytes);
        let answers = self.writer.write(&documents).await?;
        let mut settled = Vec::with_capacity(answers.len());
        for (answer, index) in answers.into_iter().zip(record_indexes) {
            match answer {
                DocumentOutcome::Rejected(reason) => rejects.push(batch.reject(index, reason)),
                DocumentOutcome::Added
                | DocumentOutcome::Existing
                | DocumentOutcome::MaybeDuplicated => {
                    settled.push(answer);
                }
            }
        }
        rejects.sort_by_key(|reject| reject.at.offset);
        Ok(WrittenBatch { sequence, source, end, bytes, settled, rejects })
    }
}
