//! What all commands do alike around their work: a runtime, notes, the signals that end it, how far it is, and a
//! result that says whether it went well.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::{ending::Ending, notes::Notes, output::Output};

/// How a command ends.
pub(crate) type Done = Result<(), Box<dyn Error>>;

/// A command at work.
pub(crate) struct Errand {
    pub(crate) output: Output,
    pub(crate) notes: Notes,
    pub(crate) ending: Ending,
}

/// Does the work of a command, on one thread.
pub(crate) fn run(
    command: &'static str,
    output: Output,
    work: impl AsyncFnOnce(&mut Errand) -> Done,
) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let ending = Ending::awaited()?;
        work(&mut Errand { output, notes: output.notes(command), ending }).await
    });
    // A thread may still be at what nobody waits for any more.
    runtime.shutdown_background();
    done
}

impl Errand {
    /// What a work comes to, unless this is told to end before: then it fails with `otherwise`.
    pub(crate) async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = Result<T, Box<dyn Error>>>,
        otherwise: &str,
    ) -> Result<T, Box<dyn Error>> {
        tokio::select! {
            done = work => done,
            () = self.ending.comes() => Err(otherwise.into()),
        }
    }

    /// A deployment that is found, unless this is told to end before.
    pub(crate) async fn reached<T>(
        &mut self,
        connecting: impl Future<Output = Result<T, Box<dyn Error>>>,
    ) -> Result<T, Box<dyn Error>> {
        self.unless_interrupted(connecting, "interrupted while connecting; nothing was done").await
    }

    /// Shows how far a long work is, and keeps what it has done so far.
    pub(crate) fn watch<T: Clone + Default>(&self, what: &str) -> Watch<T> {
        let bar = self.notes.progress(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Watch { bar, so_far: Mutex::default() }
    }
}

/// What went wrong, for programs.
pub(crate) fn failure(error: &dyn Error) -> Value {
    json!(error.to_string())
}

/// A long work that is looked at.
pub(crate) struct Watch<T> {
    pub(crate) bar: ProgressBar,
    so_far: Mutex<T>,
}

impl<T: Clone + Default> Watch<T> {
    /// It has come so far, and has done this.
    pub(crate) fn heard(&self, position: u64, report: &T) {
        self.bar.set_position(position);
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner).clone_from(report);
    }

    /// It is over: what was heard last.
    pub(crate) fn end(self) -> T {
        self.bar.finish_and_clear();
        self.so_far.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
