//! The loop that tries a command until it succeeds or is given up.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use bytes::Bytes;
use steadfast_core::{
    retry::{GiveUp, Kind, Next, Operation, Phase, Retry, ServerFacts, TransactionId, Verdict},
    selection,
    transaction::Part,
};

use super::{
    attempts::{Attempts, Blemish, Current, failure},
    context::{self, Context},
    membership::Membership,
    raw,
    watch::Watch,
};
use crate::{
    Client,
    command::{Command, Reply},
    connection::{Connection, Outgoing},
    cursor::Home,
    error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR, Result},
    pool::PooledConnection,
    refusal::{refusal, write_concern_failure},
    session::{self, Session},
    topology::Selected,
    trace,
};

/// The reply that stands for the one that an unacknowledged write does not get.
static UNANSWERED: &[u8] = b"\x0d\0\0\0\x10ok\0\x01\0\0\0\0";

/// A command on its way.
pub(super) struct Execution<'c> {
    client: &'c Client,
    operation_id: i64,
    command: Command,
    retry: Retry,
    attempts: Attempts,
    /// What it is to the transaction of its session.
    membership: Membership,
    /// The session it runs in, once there is one; the same for all attempts.
    session: Option<Arc<Session>>,
    /// The number that names the write, once it has one; the same for all attempts.
    txn_number: Option<i64>,
}

/// How an attempt ended: with the command's success, or its failure for good; or it goes on, to be
/// tried again.
type Ended = ControlFlow<Result<Reply>>;

/// Why a request was not sent.
enum Unsent {
    /// It could not be made.
    Error(Error),
    /// It is too late to send it.
    TooLate(GiveUp),
}

impl From<Error> for Unsent {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl<'c> Execution<'c> {
    pub(super) fn new(client: &'c Client, operation_id: i64, command: Command) -> Self {
        let membership = Membership::of(&command);
        let operation = for_retrying(&command, &membership);
        let retry = Retry::new(client.retry_settings(), operation);
        Self {
            client,
            operation_id,
            retry: membership.resume(retry),
            attempts: Attempts::default(),
            session: command.session.clone(),
            txn_number: membership.number(),
            membership,
            command,
        }
    }

    pub(super) async fn run(mut self) -> Result<Reply> {
        loop {
            match self.attempt().await {
                Ended::Break(outcome) => {
                    self.membership.end(&self.retry, outcome.is_ok());
                    return outcome;
                }
                Ended::Continue(()) => {}
            }
        }
    }

    /// Tries the command once: a server, a connection, a request, a reply.
    async fn attempt(&mut self) -> Ended {
        let began = Instant::now();
        let home = self.membership.begin_attempt(&self.command.target);
        let pinned = home.as_ref().and_then(|home| Some((&home.server, home.connection.take()?)));
        let selected = match &pinned {
            Some((server, _)) => {
                Selected { server: Arc::clone(server), view: self.client.topology().view() }
            }
            None => match self.select(home.as_ref()).await {
                Ok(selected) => selected,
                Err(error) => {
                    let error = self.membership.without_server(error);
                    return self.give_up(self.retry.no_server(), Some(error));
                }
            },
        };
        let pinned = pinned.map(|(_, connection)| connection);
        if let Some(server) = selected.description()
            && let Err(give_up) = self.retry.server_selected(ServerFacts::from(server))
        {
            return self.give_up(give_up, None);
        }
        let mut current = Current::new(began, &selected.server, home);
        let _counted = Arc::clone(&selected.server).begin_operation();
        let connection = match pinned {
            Some(connection) => connection,
            None => selected.server.pool.check_out().await,
        };
        let connection = match connection {
            Ok(connection) => connection,
            Err(error) => return self.failed(current, error, Phase::BeforeSending),
        };
        current.connection = Some(connection.id);
        self.membership.pin(&mut current.home, &selected, self.client.is_load_balanced());
        self.exchange(current, &selected, connection).await
    }

    /// A server that will do; if the command is bound to one, that one.
    async fn select(&mut self, home: Option<&Home>) -> Result<Selected> {
        if let (Some(selected), None) = (self.command.selected.take(), home) {
            return Ok(selected);
        }
        let operation = trace::Operation { name: &self.command.name, id: self.operation_id };
        let target = match home {
            Some(home) => selection::Target::Server(&home.server.address),
            None => self.command.target.for_selection(),
        };
        self.client.topology().select(target, self.retry.deprioritised(), operation).await
    }

