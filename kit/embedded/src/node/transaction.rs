//! Execution of transaction statements, and of commit and abort.

use bson::Document;
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{
    CommandFailure, CommandOutcome, Node, RunningCommand, checks, wait::max_time_expired,
    write::WriteHandler,
};
use crate::{
    call::TransactionArguments,
    change::BatchProgress,
    command::{Handler, ReadContext, WriteContext},
    oplog::{OpTime, OrderedTimestamp, SessionId},
    session::aborted,
    set::State,
    transaction::{InTransaction, write_conflict},
};

impl Node {
    /// Runs a statement of a transaction. An error aborts the transaction.
    pub(super) async fn run_in_transaction(
        &self,
        running: &RunningCommand<'_>,
        run: Handler,
    ) -> Result<CommandOutcome, CommandFailure> {
        let (session, arguments) = self.session_and_arguments(running)?;
        let outcome = match run {
            Handler::Write(write) => {
                self.with_transaction(running, session, arguments, |state, now| {
                    self.write_in_transaction(state, running, session, write, now)
                })
                .await
            }
            Handler::Read(read) => {
                let (read_snapshot, env) = self
                    .with_transaction(running, session, arguments, |state, now| {
                        let transaction = state.member(self.index).transaction(session);
                        let transaction = transaction.ok_or_else(|| aborted(arguments.number))?;
                        let read_snapshot = state.read_of_data(self.index, transaction.store());
                        Ok((read_snapshot, self.environment(state, now)))
                    })
                    .await?;
                let outcome = read(&ReadContext {
                    call: running.call,
                    env: &env,
                    store: &read_snapshot.store,
                    history: &read_snapshot.history,
                    cursors: &self.cursors,
                    server_info: &self.server_info,
                });
                outcome.inspect_err(|_| {
                    self.shared.change(|state, _| {
                        drop(state.abort_transaction(self.index, session, arguments.number));
                    });
                })
            }
        };
        let over = outcome.as_ref().map_or(true, has_failed);
        if over {
            self.cursors().kill_transaction(session, arguments.number);
        }
        Ok(outcome?.into())
    }

