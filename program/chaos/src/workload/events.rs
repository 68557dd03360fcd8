//! Attempts of an operation and their errors, from the driver's command and retry events.
//!
//! The driver emits the events in the task of the call, so a task-local variable identifies the operation.

use std::{cell::RefCell, time::Instant};

use steadfast::{
    error::{Error, Outcome},
    event::{EventHandler, command::CommandEvent, retry::RetryEvent},
    options::ClientOptions,
};

use super::reason;
use crate::account::Failure;

tokio::task_local! {
    static OPERATION: RefCell<OperationEvents>;
}

/// Attempts of an operation so far.
#[derive(Debug)]
pub(super) struct OperationEvents {
    /// Beginning of the load.
    since: Instant,
    /// Number of commands that were sent and failed.
    failed: u32,
    /// `true` if the last command succeeded.
    has_succeeded: bool,
    /// `true` while a command or an attempt of a transaction is in progress.
    is_in_progress: bool,
    /// `true` if the caller drops the call.
    is_dropped: bool,
    /// `true` if `failures` has the error of the last attempt.
    is_recorded: bool,
    failures: Vec<Failure>,
}

impl OperationEvents {
    fn on_command(&mut self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(_) => self.attempt_started(),
            CommandEvent::Succeeded(event) => match reason::of_reply(&event.reply) {
                Some(error) => self.attempt_failed(error),
                None => (self.has_succeeded, self.is_in_progress) = (true, false),
            },
            // The drop is recorded already.
            CommandEvent::Failed(_) if self.is_dropped => {}
            CommandEvent::Failed(event) => self.attempt_failed(reason::of(&event.failure)),
            _ => {}
        }
    }

    fn attempt_started(&mut self) {
        (self.has_succeeded, self.is_in_progress, self.is_recorded) = (false, true, false);
    }

    /// Records the error of a command that was sent.
    fn attempt_failed(&mut self, error: String) {
        self.failed += 1;
        self.is_in_progress = false;
        self.record(error);
    }

    fn on_retry(&mut self, event: &RetryEvent) {
        if let RetryEvent::Scheduled(event) = event {
            // The error of a sent command was recorded by its command event.
            if !self.is_recorded {
                self.record(reason::of_unsent(&event.reason).to_owned());
            }
            self.is_recorded = false;
        }
    }

    fn record(&mut self, what: String) {
        self.failures.push(Failure { at: self.since.elapsed(), what });
        self.is_recorded = true;
    }

    /// Returns the number of attempts: failed commands, plus one if the last command succeeded or was in progress
    /// when the call was dropped. A successful operation of several commands has one attempt.
    fn attempts(&self) -> u32 {
        self.failed + u32::from(self.has_succeeded || self.is_in_progress)
    }
}

/// Registers the event handlers.
pub(super) fn listen(options: &mut ClientOptions) {
    options.command_event_handler = Some(EventHandler::callback(|event: CommandEvent| {
        // Commands outside of an operation, such as those of authentication, and aborts are ignored.
        let is_abort = command_name(&event) == Some("abortTransaction");
        let _ = OPERATION.try_with(|events| {
            if !is_abort {
                events.borrow_mut().on_command(&event);
            }
        });
    }));
    options.retry_event_handler = Some(EventHandler::callback(|event: RetryEvent| {
        let _ = OPERATION.try_with(|events| events.borrow_mut().on_retry(&event));
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

/// Runs an operation. Returns its result, the number of attempts and the failed attempts.
pub(super) async fn record<T>(
    since: Instant,
    operation: impl Future<Output = T>,
) -> (T, u32, Vec<Failure>) {
    let events = OperationEvents {
        since,
        failed: 0,
        has_succeeded: false,
        is_in_progress: false,
        is_dropped: false,
        is_recorded: false,
        failures: Vec::new(),
    };
    let recorded = async {
        let result = operation.await;
        let (attempts, failures) = OPERATION.with(|events| {
            let mut events = events.borrow_mut();
            (events.attempts(), std::mem::take(&mut events.failures))
        });
        (result, attempts, failures)
    };
    OPERATION.scope(RefCell::new(events), recorded).await
}

/// Records the error of a call, unless a command or retry event has recorded it.
pub(super) fn call_failed(error: &Error) {
    record_once(|| reason::of(error));
}

/// Records that a call exceeded its deadline and was dropped.
pub(super) fn timed_out() {
    record_once(|| reason::TIMED_OUT.to_owned());
}

/// Records that the caller drops the call.
pub(super) fn dropped() {
    let _ = OPERATION.try_with(|events| {
        let mut events = events.borrow_mut();
        events.is_dropped = true;
        events.record(reason::DROPPED.to_owned());
    });
}

/// Records the start of an attempt of a transaction. Its statements run in another task, whose events are not received.
pub(super) fn transaction_started() {
    let _ = OPERATION.try_with(|events| events.borrow_mut().attempt_started());
}

/// Records the error of an attempt of a transaction.
pub(super) fn transaction_failed(error: &Error) {
    let _ = OPERATION.try_with(|events| {
        let mut events = events.borrow_mut();
        match () {
            () if events.is_recorded => {}
            () if error.outcome() == Outcome::NotSent => {
                events.is_in_progress = false;
                events.record(reason::of(error));
            }
            () => events.attempt_failed(reason::of(error)),
        }
    });
}

fn record_once(error: impl FnOnce() -> String) {
    let _ = OPERATION.try_with(|events| {
        let mut events = events.borrow_mut();
        if !events.is_recorded {
            events.record(error());
        }
    });
}