    /// Sends the command through a connection, and takes in what comes back.
    async fn exchange(
        &mut self,
        mut current: Current,
        selected: &Selected,
        mut connection: PooledConnection,
    ) -> Ended {
        let (request_id, watch) = match self.prepare(selected, &mut connection) {
            Ok(prepared) => prepared,
            Err(unsent) => {
                current.put_back(connection);
                return match unsent {
                    Unsent::TooLate(give_up) => self.give_up(give_up, None),
                    Unsent::Error(error) => self.failed(current, error, Phase::BeforeSending),
                };
            }
        };
        current.request_id = Some(request_id);
        let acknowledged = self.command.acknowledged;
        if let Some(session) = &self.session {
            session.sending();
        }
        self.membership.sending();
        let received = connection.exchange(request_id, acknowledged).await;
        context::hear(&received, self.client.sessions(), self.session.as_deref());
        let outcome = received.and_then(|body| accept(body, acknowledged));
        let outcome = outcome.map_err(|error| error.with_server(&connection.address));
        watch.finish(outcome.as_ref().map(|body| raw(body)));
        match outcome {
            Ok(body) => self.answered(current, body, selected, connection),
            Err(error) => self.refused(current, error, connection),
        }
    }

    /// Writes the request into the connection's buffer, and tells that it is about to be sent.
    fn prepare(
        &mut self,
        selected: &Selected,
        connection: &mut PooledConnection,
    ) -> std::result::Result<(i32, Watch), Unsent> {
        self.begin_session(connection)?;
        match self.retry.begin_sending(Instant::now()).map_err(Unsent::TooLate)? {
            TransactionId::None | TransactionId::Same => {}
            TransactionId::New => {
                let session = self.session.as_ref();
                self.txn_number = session.map(|session| session.next_txn_number()).transpose()?;
            }
        }
        let Self { client, command, membership, .. } = self;
        let session = self.session.as_deref();
        let context = Context::of(client, command, session, membership.part(), connection)?;
        let outgoing = Outgoing {
            name: &command.name,
            database: &command.database,
            body: context.body.as_ref().unwrap_or(&command.body),
            sequence: command.sequence.as_ref(),
            // In a transaction it is the primary, which nobody needs to be told.
            read_preference: match membership.part().is_inside() {
                true => None,
                false => command.target.read_preference(selected),
            },
            lsid: context.lsid.as_deref(),
            txn_number: self.txn_number,
            in_transaction: membership.number().is_some(),
            starts_transaction: membership.part() == Part::First,
            cluster_time: context.cluster_time.as_deref().map(|time| &**time.document()),
            server_api: client.server_api(),
            acknowledged: command.acknowledged,
            exhaust_allowed: false,
        };
        let request_id = connection.prepare(&outgoing)?;
        check_sizes(connection, command)?;
        let watch = Watch::start(client, &outgoing, connection, request_id, self.operation_id);
        Ok((request_id, watch))
    }

    /// The session that the command runs in: the one it was given, else one of its own if the
    /// server has sessions. Chosen only now that a connection is there, so that operations that
    /// wait for one do not each hold a session.
    fn begin_session(&mut self, connection: &PooledConnection) -> Result<()> {
        let lifetime = connection.hello.logical_session_timeout;
        let supported = lifetime.is_some() || self.client.is_load_balanced();
        match &self.session {
            Some(_) if !self.command.acknowledged => Err(session::unacknowledged()),
            Some(_) if !supported => Err(Error::new(ErrorKind::SessionsNotSupported)),
            Some(_) => Ok(()),
            // pitfall 19
            None if !self.command.acknowledged || !supported => Ok(()),
            None => {
                let session = self.client.sessions().begin(lifetime, session::Kind::Implicit);
                self.session = Some(Arc::new(session));
                Ok(())
            }
        }
    }

