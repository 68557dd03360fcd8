//! Environment of a running command: runtime, notes, signals and progress.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::{notes::Notes, output::Output, signals::ShutdownSignals};

/// Result of a command.
pub(crate) type CommandResult = Result<(), Box<dyn Error>>;

/// A running command.
pub(crate) struct CommandContext {
    pub(crate) output: Output,
    pub(crate) notes: Notes,
    pub(crate) signals: ShutdownSignals,
}

/// Runs a command on a single-threaded runtime.
pub(crate) fn run(
    command: &'static str,
    output: Output,
    work: impl AsyncFnOnce(&mut CommandContext) -> CommandResult,
) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let signals = ShutdownSignals::install()?;
        work(&mut CommandContext { output, notes: output.notes(command), signals }).await
    });
    // A blocking task may still run after an interruption.
    runtime.shutdown_background();
    done
}

impl CommandContext {
    /// Returns the result of the work, or `otherwise` as the error if a signal arrives first.
    pub(crate) async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = Result<T, Box<dyn Error>>>,
        otherwise: &str,
    ) -> Result<T, Box<dyn Error>> {
        tokio::select! {
            done = work => done,
            () = self.signals.received() => Err(otherwise.into()),
        }
    }

    /// Waits for a connection, or fails if a signal arrives first.
    pub(crate) async fn connect<T>(
        &mut self,
        connecting: impl Future<Output = Result<T, Box<dyn Error>>>,
    ) -> Result<T, Box<dyn Error>> {
        self.unless_interrupted(connecting, "interrupted while connecting; nothing was done").await
    }

    /// Shows a progress bar, and keeps the latest report of the work.
    pub(crate) fn track<T: Clone + Default>(&self, what: &str) -> ProgressTracker<T> {
        let bar = self.notes.progress(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        ProgressTracker { bar, so_far: Mutex::default() }
    }
}

/// Formats an error for the field `error` of JSON output.
pub(crate) fn error_value(error: &dyn Error) -> Value {
    json!(error.to_string())
}

/// Progress of a long operation: its bar and its latest report.
pub(crate) struct ProgressTracker<T> {
    pub(crate) bar: ProgressBar,
    so_far: Mutex<T>,
}

impl<T: Clone + Default> ProgressTracker<T> {
    /// Sets the position of the bar and the latest report.
    pub(crate) fn update(&self, position: u64, report: &T) {
        self.bar.set_position(position);
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner).clone_from(report);
    }

    /// Removes the bar and returns the latest report.
    pub(crate) fn finish(self) -> T {
        self.bar.finish_and_clear();
        self.so_far.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
