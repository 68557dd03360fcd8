//! A clock that a test stops, so that no limit passes because the machine is busy.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

/// Real time after which a stopped clock runs on by itself, so that a test that hangs ends.
const HANG: Duration = Duration::from_secs(60);

/// Clock of the test's runtime, by which the driver and the scripted servers measure time. It stands still until
/// the test advances it.
pub struct Clock {
    _held: mpsc::Sender<()>,
    ran_on: Arc<AtomicBool>,
}

#[allow(dead_code)]
impl Clock {
    /// Stops it.
    pub fn stopped() -> Self {
        tokio::time::pause();
        let (held, released) = mpsc::channel::<()>();
        let ran_on = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&ran_on);
        // An idle runtime advances a stopped clock to the next timer, although a reply may be on its way through a
        // socket; but not while a blocking task runs.
        tokio::task::spawn_blocking(move || {
            let ended = released.recv_timeout(HANG);
            noted.store(ended == Err(mpsc::RecvTimeoutError::Timeout), Relaxed);
        });
        Self { _held: held, ran_on }
    }

    /// Lets so much time pass, and what was due within it happen.
    pub async fn pass(&self, time: Duration) {
        // Who is about to wait begins to.
        settle().await;
        // Timers go by whole milliseconds.
        tokio::time::advance(time + Duration::from_millis(1)).await;
        settle().await;
    }

    /// Lets time pass, a step after the other, until the future is ready: for what needs a time that the test
    /// does not know, as an election and whatever follows from it.
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

/// Lets all tasks do what they can without a socket.
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
    /// The clock has run on by itself: the test waited for a timer that it did not let pass, and would have
    /// passed for the wrong reason.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            tokio::time::resume();
            assert!(
                !self.ran_on.load(Relaxed),
                "the test hung for {HANG:?} with the clock stopped"
            );
        }
    }
}
