//! A thread of a test: a queue of operations that run concurrently with the test.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinHandle};

use crate::unified::test_error::{TestError, TestResult};

/// An operation of a thread.
pub(crate) type ThreadJob = Pin<Box<dyn Future<Output = TestResult<()>> + Send>>;

/// Limit of `waitForThread`.
const THREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A thread of a test. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct TestThread(Arc<Mutex<Option<RunningThread>>>);

#[derive(Debug)]
struct RunningThread {
    jobs: mpsc::UnboundedSender<ThreadJob>,
    worker: JoinHandle<TestResult<()>>,
}

impl TestThread {
    /// Starts an idle thread.
    pub(crate) fn start() -> Self {
        let (jobs, mut queue) = mpsc::unbounded_channel::<ThreadJob>();
        let worker = tokio::spawn(async move {
            while let Some(job) = queue.recv().await {
                job.await?;
            }
            Ok(())
        });
        Self(Arc::new(Mutex::new(Some(RunningThread { jobs, worker }))))
    }

    /// Queues a job.
    pub(crate) fn queue(&self, job: ThreadJob) -> TestResult<()> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.as_ref().ok_or("the thread has ended")?;
        running.jobs.send(job).map_err(|_| TestError::failed("the thread has failed"))
    }

    /// Waits for the end of all jobs. Fails if a job failed.
    pub(crate) async fn finish(&self) -> TestResult<()> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let RunningThread { jobs, worker } = running.ok_or("the thread has ended")?;
        drop(jobs);
        match tokio::time::timeout(THREAD_TIMEOUT, worker).await {
            Ok(Ok(result)) => result,
            Ok(Err(panicked)) => Err(TestError::failed(panicked.to_string())),
            Err(_) => Err(TestError::failed("the thread did not end within a minute")),
        }
    }
}
