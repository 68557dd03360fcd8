//! A clock that a test stops, so that no limit passes because the machine is busy.

use std::{pin::pin, sync::mpsc, time::Duration};

/// The clock of the test's runtime, which the driver and the servers that play in it go by. It stands still
/// until the test moves it.
pub struct Clock {
    _held: mpsc::Sender<()>,
}

#[allow(dead_code)]
impl Clock {
    /// Stops it.
    pub fn stopped() -> Self {
        tokio::time::pause();
        let (held, released) = mpsc::channel::<()>();
        // A runtime without anything to do moves a stopped clock on to whatever is due next, though there may be
        // an answer on its way through a socket; but not while something blocks. What hangs times out after this.
        let hold = move || released.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
        tokio::task::spawn_blocking(hold);
        Self { _held: held }
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
    /// It runs again.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            tokio::time::resume();
        }
    }
}
