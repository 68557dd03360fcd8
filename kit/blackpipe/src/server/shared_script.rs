//! State shared by the servers of a deployment: script and transcript.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{
    Exchange, Transcript, exchange::ScriptedResponse, script::Script, transcript::TranscriptEvent,
    wait,
};
use blackpipe_base::message::Request;

/// Script and transcript.
#[derive(Debug, Default)]
pub(super) struct SharedScript {
    script: Mutex<Script>,
    transcript: Mutex<Transcript>,
    /// Notified when the script makes progress.
    progress: watch::Sender<()>,
}

impl SharedScript {
    pub(super) fn expect(&self, group: impl IntoIterator<Item = Exchange>) {
        self.script().expect(group);
    }

    pub(super) fn whenever(&self, exchange: Exchange) {
        self.script().whenever(exchange);
    }

    pub(super) fn take(&self, request: &Request) -> Option<ScriptedResponse> {
        let taken = self.script().take(request);
        self.progress.send_replace(());
        taken
    }

    pub(super) fn take_cut(&self, name: Option<&str>, member: usize) -> Option<usize> {
        let taken = self.script().take_cut(name, member);
        self.progress.send_replace(());
        taken
    }

    /// Records an unexpected request. Returns the reason.
    pub(super) fn unexpected(&self, request: &Request) -> String {
        let what = self.script().unexpected(request);
        self.progress.send_replace(());
        what
    }

    pub(super) fn failed(&self, why: String) {
        self.script().failed(why);
        self.progress.send_replace(());
    }

    pub(super) fn note(&self, member: usize, connection: usize, event: TranscriptEvent) {
        self.locked_transcript().add(member, connection, event);
    }

    pub(super) fn transcript(&self) -> Transcript {
        self.locked_transcript().clone()
    }

    /// Waits until all expected requests arrived or the script failed.
    pub(super) async fn wait_for_script(&self) {
        let mut progress = self.progress.subscribe();
        let is_settled = |_: &()| {
            let script = self.script();
            script.is_met() || !script.failures().is_empty()
        };
        let wait_for_script = async { progress.wait_for(is_settled).await.is_ok() };
        if wait::with_timeout(wait_for_script).await.is_none() {
            self.fail_wait("all expected requests");
        }
    }

    pub(super) fn check(&self) -> Result<(), ScriptError> {
        let violations = self.script().violations();
        match violations.is_empty() {
            true => Ok(()),
            false => Err(ScriptError(self.report("script failed:", &violations))),
        }
    }

    /// Panics if the script failed. In a test that is already panicking, prints the report instead.
    #[track_caller]
    #[expect(clippy::print_stderr, reason = "a second panic would hide the first")]
    pub(super) fn check_on_drop(&self) {
        match self.check() {
            Ok(()) => {}
            Err(not_kept) if std::thread::panicking() => eprintln!("{not_kept}"),
            Err(not_kept) => panic!("{not_kept}"),
        }
    }

    /// Panics because a wait timed out.
    #[track_caller]
    pub(super) fn fail_wait(&self, waited_for: &str) -> ! {
        let violations = self.script().violations();
        panic!("{}", self.report(&format!("timed out waiting for {waited_for}:"), &violations));
    }

    fn report(&self, headline: &str, violations: &[String]) -> String {
        let list: String =
            violations.iter().map(|violation| format!("  - {violation}\n")).collect();
        let transcript = self.locked_transcript();
        format!("{headline}\n{list}\ntranscript:\n{transcript}")
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked_transcript(&self) -> MutexGuard<'_, Transcript> {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Report of a failed script: missing requests, unexpected requests and the transcript.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(String);

/// Formats like `Display`, so that `unwrap` prints a readable report.
impl fmt::Debug for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
