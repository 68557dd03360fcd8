//! Execution of one command, with retries. From top to bottom: the loop, an attempt, its reply, its
//! failure, the end.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use steadfast_core::{
    description::ServerDescription,
    retry::{
        AttemptPhase, CommandFacts, CommandKind, ErrorLabels, GiveUp, NextStep, Retry,
        RetryVerdict, ServerFacts, TxnNumber,
    },
    selection,
    transaction::TransactionPosition,
};

use super::{
    attempts::{Attempts, CurrentAttempt, WriteFailureSummary, failure},
    context::{self, ReplyStatus, SessionFields},
    event_guard::CommandEventGuard,
    raw,
    transaction::TransactionContext,
};
use crate::{
    command::{Command, Reply},
    connection::{Connection, Outgoing},
    deadline::{Clock, Deadline, now},
    error::{
        CommandError, Error, ErrorKind, RETRYABLE_WRITE_ERROR, Result, TimeSpent,
        command_error::write_concern_failure,
    },
    event::retry::{OverloadGivenUpEvent, RetryEvent, RetryScheduledEvent},
    exec::Executor,
    pin::PinnedServer,
    pool::{Pool, PooledConnection},
    sequence::{DocumentSequence, DocumentSequenceRef},
    session::{self, Session},
    topology::{SelectedServer, Server},
    trace,
};

/// Reply that the operation reads after an unacknowledged write.
static UNACKNOWLEDGED_REPLY: &[u8] = b"\x0d\0\0\0\x10ok\0\x01\0\0\0\0";

/// Command in execution.
pub(super) struct Execution<'c> {
    executor: &'c Executor,
    operation_id: i64,
    command: Box<Command>,
    /// Borrowed document sequence, if the command has none of its own.
    borrowed: Option<&'c DocumentSequenceRef<'c>>,
    retry: Retry,
    attempts: Attempts,
    /// Position in the transaction of the session.
    transaction: TransactionContext,
    /// Session of all attempts, once it is chosen.
    session: Option<Arc<Session>>,
    /// Transaction number (`txnNumber`) of all attempts, once it is assigned.
    txn_number: Option<i64>,
    /// Deadline of the call.
    deadline: Option<Deadline>,
    /// Time spent in each phase, if there is a deadline.
    spent: TimeSpent,
    /// `true` if the remaining time was too short for an attempt.
    deadline_exceeded: bool,
    /// Backoff before the current attempt.
    backoff: Duration,
}

/// Result of an attempt: the result of the command, or the backoff before the next attempt.
type AttemptEnd = ControlFlow<Result<Reply>, Duration>;

/// Reason for which a request was not sent.
enum PrepareError {
    /// The request is invalid.
    Invalid(Error),
    /// The deadline is too close.
    TooLate(GiveUp),
}

impl From<Error> for PrepareError {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}

impl<'c> Execution<'c> {
    /// Boxed, so that the futures of the callers stay small.
    pub(super) fn new(
        executor: &'c Executor,
        operation_id: i64,
        mut command: Box<Command>,
        borrowed: Option<&'c DocumentSequenceRef<'c>>,
        transaction: TransactionContext,
    ) -> Box<Self> {
        let deadline = command.start_clock();
        let operation = command_facts(&command, borrowed, &transaction);
        let retry = Retry::new(executor.retry_settings(), operation, executor.retry_budget());
        Box::new(Self {
            executor,
            operation_id,
            deadline,
            spent: command.spent,
            deadline_exceeded: false,
            backoff: Duration::ZERO,
            retry: transaction.resume(retry),
            attempts: Attempts::default(),
            session: command.session.clone(),
            txn_number: transaction.number(),
            transaction,
            command,
            borrowed,
        })
    }

