//! What the servers of a deployment share: one script, and one conversation in its order.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{
    Conversation, Exchange, conversation::Event, exchange::Reaction, patience, script::Script,
};
use blackpipe_base::message::Request;

/// The script and the conversation.
#[derive(Debug, Default)]
pub(super) struct Stage {
    script: Mutex<Script>,
    conversation: Mutex<Conversation>,
    /// Told whenever the script has got on.
    progress: watch::Sender<()>,
}

impl Stage {
    pub(super) fn expect(&self, group: impl IntoIterator<Item = Exchange>) {
        self.script().expect(group);
    }

    pub(super) fn whenever(&self, exchange: Exchange) {
        self.script().whenever(exchange);
    }

    pub(super) fn take(&self, request: &Request) -> Option<Reaction> {
        let taken = self.script().take(request);
        self.progress.send_replace(());
        taken
    }

    pub(super) fn take_cut(&self, name: Option<&str>, member: usize) -> Option<usize> {
        let taken = self.script().take_cut(name, member);
        self.progress.send_replace(());
        taken
    }

    /// Writes down that a request came which was not expected, and says why it was not.
    pub(super) fn unexpected(&self, request: &Request) -> String {
        let what = self.script().unexpected(request);
        self.progress.send_replace(());
        what
    }

    pub(super) fn failed(&self, why: String) {
        self.script().failed(why);
        self.progress.send_replace(());
    }

    pub(super) fn note(&self, member: usize, connection: usize, event: Event) {
        self.conversation().add(member, connection, event);
    }

    pub(super) fn transcript(&self) -> Conversation {
        self.conversation().clone()
    }

    /// Waits until all that is expected has come, or something has gone wrong.
    pub(super) async fn settled(&self) {
        let mut progress = self.progress.subscribe();
        let is_settled = |_: &()| {
            let script = self.script();
            script.is_met() || !script.failures().is_empty()
        };
        let settled = async { progress.wait_for(is_settled).await.is_ok() };
        if patience::asynchronous(settled).await.is_none() {
            self.give_up("waited for all that is expected");
        }
    }

    pub(super) fn check(&self) -> Result<(), NotKept> {
        let complaints = self.script().complaints();
        match complaints.is_empty() {
            true => Ok(()),
            false => Err(NotKept(self.report("The script was not kept.", &complaints))),
        }
    }

    /// Panics if the script was not kept. A test that panics already, as it will if the application
    /// fails on what was not expected, is told so beside that.
    #[track_caller]
    #[expect(clippy::print_stderr, reason = "a second panic would hide the first")]
    pub(super) fn answer_for_script(&self) {
        match self.check() {
            Ok(()) => {}
            Err(not_kept) if std::thread::panicking() => eprintln!("{not_kept}"),
            Err(not_kept) => panic!("{not_kept}"),
        }
    }

    /// Panics because something did not come that was waited for.
    #[track_caller]
    pub(super) fn give_up(&self, waited_for: &str) -> ! {
        let complaints = self.script().complaints();
        panic!("{}", self.report(&format!("In vain the test {waited_for}."), &complaints));
    }

    fn report(&self, headline: &str, complaints: &[String]) -> String {
        let list: String =
            complaints.iter().map(|complaint| format!("  - {complaint}\n")).collect();
        let conversation = self.conversation();
        format!("{headline}\n{list}\nThe conversation so far:\n{conversation}")
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A script was not kept: what was expected and did not come, what came and was not expected, and the
/// whole conversation.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotKept(String);

/// The same as is displayed, so that `unwrap` shows something to read.
impl fmt::Debug for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
