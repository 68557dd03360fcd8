//! Signals that end a command.

use std::io;

/// Handlers of SIGINT, SIGTERM and SIGXFSZ.
pub(crate) struct ShutdownSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// Without a handler, a write beyond the file size limit ends the process. With one, the write returns an error.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    _file_too_large: tokio::signal::unix::Signal,
}

/// SIGXFSZ.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const FILE_TOO_LARGE: i32 = 25;

impl ShutdownSignals {
    /// Installs the handlers. From here on, the signals do not end the process by default.
    pub(crate) fn install() -> io::Result<Self> {
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

    /// Waits for SIGINT or SIGTERM.
    pub(crate) async fn received(&mut self) {
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