    pub(super) async fn run(mut self: Box<Self>) -> Result<Reply> {
        loop {
            let wait = match self.attempt().await {
                AttemptEnd::Continue(wait) => wait,
                AttemptEnd::Break(outcome) => {
                    self.transaction.end(&self.retry, outcome.is_ok());
                    return self.finish(outcome);
                }
            };
            self.back_off(wait).await;
        }
    }

    /// Runs one attempt: server selection, connection checkout, request and reply.
    async fn attempt(&mut self) -> AttemptEnd {
        let began = now();
        let until = self.executor.topology().selection_deadline(self.deadline, began);
        let pin = self.transaction.begin_attempt(&self.command.target);
        let pinned = pin.as_ref().and_then(|pin| pin.connection.take());
        let selected = match pin.as_ref().filter(|_| pinned.is_some()) {
            Some(PinnedServer { server, .. }) => {
                SelectedServer { server: Arc::clone(server), view: self.executor.topology().view() }
            }
            None => match self.select(pin.as_ref(), until).await {
                Ok(selected) => selected,
                Err(error) => return self.selection_failed(error),
            },
        };
        let SelectedServer { server, .. } = &selected;
        let description = selected.description();
        if let Some(description) = description
            && let Err(give_up) =
                self.retry.server_selected(ServerFacts::new(&server.address, description))
        {
            return self.give_up(give_up);
        }
        let mut current = CurrentAttempt::new(began, self.backoff, server, pin);
        let _counted = server.begin_operation();
        let checked_out = match pinned {
            Some(pinned) => pinned,
            None => self.check_out(&server.pool, until).await,
        };
        let mut connection = match checked_out {
            Ok(connection) => connection,
            Err(error) => return self.record_failure(current, error, AttemptPhase::BeforeSend),
        };
        current.connection = Some(connection.id);
        self.transaction.pin(
            &mut current.pin,
            server,
            description,
            self.executor.is_load_balanced(),
        );
        let (request_id, guard) = match self.prepare(&selected, description, &mut connection) {
            Ok(prepared) => prepared,
            Err(unsent) => return self.not_sent(current, unsent, connection),
        };
        current.request_id = Some(request_id);
        let received = self.exchange(&mut connection, request_id).await;
        self.received(current, received, server, connection, guard)
    }

    /// Selects a server. A pinned command selects its pinned server.
    async fn select(
        &mut self,
        pin: Option<&PinnedServer>,
        until: Option<Instant>,
    ) -> Result<SelectedServer> {
        if let (Some(selected), None) = (self.command.selected.take(), pin) {
            return Ok(selected);
        }
        let operation = trace::Operation { name: &self.command.name, id: self.operation_id };
        let target = match pin {
            Some(pin) => selection::SelectionTarget::Server(&pin.server.address),
            None => self.command.target.for_selection(),
        };
        let start = self.phase_start();
        let avoided = self.retry.deprioritized();
        let selected = self.executor.topology().select(target, avoided, operation, until).await;
        self.spent.selecting += elapsed(start);
        selected
    }

    async fn check_out(
        &mut self,
        pool: &Arc<Pool>,
        until: Option<Instant>,
    ) -> Result<PooledConnection> {
        let start = self.phase_start();
        let connection = pool.check_out(until).await;
        let opening = match &connection {
            _ if start.is_none() => false,
            Ok(connection) => connection.is_new(),
            Err(_) => pool.counts().pending > 0,
        };
        let spent = &mut self.spent;
        *if opening { &mut spent.connecting } else { &mut spent.checking_out } += elapsed(start);
        connection
    }

    /// Returns the start of a phase, if the call has a deadline.
    fn phase_start(&self) -> Option<Instant> {
        self.deadline.map(|_| now())
    }