    /// The server answered, and did not refuse the command as a whole.
    fn answered(
        &mut self,
        current: Current,
        body: Bytes,
        selected: &Selected,
        connection: PooledConnection,
    ) -> Ended {
        if let Some(failure) = write_concern_failure(raw(&body)) {
            let topology = connection.pool().topology();
            topology.write_concern_failed(&connection, connection.generation(), failure);
        }
        let blemish = Blemish::of(raw(&body));
        let mut reply = Reply::new(body, Arc::clone(&selected.server));
        reply.session.clone_from(&self.session);
        reply.transaction = self.membership.number();
        let keeps = self.client.is_load_balanced() && has_open_cursor(reply.body());
        let home = current.home.as_ref().map(|home| home.connection.clone()).unwrap_or_default();
        reply.pinned = home.keep(connection, keeps);
        let Some(blemish) = blemish else { return Ended::Break(Ok(reply)) };
        let failure = blemish.failure();
        let verdict = self.retry.on_failure(&failure, Instant::now());
        reply.labelled_retryable = verdict.add_retryable_write_label;
        reply.transaction_label = self.membership.fail(&failure, reply.labelled_retryable);
        self.attempts.add_reply(current, reply);
        self.conclude(verdict)
    }

    /// The server refused the command, or the connection broke.
    fn refused(&mut self, current: Current, error: Error, connection: PooledConnection) -> Ended {
        // The topology hears of it before the connection goes back (pitfall 25).
        let topology = connection.pool().topology();
        topology.operation_failed(&connection, connection.generation(), &error);
        // A server that only refused can still be told to forget the cursor, or be sent more.
        if !error.is_network_error() {
            current.put_back(connection);
        }
        self.failed(current, error, Phase::Sending)
    }

    fn failed(&mut self, current: Current, mut error: Error, phase: Phase) -> Ended {
        let failure = failure(&error, phase);
        let verdict = self.retry.on_failure(&failure, Instant::now());
        let label = self.membership.fail(&failure, verdict.add_retryable_write_label);
        if verdict.add_retryable_write_label {
            error.add_label(RETRYABLE_WRITE_ERROR);
        }
        if let Some(label) = label {
            error.add_label(label);
        }
        self.attempts.add_error(current, error);
        self.conclude(verdict)
    }

    fn conclude(&mut self, verdict: Verdict) -> Ended {
        match verdict.next {
            Next::Retry => {
                let operation =
                    trace::Operation { name: &self.command.name, id: self.operation_id };
                let id = self.client.topology().id();
                trace::retrying(id, operation, self.retry.failed_attempts(), || {
                    self.attempts.latest()
                });
                Ended::Continue(())
            }
            Next::GiveUp(give_up) => self.give_up(give_up, None),
        }
    }

    fn give_up(&mut self, give_up: GiveUp, selection: Option<Error>) -> Ended {
        Ended::Break(std::mem::take(&mut self.attempts).raise(give_up, selection))
    }
}

/// What the retry machine goes by.
fn for_retrying(command: &Command, membership: &Membership) -> Operation {
    let mut operation = Operation::new(command.kind);
    operation.in_transaction = membership.number().is_some();
    operation.acknowledged = command.acknowledged;
    // What cannot be recognised may be of many documents (`update_many`), though it is one statement.
    operation.one_document = command.kind == Kind::RecognisableWrite
        && command.sequence.as_ref().is_none_or(|sequence| sequence.is_single());
    operation
}

fn accept(body: Bytes, acknowledged: bool) -> Result<Bytes> {
    if !acknowledged {
        return Ok(Bytes::from_static(UNANSWERED));
    }
    match refusal(raw(&body)) {
        None => Ok(body),
        Some(error) => Err(error),
    }
}

fn has_open_cursor(reply: &bson::RawDocument) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| cursor.get_i64("id").is_ok_and(|id| id != 0))
}

/// Refuses a message that the server would refuse by closing the connection; and, where nobody
/// would hear the server refuse it, a document that is too large.
fn check_sizes(connection: &Connection, command: &Command) -> Result<()> {
    let limit = |limit: Option<i32>| limit.and_then(|limit| usize::try_from(limit).ok());
    let size = connection.prepared_size();
    if let Some(limit) = limit(connection.hello.max_message_size_bytes)
        && size > limit
    {
        return Err(Error::invalid_argument(format!(
            "the message is {size} bytes long, but the server takes {limit} at most"
        )));
    }
    let unheard = command.sequence.as_ref().filter(|_| !command.acknowledged);
    if let (Some(documents), Some(limit)) = (unheard, limit(connection.hello.max_bson_object_size))
        && let Some(large) = documents.iter().find(|document| document.as_bytes().len() > limit)
    {
        return Err(Error::invalid_argument(format!(
            "a document is {} bytes long, but the server takes {limit} at most",
            large.as_bytes().len()
        )));
    }
    Ok(())
}
