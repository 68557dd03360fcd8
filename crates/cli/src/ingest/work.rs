//! The work: a thread reads, some tasks write, and one place takes down what is done.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::sleep,
};

use super::{
    Ingest,
    batch::{Batch, Reading},
    checkpoint::Checkpoint,
    frontier::Frontier,
    record::{Origin, Shape},
    rejects::{Reject, Rejects},
    report::{Outcome, plural},
    source::Source,
    split::{LONGEST, Place},
    write::{Settled, Target, Writer},
};
use crate::{ending::Ending, notes::Notes};

/// After an interruption, what is under way has so long to be answered.
const GRACE: Duration = Duration::from_secs(10);

/// How often the checkpoint is put down.
const EVERY: Duration = Duration::from_millis(500);

/// A batch whose records are all settled.
struct Done {
    sequence: u64,
    source: usize,
    end: Place,
    bytes: u64,
    settled: Vec<Settled>,
    rejects: Vec<Reject>,
}

/// What all have to do with.
pub(super) struct Work<'a> {
    pub(super) notes: Notes,
    pub(super) bar: ProgressBar,
    pub(super) sources: Arc<Vec<Source>>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) rejects: Rejects,
    pub(super) max_rejects: Option<u64>,
    pub(super) outcome: &'a mut Outcome,
}

