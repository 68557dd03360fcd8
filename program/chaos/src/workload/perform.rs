//! Runs the operations at their times with the strategy of the plan, and records them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::strategy::Strategy;
use steadfast::error::{Error, Outcome, Result};
use tokio::{
    sync::watch::Receiver,
    time::{sleep_until, timeout},
};

use super::{dropping::Moment, events, plain::Flaw, sequence::Sequence, target::Target};
use crate::{
    account::{Answer, Kind, Record},
    live::Live,
    plan::Plan,
};

/// Time after the deadline at which a call is dropped, if the driver has not returned a time-out.
const GRACE: Duration = Duration::from_secs(2);
/// Minimum `timeoutMS`, because 0 means no time-out.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Runs operations. All tasks share it.
pub(super) struct Performer {
    pub(super) plan: Plan,
    pub(super) sequence: Sequence,
    pub(super) target: Target,
    /// Beginning of the load.
    pub(super) began: Instant,
    pub(super) live: Arc<Live>,
}

impl Performer {
    /// Runs the operations of a task, each when it is due, or immediately if it is late.
    pub(super) async fn work(
        self: Arc<Self>,
        task: u64,
        mut ending: Receiver<bool>,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let tasks = usize::try_from(self.plan.tasks).unwrap_or(usize::MAX).max(1);
        for operation in (task..self.plan.operations()).step_by(tasks) {
            if !self.is_time(operation, &mut ending).await {
                break;
            }
            let record = self.operate(operation).await;
            self.live.ended(&record);
            records.push(record);
        }
        records
    }

    /// Waits until an operation is due. Returns `false` if the load ends before.
    async fn is_time(&self, operation: u64, ending: &mut Receiver<bool>) -> bool {
        let due = self.began + due(operation, self.plan.rate);
        if *ending.borrow() || self.began.elapsed() >= self.plan.lasting {
            return false;
        }
        if due <= Instant::now() {
            return true;
        }
        tokio::select! {
            () = sleep_until(due.into()) => true,
            // A dropped sender ends the load, too.
            _ = ending.wait_for(|ending| *ending) => false,
        }
    }

    /// Runs and records an operation.
    pub(super) async fn operate(&self, operation: u64) -> Record {
        let kind = self.sequence.kind(operation);
        let began = Instant::now();
        let limit = self.plan.timeout + GRACE;
        let moment = Moment::of(self.plan.seed, operation, self.live.drop_per_mille());
        let writing = async {
            let call = timeout(limit, self.write(kind, operation, began + self.plan.timeout));
            let ended = match moment {
                Some(moment) => moment.cut(call, events::dropped).await,
                None => Some(call.await),
            };
            match ended {
                Some(Ok(answer)) => answer,
                Some(Err(_)) => {
                    events::timed_out();
                    Answer::Failed(Outcome::MaybeApplied)
                }
                None => {
                    self.live.dropped();
                    Answer::Dropped
                }
            }
        };
        let (answer, attempts, failures) = events::record(self.began, writing).await;
        Record {
            operation,
            kind,
            began: began.duration_since(self.began),
            took: began.elapsed(),
            answer,
            attempts,
            failures,
        }
    }

    /// Runs a write with the retries of the strategy.
    async fn write(&self, kind: Kind, operation: u64, deadline: Instant) -> Answer {
        let is_idempotent = self.plan.strategy == Strategy::RetryIdempotent;
        if is_idempotent && let Some(result) = self.target.write_by_pattern(kind, operation).await {
            result.as_ref().inspect_err(|error| events::call_failed(error)).ok();
            return answer(result, false);
        }
        let in_doubt = AtomicBool::new(false);
        let once = || async {
            let limit = deadline.saturating_duration_since(Instant::now()).max(MIN_TIMEOUT);
            let result = match is_idempotent {
                true => self.target.write_again(kind, operation, limit).await,
                false => self.target.write(kind, operation, limit).await,
            };
            result.inspect_err(|error| {
                events::call_failed(error);
                in_doubt.fetch_or(!error.outcome().is_certainly_not_applied(), Relaxed);
            })
        };
        let tried = self.plan.strategy.run(once).await;
        answer(tried.result, in_doubt.load(Relaxed))
    }
}

/// Returns the result that the application receives. After an attempt in doubt, an unexpected result is correct.
fn answer(result: Result<Flaw>, in_doubt: bool) -> Answer {
    match result {
        Ok(Some(flaw)) if !in_doubt => Answer::Wrong(flaw),
        Ok(_) => Answer::Acknowledged,
        Err(error) => Answer::Failed(Error::outcome(&error)),
    }
}

/// Returns the planned beginning of an operation, relative to the beginning of the load.
fn due(operation: u64, rate: u32) -> Duration {
    let rate = u64::from(rate.max(1));
    let nanos = operation % rate * 1_000_000_000 / rate;
    Duration::from_secs(operation / rate) + Duration::from_nanos(nanos)
}