    /// Sends the prepared request and waits for the reply.
    async fn exchange(
        &mut self,
        connection: &mut PooledConnection,
        request_id: i32,
    ) -> Result<Bytes> {
        let start = self.phase_start();
        let acknowledged = self.command.acknowledged;
        let sequence = document_sequence(&self.command, self.borrowed);
        let received = match self.deadline {
            None => connection.exchange(request_id, acknowledged, sequence.as_ref()).await,
            Some(deadline) => {
                connection.exchange_by(deadline, request_id, acknowledged, sequence.as_ref()).await
            }
        };
        self.spent.waiting += elapsed(start);
        received
    }

    /// Ends an attempt whose request was not sent: it is invalid, or the deadline is too close.
    fn not_sent(
        &mut self,
        current: CurrentAttempt<'_>,
        unsent: PrepareError,
        connection: PooledConnection,
    ) -> AttemptEnd {
        current.put_back(connection);
        match unsent {
            PrepareError::TooLate(give_up) => self.give_up(give_up),
            PrepareError::Invalid(error) => {
                self.record_failure(current, error, AttemptPhase::BeforeSend)
            }
        }
    }

    /// Writes the request into the send buffer and emits the command started event.
    fn prepare(
        &mut self,
        selected: &SelectedServer,
        description: Option<&ServerDescription>,
        connection: &mut PooledConnection,
    ) -> std::result::Result<(i32, CommandEventGuard), PrepareError> {
        let now = now();
        self.begin_session(connection, now)?;
        match self.retry.begin_send(now).map_err(PrepareError::TooLate)? {
            TxnNumber::Omit | TxnNumber::Reuse => {}
            TxnNumber::Assign => {
                let session = self.session.as_ref();
                self.txn_number = session.map(|session| session.next_txn_number()).transpose()?;
            }
        }
        let Self { executor, command, borrowed, transaction, .. } = self;
        let round_trip = description.and_then(|server| server.min_round_trip_time);
        let max_time = command.max_time.millis(self.deadline, round_trip).map_err(Error::from)?;
        let session = self.session.as_deref();
        let context =
            SessionFields::of(executor, command, session, transaction.position(), connection)?;
        let outgoing = Outgoing {
            name: &command.name,
            database: &command.database,
            body: context.body.as_ref().unwrap_or(&command.body),
            sequence: document_sequence(command, *borrowed),
            // The specification: no `$readPreference` in a transaction, which runs on the primary.
            read_preference: match transaction.position().is_inside() {
                true => None,
                false => command.target.read_preference(&selected.view.description, description),
            },
            lsid: context.lsid.as_ref().map(|lsid| &***lsid),
            txn_number: self.txn_number,
            max_time,
            in_transaction: transaction.number().is_some(),
            starts_transaction: transaction.position() == TransactionPosition::First,
            cluster_time: context.cluster_time.as_deref().map(|time| &**time.document()),
            server_api: executor.server_api(),
            acknowledged: command.acknowledged,
            exhaust_allowed: false,
        };
        let request_id = connection.prepare(&outgoing)?;
        check_sizes(connection, &outgoing)?;
        transaction.begin_send()?;
        let guard = CommandEventGuard::start(
            executor,
            &outgoing,
            connection,
            request_id,
            self.operation_id,
        );
        if let Some(session) = session {
            session.begin_command(now);
        }
        Ok((request_id, guard))
    }

    /// Chooses the session: an explicit one, or else an implicit one if the server supports
    /// sessions. Called after connection checkout, so that operations that wait for a connection
    /// hold no session.
    fn begin_session(&mut self, connection: &PooledConnection, now: Instant) -> Result<()> {
        let lifetime = connection.hello.logical_session_timeout;
        let supported = lifetime.is_some() || self.executor.is_load_balanced();
        match &self.session {
            Some(_) if !self.command.acknowledged => Err(session::unacknowledged()),
            Some(_) if !supported => Err(Error::new(ErrorKind::SessionsNotSupported)),
            Some(_) => Ok(()),
            // pitfall 19
            None if !supported => {
                self.retry.sessions_unsupported();
                Ok(())
            }
            None if !self.command.acknowledged => Ok(()),
            None => {
                let session =
                    self.executor.sessions().begin(lifetime, session::SessionKind::Implicit, now);
                self.session = Some(Arc::new(session));
                Ok(())
            }
        }
    }

