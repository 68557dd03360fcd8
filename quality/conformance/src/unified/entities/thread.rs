//! A thread of a test: operations one after the other, beside those of the test itself.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinHandle};

use crate::unified::stop::{Step, Stop};

/// Something for a thread to do.
pub(crate) type Job = Pin<Box<dyn Future<Output = Step<()>> + Send>>;

/// How long a thread may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread of a test. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Thread(Arc<Mutex<Option<Running>>>);

#[derive(Debug)]
struct Running {
    jobs: mpsc::UnboundedSender<Job>,
    worker: JoinHandle<Step<()>>,
}

impl Thread {
    /// An idle thread.
    pub(crate) fn start() -> Self {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let worker = tokio::spawn(async move {
            while let Some(job) = queue.recv().await {
                job.await?;
            }
            Ok(())
        });
        Self(Arc::new(Mutex::new(Some(Running { jobs, worker }))))
    }

    /// Has the thread do a job after those it has already.
    pub(crate) fn give(&self, job: Job) -> Step<()> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.as_ref().ok_or("the thread has ended")?;
        running.jobs.send(job).map_err(|_| Stop::failed("the thread has failed"))
    }

    /// Waits until the thread has done all its jobs; fails if one of them did.
    pub(crate) async fn finish(&self) -> Step<()> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Running { jobs, worker } = running.ok_or("the thread has ended")?;
        drop(jobs);
        match tokio::time::timeout(PATIENCE, worker).await {
            Ok(Ok(result)) => result,
            Ok(Err(panicked)) => Err(Stop::failed(panicked.to_string())),
            Err(_) => Err(Stop::failed("the thread did not end within a minute")),
        }
    }
}