impl Work<'_> {
    /// Reads and writes all, until the end, an interruption or a failure.
    pub(super) async fn run(
        &mut self,
        ingest: &Ingest,
        shape: Shape,
        target: Target,
        ending: &mut Ending,
    ) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut done = self.begin(ingest, shape, target, stopped);
        let mut frontier = Frontier::default();
        let mut put_down = Instant::now();
        let mut grace = None;
        loop {
            let told = tokio::select! {
                told = done.recv() => told,
                () = ending.comes() => {
                    let was_told_before = std::mem::replace(&mut self.outcome.interrupted, true);
                    // Who asks twice will not wait.
                    if was_told_before { None } else { grace = self.wind_up(&stop); continue }
                }
                () = until(grace) => None,
            };
            match told {
                None => break,
                Some(Ok(batch)) => self.take_down(batch, &mut frontier)?,
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
            if put_down.elapsed() >= EVERY {
                self.put_down()?;
                put_down = Instant::now();
            }
        }
        stop.send_replace(true);
        self.put_down()
    }

    /// Starts the reading thread and the tasks that write; gives what they tell.
    fn begin(
        &self,
        ingest: &Ingest,
        shape: Shape,
        target: Target,
        stop: watch::Receiver<bool>,
    ) -> mpsc::Receiver<Result<Done, String>> {
        let (send, batches) = mpsc::channel(1);
        let (tell, done) = mpsc::channel(ingest.parallel);
        let reading = Reading {
            sources: Arc::clone(&self.sources),
            from: self.outcome.places.clone(),
            batch: ingest.batch,
            stop: stop.clone(),
            send,
        };
        // It may wait for a stream forever; the end of the program does not wait for it.
        std::thread::spawn(move || reading.run());
        let writer = Writer {
            target,
            patience: ingest.patience,
            stop,
            notes: self.notes,
            bar: self.bar.clone(),
            is_told: AtomicBool::new(false),
        };
        let line = Arc::new(Line {
            sources: Arc::clone(&self.sources),
            shape,
            writer,
            batches: Mutex::new(batches),
        });
        for _ in 0..ingest.parallel {
            tokio::spawn(Arc::clone(&line).run(tell.clone()));
        }
        done
    }

    /// No more is begun, and what is under way is waited for, for so long.
    fn wind_up(&self, stop: &watch::Sender<bool>) -> Option<Instant> {
        stop.send_replace(true);
        self.bar.suspend(|| self.notes.say("interrupted; waiting for what is under way …"));
        Some(Instant::now() + GRACE)
    }

    fn take_down(&mut self, done: Done, frontier: &mut Frontier<(usize, Place)>) -> io::Result<()> {
        let source = &self.sources[done.source];
        for reject in &done.rejects {
            if let Some(shown) = self.rejects.add(&source.file, reject)? {
                self.bar.suspend(|| self.notes.warn(shown));
            }
        }
        let outcome = &mut *self.outcome;
        outcome.rejected += done.rejects.len() as u64;
        outcome.records += (done.settled.len() + done.rejects.len()) as u64;
        done.settled.iter().for_each(|settled| outcome.count(settled));
        for (source, end) in frontier.done(done.sequence, (done.source, done.end)) {
            outcome.places[source] = end;
        }
        self.bar.inc(done.bytes);
        let documents = outcome.added + outcome.already_there;
        self.bar.set_message(format!("{documents} documents, {:.0}/s", outcome.rate()));
        Ok(())
    }

    /// The checkpoint: what was rejected before it is on disk.
    fn put_down(&mut self) -> io::Result<()> {
        let Some(checkpoint) = &mut self.checkpoint else { return self.rejects.sync() };
        self.rejects.sync()?;
        for (source, place) in self.sources.iter().zip(&self.outcome.places) {
            if place.offset > 0 {
                checkpoint.put(source, *place)?;
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
struct Line {
    sources: Arc<Vec<Source>>,
    shape: Shape,
    writer: Writer,
    batches: Mutex<mpsc::Receiver<Result<Batch, String>>>,
}

impl Line {
    /// Takes batches and writes them, until there is none or it is stopped.
    async fn run(self: Arc<Self>, tell: mpsc::Sender<Result<Done, String>>) {
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
                Ok(batch) => Arc::clone(&self).write(batch).await,
                Err(error) => Err(error),
            };
            let failed = done.is_err();
            if tell.send(done).await.is_err() || failed {
                return;
            }
        }
    }

    async fn write(self: Arc<Self>, batch: Batch) -> Result<Done, String> {
        let (sequence, source, bytes) = (batch.sequence, batch.source, batch.bytes);
        let understood = {
            let line = Arc::clone(&self);
            // It may take long, and answers wait meanwhile.
            tokio::task::spawn_blocking(move || line.understand(batch))
        };
        let Understood { batch, end, documents, of, mut rejects } =
            understood.await.map_err(|error| error.to_string())?;
        let answers = self.writer.write(&documents).await?;
        let mut settled = Vec::with_capacity(answers.len());
        for (answer, index) in answers.into_iter().zip(of) {
            match answer {
                Settled::Refused(reason) => rejects.push(reject(&batch, index, reason)),
                Settled::Added | Settled::AlreadyThere | Settled::MayBeTwice => {
                    settled.push(answer);
                }
            }
        }
        rejects.sort_by_key(|reject| reject.at.offset);
        Ok(Done { sequence, source, end, bytes, settled, rejects })
    }

    fn understand(&self, batch: Batch) -> Understood {
        let source = &self.sources[batch.source];
        let (mut documents, mut of, mut rejects) = (Vec::new(), Vec::new(), Vec::new());
        let mut end = batch.end;
        for (index, record) in batch.records.iter().enumerate() {
            let origin = Origin {
                source: &source.name,
                format: source.format,
                header: &batch.header,
                offset: record.at.offset,
            };
            let document = if record.is_too_long {
                Err(format!("it is longer than {LONGEST} bytes"))
            } else {
                self.shape.document(&batch.text[record.range.clone()], origin)
            };
            match document {
                Ok(Some(document)) => {
                    documents.push(document);
                    of.push(index);
                }
                Ok(None) => {}
                Err(reason) => {
                    rejects.push(reject(&batch, index, reason));
                    // The rest of it may be written to the file later.
                    if !record.is_ended {
                        end = record.at;
                    }
                }
            }
        }
        Understood { batch, end, documents, of, rejects }
    }
}

/// A batch as documents.
struct Understood {
    batch: Batch,
    end: Place,
    documents: Vec<steadfast::bson::RawDocumentBuf>,
    /// Which record each of them is.
    of: Vec<usize>,
    rejects: Vec<Reject>,
}

fn reject(batch: &Batch, index: usize, reason: String) -> Reject {
    let record = &batch.records[index];
    let raw = batch.text[record.range.clone()].to_vec();
    Reject { at: record.at, reason, raw, is_cut: record.is_too_long }
}