    /// Processes the result of the exchange.
    fn received(
        &mut self,
        current: CurrentAttempt<'_>,
        received: Result<Bytes>,
        server: &Arc<Server>,
        connection: PooledConnection,
        guard: CommandEventGuard,
    ) -> AttemptEnd {
        let (session, number) = (self.session.as_deref(), self.transaction.number());
        let status = context::process_reply(&received, self.executor.sessions(), session, number);
        let outcome = received.and_then(|body| accept(body, self.command.acknowledged, status));
        let outcome = outcome.map_err(|error| {
            error
                .with_server(&connection.address)
                .with_wire_version(connection.hello.max_wire_version)
        });
        guard.finish(outcome.as_deref());
        match outcome {
            Ok(body) if status.has_write_failures => {
                self.attempt_partially_failed(current, body, server, connection)
            }
            Ok(body) => {
                let reply = self.reply(&current, body, server, connection);
                self.retry.succeeded();
                AttemptEnd::Break(Ok(reply))
            }
            Err(error) => self.attempt_failed(current, error, connection),
        }
    }

    /// Converts the body into the reply for the operation. The connection is checked in, or stays
    /// pinned.
    fn reply(
        &self,
        current: &CurrentAttempt<'_>,
        body: Bytes,
        server: &Arc<Server>,
        connection: PooledConnection,
    ) -> Reply {
        let mut reply = Reply::new(body, Arc::clone(server));
        reply.session.clone_from(&self.session);
        reply.transaction = self.transaction.number();
        let keep_pinned = self.executor.is_load_balanced() && has_open_cursor(reply.body());
        let pin = current.pin.as_ref().map(|pin| pin.connection.clone()).unwrap_or_default();
        reply.pinned = pin.keep(connection, keep_pinned);
        reply
    }

    /// Ends an attempt whose reply has `ok: 1`, but reports write errors or a write concern error.
    fn attempt_partially_failed(
        &mut self,
        current: CurrentAttempt<'_>,
        body: Bytes,
        server: &Arc<Server>,
        connection: PooledConnection,
    ) -> AttemptEnd {
        if let Some(failure) = write_concern_failure(raw(&body)) {
            let topology = self.executor.topology();
            topology.write_concern_failed(&connection, connection.generation(), failure);
        }
        let mut reply = self.reply(&current, body, server, connection);
        let Some(summary) = WriteFailureSummary::of(reply.body()) else {
            self.retry.succeeded();
            return AttemptEnd::Break(Ok(reply));
        };
        let failure = summary.failure();
        let verdict = self.retry.on_failure(&failure, now(), self.executor.jitter());
        let labels = failure.labels;
        reply.labelled_retryable = verdict.add_retryable_write_label;
        reply.transaction_label = self.transaction.attempt_failed(&failure, &self.retry, &verdict);
        self.attempts.add_reply(current, reply, self.retry.raised_attempt());
        self.conclude(verdict, labels)
    }

    /// Ends an attempt with an error reply or a broken connection.
    fn attempt_failed(
        &mut self,
        current: CurrentAttempt<'_>,
        error: Error,
        connection: PooledConnection,
    ) -> AttemptEnd {
        // The topology processes the error before the connection is checked in (pitfall 25).
        let topology = self.executor.topology();
        if !error.is_deadline_exceeded() {
            topology.operation_failed(&connection, connection.generation(), &error);
        }
        // After an error reply the connection stays usable, also for `killCursors`.
        if !error.is_network_error() {
            current.put_back(connection);
        }
        self.record_failure(current, error, AttemptPhase::Sent)
    }

