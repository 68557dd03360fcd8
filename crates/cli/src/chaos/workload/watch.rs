//! What happens to an operation on its way: how often it is tried, and why attempts fail.
//!
//! The driver tells of commands in the course of the call itself. So it is the task that hears of one that knows
//! to which operation it belongs, and what was heard is gone with the operation.

use std::{cell::RefCell, time::Instant};

use steadfast::{
    error::Error,
    event::{EventHandler, command::CommandEvent, retry::RetryEvent},
    options::ClientOptions,
};

use super::reason;
use crate::chaos::account::Failure;

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
    /// Whether it is known already why the last attempt failed.
    is_explained: bool,
    failures: Vec<Failure>,
}

impl Watch {
    fn hear(&mut self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(_) => (self.is_answered, self.is_explained) = (false, false),
            CommandEvent::Succeeded(event) => match reason::of_reply(&event.reply) {
                Some(why) => self.attempt_failed(why),
                None => self.is_answered = true,
            },
            CommandEvent::Failed(event) => self.attempt_failed(reason::of(&event.failure)),
            _ => {}
        }
    }

    /// A command was sent, and failed.
    fn attempt_failed(&mut self, why: String) {
        self.failed += 1;
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

    /// How often it was tried: each command that failed, and one that did not. An operation that takes several
    /// commands is tried once if all of them succeed.
    fn attempts(&self) -> u32 {
        self.failed + u32::from(self.is_answered)
    }
}

/// What there is to hear, for those who are at an operation.
pub(super) fn listen(options: &mut ClientOptions) {
    options.command_event_handler = Some(EventHandler::callback(|event: CommandEvent| {
        // What belongs to no operation, such as logging in, is of no interest.
        let _ = OPERATION.try_with(|watch| watch.borrow_mut().hear(&event));
    }));
    options.retry_event_handler = Some(EventHandler::callback(|event: RetryEvent| {
        let _ = OPERATION.try_with(|watch| watch.borrow_mut().hear_of_retry(&event));
    }));
}

/// Runs an operation; with what comes of it, how often it was tried, and why attempts failed.
pub(super) async fn over<T>(
    since: Instant,
    operation: impl Future<Output = T>,
) -> (T, u32, Vec<Failure>) {
    let watch =
        Watch { since, failed: 0, is_answered: false, is_explained: false, failures: Vec::new() };
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

fn explain_unless_known(why: impl FnOnce() -> String) {
    let _ = OPERATION.try_with(|watch| {
        let mut watch = watch.borrow_mut();
        if !watch.is_explained {
            watch.explain(why());
        }
    });
}