    /// Session id and transaction arguments of a command.
    pub(super) fn session_and_arguments<'a>(
        &self,
        running: &'a RunningCommand<'_>,
    ) -> Result<(&'a SessionId, TransactionArguments), Fault> {
        let call = running.call;
        call.session.as_ref().zip(call.transaction.filter(|it| it.multi_document)).ok_or_else(
            || {
                Fault::new(
                    Code::named(125, "CommandFailed"),
                    format!("{} must be run within a transaction", call.name),
                )
            },
        )
    }

    /// Enters the transaction as soon as that is possible, and runs a function in it.
    async fn with_transaction<T>(
        &self,
        running: &RunningCommand<'_>,
        session: &SessionId,
        arguments: TransactionArguments,
        mut act: impl FnMut(&mut State, Instant) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let acted = self
            .wait_until(running.deadline, |state, now| {
                match self.enter(state, running, session, arguments, now) {
                    Ok(true) => {
                        state.bump_revision();
                        Some(act(state, now))
                    }
                    Ok(false) => None,
                    Err(fault) => Some(Err(fault)),
                }
            })
            .await;
        acted.unwrap_or_else(|| Err(max_time_expired()))
    }

    /// Starts or continues the transaction. Returns `false` if a prepared transaction is in the
    /// way.
    fn enter(
        &self,
        state: &mut State,
        running: &RunningCommand<'_>,
        session: &SessionId,
        arguments: TransactionArguments,
        now: Instant,
    ) -> Result<bool, Fault> {
        self.check_runs(state, running)?;
        self.check_primary(state)?;
        if state.must_wait(self.index, session, arguments.number) {
            return Ok(false);
        }
        let concern = &running.call.read_concern;
        if let Some(after) = concern.after_cluster_time.map(OrderedTimestamp::from) {
            state.check_not_ahead(self.index, "afterClusterTime", after)?;
            state.advance_oplog_to(self.index, after, now);
        }
        let at = concern.at_cluster_time.map(OrderedTimestamp::from);
        if let Some(at) = at {
            state.check_not_ahead(self.index, "atClusterTime", at)?;
        }
        let namespace = running.call.namespace();
        let as_of = at.or(concern.after_cluster_time.map(OrderedTimestamp::from));
        if arguments.starts
            && as_of
                .is_some_and(|as_of| state.awaits_decision(self.index, namespace.as_ref(), as_of))
        {
            return Ok(false);
        }
        state.enter_transaction(self.index, session, arguments, at, now)?;
        Ok(true)
    }

    fn write_in_transaction(
        &self,
        state: &mut State,
        running: &RunningCommand<'_>,
        session: &SessionId,
        write: WriteHandler,
        now: Instant,
    ) -> Result<Document, Fault> {
        let env = self.environment(state, now);
        let member = state.member_mut(self.index);
        let Some(mut transaction) = member.take_transaction(session) else {
            return Err(aborted(running.call.transaction.map_or(-1, |it| it.number)));
        };
        let mut changes = InTransaction { transaction: &mut transaction, member };
        let outcome = write(&mut WriteContext {
            call: running.call,
            env: &env,
            changes: &mut changes,
            seen: None,
            progress: &mut BatchProgress::default(),
            cursors: &self.cursors,
            server_info: &self.server_info,
        });
        member.put_transaction(session, transaction);
        let outcome = match outcome {
            Ok(reply) if has_conflict(&reply) => Err(write_conflict()),
            other => other,
        };
        if outcome.as_ref().map_or(true, has_failed) {
            member.end_transaction(session);
        }
        outcome
    }

    /// Runs `commitTransaction` or `abortTransaction`.
    pub(super) async fn run_end(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let call = running.call;
        checks::check_transaction_end(call)?;
        let (session, arguments) = self.session_and_arguments(running)?;
        let commits = call.name == "commitTransaction";
        let is_set = self.server_info.set_name.is_some();
        if !is_set {
            return Err(checks::no_retryable_writes().into());
        }
        let (at, epoch) = self.shared.change(|state, now| {
            self.check_runs(state, running)?;
            self.check_primary(state)?;
            if let (true, Some(write_fail_point)) = (commits, &call.write_fail_point)
                && state.member(self.index).transaction(session).is_some()
            {
                write_fail_point.step()?;
            }
            let at = self.end(state, session, arguments.number, commits, now)?;
            Ok::<_, Fault>((at, state.member(self.index).epoch()))
        })?;
        self.cursors().kill_transaction(session, arguments.number);
        let concern = self.await_write_concern(running, at, &call.write_concern, epoch).await;
        Ok(CommandOutcome { reply: Document::new(), concern, at: Some(at) })
    }

    fn end(
        &self,
        state: &mut State,
        session: &SessionId,
        number: i64,
        commits: bool,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        if commits {
            let at = state.commit_transaction(self.index, session, number, now)?;
            state.replicate(now);
            Ok(at)
        } else {
            state.abort_transaction(self.index, session, number)?;
            Ok(state.member(self.index).last())
        }
    }
}

/// Returns `true` if a statement failed, which aborts the transaction.
fn has_failed(reply: &Document) -> bool {
    reply.contains_key("writeErrors") || reply.get_i32("nErrors").is_ok_and(|errors| errors > 0)
}

/// Returns `true` for a write conflict, which is an error of the whole command in a transaction.
fn has_conflict(reply: &Document) -> bool {
    reply.get_array("writeErrors").is_ok_and(|errors| {
        errors.iter().filter_map(bson::Bson::as_document).any(|error| {
            error.get_i32("code").is_ok_and(|code| code == Code::WRITE_CONFLICT.number)
        })
    })
}
