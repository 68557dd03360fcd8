//! What happens to an operation on its way: how often it is tried, and why attempts fail.
//!
//! The driver tells of commands in the course of the call itself. So it is the task that hears of one that knows
//! to which operation it belongs, and what was heard is gone with the operation.

use std::{cell::RefCell, time::Instant};

use steadfast::{
    error::{Error, Outcome},
    event::{EventHandler, command::CommandEvent, retry::RetryEvent},
    options::ClientOptions,
};

use super::reason;
use crate::account::Failure;

tokio::task_local! {
    static OPERATION: RefCell<Watch>;
}

/// What was heard of an operation.
#[derive(Debug)]
pub(super) struct Watch {
    /// When the load began.
    since: Instant,
    /// How many commands were sent, and failed.
    failed: u32,
    /// Whether the last command was answered well.
    is_answered: bool,
    /// `true` while a command, or a try of a transaction, is under way.
    is_under_way: bool,
    /// `true` if the caller drops the call.
    is_dropped: bool,
    /// Whether it is known already why the last attempt failed.
    is_explained: bool,
    failures: Vec<Failure>,
}

impl Watch {
    fn hear(&mut self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(_) => self.begins(),
            CommandEvent::Succeeded(event) => match reason::of_reply(&event.reply) {
                Some(why) => self.attempt_failed(why),
                None => (self.is_answered, self.is_under_way) = (true, false),
            },
            // That is told in another way, and is the end of what is under way.
            CommandEvent::Failed(_) if self.is_dropped => {}
            CommandEvent::Failed(event) => self.attempt_failed(reason::of(&event.failure)),
            _ => {}
        }
    }

    fn begins(&mut self) {
        (self.is_answered, self.is_under_way, self.is_explained) = (false, true, false);
    }

    /// A command was sent, and failed.
    fn attempt_failed(&mut self, why: String) {
        self.failed += 1;
        self.is_under_way = false;
        self.explain(why);
    }

    fn hear_of_retry(&mut self, event: &RetryEvent) {
        if let RetryEvent::Scheduled(event) = event {
            // If it was sent, that was told before this.
            if !self.is_explained {
                self.explain(reason::of_unsent(&event.reason).to_owned());
            }
            self.is_explained = false;
        }
    }

    fn explain(&mut self, what: String) {
        self.failures.push(Failure { at: self.since.elapsed(), what });
        self.is_explained = true;
    }

    /// Number of attempts: each command that failed, and one that did not, or that was under way when the call
    /// was dropped. An operation that takes several commands is tried once if all of them succeed.
    fn attempts(&self) -> u32 {
        self.failed + u32::from(self.is_answered || self.is_under_way)
    }
}

/// What there is to hear, for those who are at an operation.
pub(super) fn listen(options: &mut ClientOptions) {
    options.command_event_handler = Some(EventHandler::callback(|event: CommandEvent| {
        // What belongs to no operation, such as logging in, is of no interest.
        // Nor is the end of a transaction that was tried in vain.
        let is_abort = command_name(&event) == Some("abortTransaction");
        let _ = OPERATION.try_with(|watch| {
            if !is_abort {
                watch.borrow_mut().hear(&event);
            }
        });
    }));
    options.retry_event_handler = Some(EventHandler::callback(|event: RetryEvent| {
        let _ = OPERATION.try_with(|watch| watch.borrow_mut().hear_of_retry(&event));
    }));
}

fn command_name(event: &CommandEvent) -> Option<&str> {
    match event {
        CommandEvent::Started(event) => Some(&event.command_name),
        CommandEvent::Succeeded(event) => Some(&event.command_name),
        CommandEvent::Failed(event) => Some(&event.command_name),
        _ => None,
    }
}

/// Runs an operation; with what comes of it, how often it was tried, and why attempts failed.
pub(super) async fn over<T>(
    since: Instant,
    operation: impl Future<Output = T>,
) -> (T, u32, Vec<Failure>) {
    let watch = Watch {
        since,
        failed: 0,
        is_answered: false,
        is_under_way: false,
        is_dropped: false,
        is_explained: false,
        failures: Vec::new(),
    };
    let watched = async {
        let result = operation.await;
        let (attempts, failures) = OPERATION.with(|watch| {
            let mut watch = watch.borrow_mut();
            (watch.attempts(), std::mem::take(&mut watch.failures))
        });
        (result, attempts, failures)
    };
    OPERATION.scope(RefCell::new(watch), watched).await
}

/// A call of the driver's failed: says why, if that is not known yet because nothing was sent.
pub(super) fn call_failed(error: &Error) {
    explain_unless_known(|| reason::of(error));
}

/// The operation was given up.
pub(super) fn given_up() {
    explain_unless_known(|| reason::TIMED_OUT.to_owned());
}

/// The caller is about to drop the call.
pub(super) fn dropped() {
    let _ = OPERATION.try_with(|watch| {
        let mut watch = watch.borrow_mut();
        watch.is_dropped = true;
        watch.explain(reason::DROPPED.to_owned());
    });
}

/// The writes of a transaction begin. The driver makes them in another task, whose events are not heard here.
pub(super) fn try_begins() {
    let _ = OPERATION.try_with(|watch| watch.borrow_mut().begins());
}

/// One of them failed.
pub(super) fn try_failed(error: &Error) {
    let _ = OPERATION.try_with(|watch| {
        let mut watch = watch.borrow_mut();
        match () {
            () if watch.is_explained => {}
            () if error.outcome() == Outcome::NotSent => {
                watch.is_under_way = false;
                watch.explain(reason::of(error));
            }
            () => watch.attempt_failed(reason::of(error)),
        }
    });
}

fn explain_unless_known(why: impl FnOnce() -> String) {
    let _ = OPERATION.try_with(|watch| {
        let mut watch = watch.borrow_mut();
        if !watch.is_explained {
            watch.explain(why());
        }
    });
}
