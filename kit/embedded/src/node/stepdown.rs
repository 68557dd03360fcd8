//! `replSetStepDown` and `replSetFreeze`.

use std::time::Duration;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{CommandFailure, CommandOutcome, Node, RunningCommand};
use crate::{clock::clamp_duration, set::MemberRole};

impl Node {
    pub(super) async fn run_step_down(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let StepDown { period, catch_up, force } = StepDown::read(&running.call.body)?;
        let began = self.shared.clock.now();
        let timeout = (began + catch_up).min(running.deadline.unwrap_or(began + catch_up));
        let ready = self
            .wait_until(Some(timeout), |state, now| {
                if let Err(fault) = self.check_primary(state) {
                    return Some(Err(fault));
                }
                state.has_successor(self.index, now).then_some(Ok(()))
            })
            .await;
        match ready {
            Some(ready) => ready?,
            None if force => {}
            None => return Err(no_successor().into()),
        }
        self.shared.change(|state, now| {
            self.check_primary(state)?;
            state.step_down(self.index, began + period, now);
            Ok::<_, Fault>(())
        })?;
        Self::ok_reply()
    }

    pub(super) fn run_freeze(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let seconds = seconds(&running.call.body, "replSetFreeze")?.unwrap_or(0);
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let reply = self.shared.change(|state, now| self.freeze_for(state, seconds, now))?;
        Ok(reply.into())
    }

    fn freeze_for(
        &self,
        state: &mut crate::set::State,
        seconds: u64,
        now: Instant,
    ) -> Result<Document, Fault> {
        if state.member(self.index).epoch().2 == MemberRole::Primary {
            return Err(Fault::new(
                Code::named(95, "NotSecondary"),
                "Cannot freeze node when primary or running for election, state: Primary",
            ));
        }
        let time = clamp_duration(Duration::from_secs(seconds));
        state.set_unelectable(self.index, now + time, now);
        Ok(match seconds {
            0 => doc! { "info": "unfreezing" },
            1 => doc! { "warning": "you really want to freeze for only 1 second?" },
            _ => Document::new(),
        })
    }
}

/// Parsed arguments of `replSetStepDown`.
struct StepDown {
    /// Time during which the member is not electable.
    period: Duration,
    /// Time to wait for a secondary to catch up (`secondaryCatchUpPeriodSecs`).
    catch_up: Duration,
    /// Steps down even if no secondary catches up (`force`).
    force: bool,
}

impl StepDown {
    fn read(body: &Document) -> Result<Self, Fault> {
        // `1`, which many tools send, means one second. Without a number the period is sixty
        // seconds.
        let period = seconds(body, "replSetStepDown")?.unwrap_or(60);
        let period = if period == 0 { 60 } else { period };
        let period = positive(period, "stepdown period must be a positive integer")?;
        let force = match body.get("force") {
            Some(Bson::Boolean(force)) => *force,
            Some(Bson::Int32(force)) => *force != 0,
            Some(Bson::Double(force)) => *force != 0.0,
            _ => false,
        };
        let catch_up = match seconds(body, "secondaryCatchUpPeriodSecs")? {
            Some(given) => {
                positive(given, "secondaryCatchUpPeriodSecs period must be a positive or absent")?
            }
            None if force => Duration::ZERO,
            None => Duration::from_secs(10),
        };
        if period < catch_up {
            return Err(Fault::bad_value(
                "stepdown period must be longer than secondaryCatchUpPeriodSecs",
            ));
        }
        Ok(Self { period, catch_up, force })
    }
}

fn positive(seconds: i64, complaint: &str) -> Result<Duration, Fault> {
    let seconds = u64::try_from(seconds).map_err(|_| Fault::bad_value(complaint))?;
    Ok(clamp_duration(Duration::from_secs(seconds)))
}

fn seconds(body: &Document, field: &str) -> Result<Option<i64>, Fault> {
    match body.get(field) {
        None => Ok(None),
        Some(Bson::Int32(seconds)) => Ok(Some(i64::from(*seconds))),
        Some(Bson::Int64(seconds)) => Ok(Some(*seconds)),
        #[expect(clippy::cast_possible_truncation)] // fractions of seconds are dropped
        Some(Bson::Double(seconds)) => Ok(Some(*seconds as i64)),
        Some(Bson::Boolean(_)) => Ok(None),
        Some(other) => Err(Fault::type_mismatch(format!(
            "Expected field \"{field}\" to have numeric type, but found {}",
            steadfast_query::value::type_name(other)
        ))),
    }
}

fn no_successor() -> Fault {
    Fault::new(
        Code::EXCEEDED_TIME_LIMIT,
        "No electable secondaries caught up within the time that was given. Please use the \
         replSetStepDown command with the argument {force: true} to force node to step down.",
    )
}
