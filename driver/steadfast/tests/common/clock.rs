//! Clock that a test stops, so that no time-out expires because the machine is busy.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

/// Real time after which a stopped clock resumes, so that a test that hangs ends.
const HANG: Duration = Duration::from_secs(60);

/// Clock of the test's runtime, by which the driver and the scripted servers measure time. Only the test advances it.
pub struct Clock {
    _held: mpsc::Sender<()>,
    resumed: Arc<AtomicBool>,
}

#[allow(dead_code)]
impl Clock {
    /// Stops the clock of the current runtime.
    pub fn stopped() -> Self {
        tokio::time::pause();
        let (held, released) = mpsc::channel::<()>();
        let resumed = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&resumed);
        // An idle runtime advances a stopped clock to the next timer, although a reply may be on its way through a
        // socket; but not while a blocking task runs.
        tokio::task::spawn_blocking(move || {
            let ended = released.recv_timeout(HANG);
            noted.store(ended == Err(mpsc::RecvTimeoutError::Timeout), Relaxed);
        });
        Self { _held: held, resumed }
    }

    /// Advances the clock and runs the timers that expire.
    pub async fn pass(&self, time: Duration) {
        // Tasks that are about to wait register their timers.
        settle().await;
        // Timers have a resolution of one millisecond.
        tokio::time::advance(time + Duration::from_millis(1)).await;
        settle().await;
    }

    /// Advances the clock step by step until the future is ready, where the necessary time is unknown, as for an
    /// election.
    pub async fn pass_until<T>(&self, step: Duration, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                ended = &mut future => return ended,
                () = self.pass(step) => {}
            }
        }
    }
}

/// Runs all tasks until they wait for a socket or a timer.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

impl Drop for Clock {
    /// Resumes the clock.
    ///
    /// # Panics
    ///
    /// Panics if the clock resumed after [`HANG`]: the test waited for a timer that it did not advance to, and would
    /// have passed for the wrong reason.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            tokio::time::resume();
            assert!(
                !self.resumed.load(Relaxed),
                "the test hung for {HANG:?} with the clock stopped"
            );
        }
    }
}
