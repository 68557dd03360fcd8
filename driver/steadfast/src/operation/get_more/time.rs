//! Time-outs of cursors, from the time-out of the call that creates them.

use crate::{
    command::Command,
    deadline::MaxTime,
    error::{Error, Result},
    operation::get_more::GetMoreOptions,
    options::{CursorType, TimeoutMode},
};

impl GetMoreOptions {
    /// Applies the `timeoutMode`: the cursor shares the deadline of its command, or each iteration
    /// has the full time-out. In the latter case no `maxTimeMS` is sent, because the server would
    /// apply it to the whole lifetime of the cursor.
    pub(crate) fn apply_timeout_mode(
        &mut self,
        command: &mut Command,
        mode: Option<TimeoutMode>,
        cursor_type: CursorType,
    ) -> Result<()> {
        let Some(limit) = command.time_limit else {
            return match mode {
                None => Ok(()),
                Some(_) => Err(Error::invalid_argument(
                    "timeout_mode requires a timeout, but no timeout is set",
                )),
            };
        };
        let tailable = cursor_type != CursorType::NonTailable;
        if tailable && mode == Some(TimeoutMode::CursorLifetime) {
            return Err(Error::invalid_argument(
                "timeout_mode of a tailable cursor must be Iteration",
            ));
        }
        if let Some(wait) = self.max_time
            && !limit.timeout.is_zero()
            && wait >= limit.timeout
        {
            return Err(Error::invalid_argument(format!(
                "max_await_time {wait:?} must be shorter than the timeout {:?}",
                limit.timeout
            )));
        }
        self.renewed = tailable || mode == Some(TimeoutMode::Iteration);
        if self.renewed && cursor_type != CursorType::TailableAwait {
            command.max_time = MaxTime::Omit;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::doc;

    use super::*;
    use crate::{
        operation::{find, fixture::collection},
        options::FindOptions,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn shared(options: &FindOptions) -> Result<(bool, MaxTime)> {
        let (command, more) = find::find(&collection(), &doc! {}, Some(options))?;
        Ok((more.renewed, command.max_time))
    }

    #[tokio::test]
    async fn cursor_shares_the_deadline_unless_the_mode_is_iteration() {
        use {CursorType::*, TimeoutMode::*};
        let max_time = |max_time: bool| if max_time { MaxTime::Remaining } else { MaxTime::Omit };
        for (cursor_type, mode, renewed, said) in [
            (NonTailable, None, false, true),
            (NonTailable, Some(CursorLifetime), false, true),
            (NonTailable, Some(Iteration), true, false),
            (Tailable, None, true, false),
            (Tailable, Some(Iteration), true, false),
            (TailableAwait, None, true, true),
            (TailableAwait, Some(Iteration), true, true),
        ] {
            let options = FindOptions::builder()
                .timeout(SECOND)
                .timeout_mode(mode)
                .cursor_type(cursor_type)
                .build();
            assert_eq!(
                shared(&options).unwrap(),
                (renewed, max_time(said)),
                "{cursor_type:?} {mode:?}"
            );
        }
    }

    #[tokio::test]
    async fn invalid_timeout_modes_are_rejected() {
        let rejected = |options: FindOptions| {
            let error = shared(&options).unwrap_err();
            assert!(error.is_invalid_argument(), "{error}");
            error.to_string()
        };
        let mode = FindOptions::builder().timeout_mode(TimeoutMode::Iteration).build();
        assert!(rejected(mode).contains("no timeout"));
        let tailable = FindOptions::builder().timeout(SECOND).cursor_type(CursorType::Tailable);
        let lifetime = tailable.timeout_mode(TimeoutMode::CursorLifetime).build();
        assert!(rejected(lifetime).contains("must be Iteration"));
        let awaiting = |wait: Duration, timeout: Duration| {
            FindOptions::builder()
                .cursor_type(CursorType::TailableAwait)
                .max_await_time(wait)
                .timeout(timeout)
                .build()
        };
        assert!(rejected(awaiting(SECOND, SECOND)).contains("max_await_time"));
        assert!(shared(&awaiting(SECOND, 2 * SECOND)).is_ok());
        assert!(shared(&awaiting(SECOND, Duration::ZERO)).is_ok(), "zero has no end");
    }
}