    fn record_failure(
        &mut self,
        current: CurrentAttempt<'_>,
        mut error: Error,
        phase: AttemptPhase,
    ) -> AttemptEnd {
        self.deadline_exceeded |= error.is_deadline_exceeded();
        let failure = failure(&error, phase);
        let verdict = self.retry.on_failure(&failure, now(), self.executor.jitter());
        let label = self.transaction.attempt_failed(&failure, &self.retry, &verdict);
        let labels = failure.labels;
        if verdict.add_retryable_write_label {
            error.add_label(RETRYABLE_WRITE_ERROR);
        }
        if let Some(label) = label {
            error.add_label(label);
        }
        self.attempts.add_error(current, error, self.retry.raised_attempt());
        self.conclude(verdict, labels)
    }

    /// Follows the verdict of the retry machine.
    fn conclude(&mut self, verdict: RetryVerdict, labels: ErrorLabels) -> AttemptEnd {
        let overloaded = labels.retryable || labels.system_overloaded;
        if overloaded {
            self.executor.counters().count_overload();
        }
        match verdict.next {
            NextStep::Retry { wait } => {
                self.report_retry(wait, overloaded);
                AttemptEnd::Continue(wait)
            }
            NextStep::GiveUp(give_up) => {
                if overloaded {
                    self.report_giving_up(verdict.budget_exhausted);
                }
                self.give_up(give_up)
            }
        }
    }

    fn give_up(&mut self, give_up: GiveUp) -> AttemptEnd {
        AttemptEnd::Break(std::mem::take(&mut self.attempts).raise(give_up, None))
    }

    /// Gives up because no server could be selected. The label of the transaction is added to the error that
    /// is raised, also if that is the error of an earlier attempt.
    fn selection_failed(&mut self, error: Error) -> AttemptEnd {
        let give_up = self.retry.no_server();
        let label = self.transaction.selection_failed();
        let mut raised = std::mem::take(&mut self.attempts).raise(give_up, Some(error));
        if let Some(label) = label {
            match &mut raised {
                Ok(reply) => reply.transaction_label = Some(label),
                Err(error) => error.add_label(label),
            }
        }
        AttemptEnd::Break(raised)
    }

    /// Waits for the backoff.
    async fn back_off(&mut self, wait: Duration) {
        self.backoff = wait;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
            self.spent.backing_off += wait;
            self.executor.counters().count_backoff(wait);
        }
    }

    /// Returns the result for the caller. If the deadline has passed, the error becomes a time-out.
    fn finish(&self, outcome: Result<Reply>) -> Result<Reply> {
        let Some(deadline) = self.deadline else { return outcome };
        let error = match outcome {
            Ok(mut reply) => {
                reply.clock = Some(Clock { deadline, spent: self.spent });
                return Ok(reply);
            }
            Err(error) if self.deadline_exceeded => deadline.exceeded(error, self.spent),
            Err(error) => deadline.or_exceeded(error, self.spent),
        };
        if error.is_timeout() {
            self.executor.counters().count_timeout();
        }
        Err(error)
    }

    fn report_retry(&self, backoff: Duration, overloaded: bool) {
        self.executor.counters().count_retry(overloaded);
        let failed_attempts = self.retry.failed_attempts();
        let tokens_left = self.executor.retry_budget().tokens_left();
        trace::retrying(self.trace(), failed_attempts, backoff, tokens_left, || {
            self.attempts.latest()
        });
        self.executor.emit_retry_event(|| {
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

    fn report_giving_up(&self, budget_exhausted: bool) {
        if budget_exhausted {
            self.executor.counters().count_budget_exhausted();
        }
        let failed_attempts = self.retry.failed_attempts();
        let tokens_left = self.executor.retry_budget().tokens_left();
        trace::overload_given_up(
            self.trace(),
            failed_attempts,
            budget_exhausted,
            tokens_left,
            || self.attempts.latest(),
        );
        self.executor.emit_retry_event(|| {
            RetryEvent::GivenUp(OverloadGivenUpEvent {
                command_name: self.command.name.to_string(),
                operation_id: self.operation_id,
                server: self.attempts.latest_server().cloned(),
                failed_attempts,
                reason: self.attempts.latest(),
                budget_exhausted,
                tokens_left,
            })
        });
    }

    fn trace(&self) -> (bson::oid::ObjectId, trace::Operation<'_>) {
        let operation = trace::Operation { name: &self.command.name, id: self.operation_id };
        (self.executor.topology().id(), operation)
    }
}

fn accept(body: Bytes, acknowledged: bool, status: ReplyStatus) -> Result<Bytes> {
    if !acknowledged {
        return Ok(Bytes::from_static(UNACKNOWLEDGED_REPLY));
    }
    if status.succeeded {
        return Ok(body);
    }
    match CommandError::from_reply(raw(&body)) {
        None => Ok(body),
        Some(error) => Err(error),
    }
}

fn has_open_cursor(reply: &bson::RawDocument) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| cursor.get_i64("id").is_ok_and(|id| id != 0))
}

