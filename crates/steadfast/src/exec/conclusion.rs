//! What becomes of a command whose attempt failed: it waits and is tried again, or it is given up;
//! and who hears of that.

use std::time::Duration;

use steadfast_core::retry::{GiveUp, Labels, Next, Verdict};

use super::execution::{Ended, Execution};
use crate::{
    command::Reply,
    deadline::Clock,
    error::{Error, Result},
    event::retry::{OverloadGivenUpEvent, RetryEvent, RetryScheduledEvent},
    trace,
};

impl Execution<'_> {
    /// Goes on as the retry machine decided after a failure with these labels.
    pub(super) fn conclude(&mut self, verdict: Verdict, labels: Labels) -> Ended {
        let overloaded = labels.retryable || labels.system_overloaded;
        if overloaded {
            self.executor.counters().count_overload();
        }
        match verdict.next {
            Next::Retry { wait } => {
                self.tell_of_retry(wait, overloaded);
                Ended::Continue(wait)
            }
            Next::GiveUp(give_up) => {
                if overloaded {
                    self.tell_of_giving_up(verdict.refused_by_budget);
                }
                self.give_up(give_up, None)
            }
        }
    }

    pub(super) fn give_up(&mut self, give_up: GiveUp, selection: Option<Error>) -> Ended {
        Ended::Break(std::mem::take(&mut self.attempts).raise(give_up, selection))
    }

    /// Gives an overloaded server time.
    pub(super) async fn back_off(&mut self, wait: Duration) {
        self.backoff = wait;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
            self.spent.backing_off += wait;
            self.executor.counters().count_backoff(wait);
        }
    }

    /// What a caller is told: whatever else went wrong, that time ran out, if it did.
    pub(super) fn judged(&self, outcome: Result<Reply>) -> Result<Reply> {
        let Some(deadline) = self.deadline else { return outcome };
        let error = match outcome {
            Ok(mut reply) => {
                reply.clock = Some(Clock { deadline, spent: self.spent });
                return Ok(reply);
            }
            Err(error) if self.out_of_time => deadline.exceeded(error, self.spent),
            Err(error) => deadline.judge(error, self.spent),
        };
        if error.is_timeout() {
            self.executor.counters().count_timeout();
        }
        Err(error)
    }

    fn tell_of_retry(&self, backoff: Duration, overloaded: bool) {
        self.executor.counters().count_retry(overloaded);
        let failed_attempts = self.retry.failed_attempts();
        let tokens_left = self.executor.retry_budget().tokens_left();
        trace::retrying(self.trace(), failed_attempts, backoff, tokens_left, || {
            self.attempts.latest()
        });
        self.executor.tell_of_retry(|| {
            RetryEvent::Scheduled(RetryScheduledEvent {
                command_name: self.command.name.to_string(),
                operation_id: self.operation_id,
                server: self.attempts.latest_server().cloned(),
                failed_attempts,
                reason: self.attempts.latest(),
                overloaded,
                backoff,
                tokens_left,
            })
        });
    }

    fn tell_of_giving_up(&self, refused_by_budget: bool) {
        if refused_by_budget {
            self.executor.counters().count_refusal();
        }
        let failed_attempts = self.retry.failed_attempts();
        let tokens_left = self.executor.retry_budget().tokens_left();
        trace::overload_given_up(
            self.trace(),
            failed_attempts,
            refused_by_budget,
            tokens_left,
            || self.attempts.latest(),
        );
        self.executor.tell_of_retry(|| {
            RetryEvent::GivenUp(OverloadGivenUpEvent {
                command_name: self.command.name.to_string(),
                operation_id: self.operation_id,
                server: self.attempts.latest_server().cloned(),
                failed_attempts,
                reason: self.attempts.latest(),
                refused_by_budget,
                tokens_left,
            })
        });
    }

    fn trace(&self) -> (bson::oid::ObjectId, trace::Operation<'_>) {
        let operation = trace::Operation { name: &self.command.name, id: self.operation_id };
        (self.executor.topology().id(), operation)
    }
}
