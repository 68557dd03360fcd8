//! Execution of transaction statements, and of commit and abort.

use bson::Document;
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{Done, Failed, Node, Running, checks, wait::time_is_over, write::Write};
use crate::{
    call::TransactionArguments,
    change::Progress,
    command::{Reading, Run, Writing},
    log::{OpTime, SessionId, TimestampOrder},
    session::aborted,
    set::State,
    transaction::{InTransaction, write_conflict},
};

impl Node {
    /// Runs a statement of a transaction. An error aborts the transaction.
    pub(super) async fn run_in_transaction(
        &self,
        running: &Running<'_>,
        run: Run,
    ) -> Result<Done, Failed> {
        let (session, arguments) = self.membership(running)?;
        let outcome = match run {
            Run::Write(write) => {
                self.entered(running, session, arguments, |state, now| {
                    self.write_in_transaction(state, running, session, write, now)
                })
                .await
            }
            Run::Read(read) => {
                let (sight, env) = self
                    .entered(running, session, arguments, |state, now| {
                        let transaction = state.member(self.index).transaction(session);
                        let transaction = transaction.ok_or_else(|| aborted(arguments.number))?;
                        let sight = state.plain_sight(self.index, transaction.store());
                        Ok((sight, self.environment(state, now)))
                    })
                    .await?;
                let outcome = read(&Reading {
                    call: running.call,
                    env: &env,
                    store: &sight.store,
                    history: &sight.history,
                    cursors: &self.cursors,
                    about: &self.about,
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
    pub(super) fn membership<'a>(
        &self,
        running: &'a Running<'_>,
    ) -> Result<(&'a SessionId, TransactionArguments), Fault> {
        let call = running.call;
        call.session.as_ref().zip(call.transaction.filter(|it| it.several)).ok_or_else(|| {
            Fault::new(
                Code::named(125, "CommandFailed"),
                format!("{} must be run within a transaction", call.name),
            )
        })
    }

    /// Enters the transaction as soon as that is possible, and runs a function in it.
    async fn entered<T>(
        &self,
        running: &Running<'_>,
        session: &SessionId,
        arguments: TransactionArguments,
        mut act: impl FnMut(&mut State, Instant) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let acted = self
            .until(running.deadline, |state, now| {
                match self.enter(state, running, session, arguments, now) {
                    Ok(true) => {
                        state.note_change();
                        Some(act(state, now))
                    }
                    Ok(false) => None,
                    Err(fault) => Some(Err(fault)),
                }
            })
            .await;
        acted.unwrap_or_else(|| Err(time_is_over()))
    }

    /// Starts or continues the transaction. Returns `false` if a prepared transaction is in the
    /// way.
    fn enter(
        &self,
        state: &mut State,
        running: &Running<'_>,
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
        if let Some(after) = concern.after_cluster_time.map(TimestampOrder::from) {
            state.check_not_ahead(self.index, "afterClusterTime", after)?;
            state.reach_time(self.index, after, now);
        }
        let at = concern.at_cluster_time.map(TimestampOrder::from);
        if let Some(at) = at {
            state.check_not_ahead(self.index, "atClusterTime", at)?;
        }
        let namespace = running.call.namespace();
        let as_of = at.or(concern.after_cluster_time.map(TimestampOrder::from));
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
        running: &Running<'_>,
        session: &SessionId,
        write: Write,
        now: Instant,
    ) -> Result<Document, Fault> {
        let env = self.environment(state, now);
        let member = state.member_mut(self.index);
        let Some(mut transaction) = member.take_transaction(session) else {
            return Err(aborted(running.call.transaction.map_or(-1, |it| it.number)));
        };
        let mut changes = InTransaction { transaction: &mut transaction, member };
        let outcome = write(&mut Writing {
            call: running.call,
            env: &env,
            changes: &mut changes,
            seen: None,
            progress: &mut Progress::default(),
            cursors: &self.cursors,
            about: &self.about,
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
    pub(super) async fn run_end(&self, running: &Running<'_>) -> Result<Done, Failed> {
        let call = running.call;
        checks::check_end(call)?;
        let (session, arguments) = self.membership(running)?;
        let commits = call.name == "commitTransaction";
        let is_set = self.about.set_name.is_some();
        if !is_set {
            return Err(checks::no_numbers().into());
        }
        let (at, identity) = self.shared.change(|state, now| {
            self.check_runs(state, running)?;
            self.check_primary(state)?;
            if let (true, Some(trap)) = (commits, &call.trap)
                && state.member(self.index).transaction(session).is_some()
            {
                trap.step()?;
            }
            let at = self.end(state, session, arguments.number, commits, now)?;
            Ok::<_, Fault>((at, state.member(self.index).identity()))
        })?;
        self.cursors().kill_transaction(session, arguments.number);
        let concern = self.acknowledged(running, at, &call.write_concern, identity).await;
        Ok(Done { reply: Document::new(), concern, at: Some(at) })
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