/// Returns the document sequence of the command: the borrowed one, or its own.
fn document_sequence<'a>(
    command: &'a Command,
    borrowed: Option<&DocumentSequenceRef<'a>>,
) -> Option<DocumentSequenceRef<'a>> {
    borrowed.cloned().or_else(|| command.sequence.as_ref().map(DocumentSequence::as_sequence_ref))
}

/// Returns the facts about the command that decide on a retry.
fn command_facts(
    command: &Command,
    borrowed: Option<&DocumentSequenceRef<'_>>,
    transaction: &TransactionContext,
) -> CommandFacts {
    let mut operation = CommandFacts::new(command.kind);
    operation.in_transaction = transaction.number().is_some();
    operation.acknowledged = command.acknowledged;
    operation.deadline =
        command.deadline.map(|deadline| deadline.at().unwrap_or_else(distant_deadline));
    // Without a transaction number, one statement may affect many documents (`update_many`).
    operation.single_document = command.kind == CommandKind::RetryableWrite
        && document_sequence(command, borrowed)
            .is_none_or(|sequence| sequence.documents.is_single());
    operation
}

/// Returns the deadline of a call with `timeoutMS: 0`: retryable errors are retried without limit.
fn distant_deadline() -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    now() + YEAR
}

fn elapsed(since: Option<Instant>) -> Duration {
    since.map_or(Duration::ZERO, |since| now().saturating_duration_since(since))
}

/// Returns an error for a message that exceeds `maxMessageSizeBytes`, at which the server would
/// close the connection, and for a document of an unacknowledged write that exceeds
/// `maxBsonObjectSize`, because no error reply would report it.
fn check_sizes(connection: &Connection, outgoing: &Outgoing<'_>) -> Result<()> {
    let limit = |limit: Option<i32>| limit.and_then(|limit| usize::try_from(limit).ok());
    let size = connection.prepared_size();
    if let Some(limit) = limit(connection.hello.max_message_size_bytes)
        && size > limit
    {
        return Err(Error::invalid_argument(format!(
            "the message is {size} bytes long, but the server accepts at most {limit}"
        )));
    }
    // The documents of a client bulk write were measured when its batches were built.
    let measured = |sequence: &&DocumentSequenceRef<'_>| sequence.ns_info.is_some();
    let unacknowledged =
        outgoing.sequence.as_ref().filter(|it| !outgoing.acknowledged && !measured(it));
    if let (Some(sequence), Some(limit)) =
        (unacknowledged, limit(connection.hello.max_bson_object_size))
    {
        let mut largest = 0;
        sequence.documents.for_each(|it| largest = largest.max(it.as_bytes().len()))?;
        if largest > limit {
            return Err(Error::invalid_argument(format!(
                "a document is {largest} bytes long, but the server accepts at most {limit}"
            )));
        }
    }
    Ok(())
}
