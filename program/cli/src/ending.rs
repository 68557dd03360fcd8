//! The end of a program that runs until it is told to stop.

use std::io;

/// The signals that end the program.
pub(crate) struct Ending {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// A file that may not grow any further is an error of whoever writes it, which can be told and tidied up
    /// after, and not the end of the process.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    _file_too_large: tokio::signal::unix::Signal,
}

/// SIGXFSZ.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const FILE_TOO_LARGE: i32 = 25;

impl Ending {
    /// From here on, signals are no longer the end of the process.
    pub(crate) fn awaited() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                #[cfg(any(target_os = "linux", target_os = "macos"))]
                _file_too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for one.
    pub(crate) async fn comes(&mut self) {
        #[cfg(unix)]
        {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
