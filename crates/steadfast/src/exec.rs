//! How a command is carried out: the one path from a [`Command`] to its [`Reply`].
//!
//! This is the room where commands are retried; nothing else in the code base does that. As yet
//! every command is attempted once.

mod watch;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bson::RawDocument;
use bytes::Bytes;
use steadfast_core::{
    read_preference::ReadPreference,
    selection::{self, SelectionCriteria},
};

use self::watch::Watch;
use crate::{
    Client,
    command::{Command, Reply, Target},
    connection::Outgoing,
    error::{Error, Result},
    pool::PooledConnection,
    refusal::{refusal, write_concern_failure},
    topology::{Selected, Server, View},
    trace,
};

/// The reply that stands for the one that an unacknowledged write does not get.
static UNANSWERED: &[u8] = b"\x0d\0\0\0\x10ok\0\x01\0\0\0\0";

/// The number of the next operation.
fn next_operation_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    /// Carries out a command.
    pub(crate) async fn run(&self, command: Command) -> Result<Reply> {
        self.run_as_part_of(next_operation_id(), command).await
    }

    /// A number for an operation of several commands.
    pub(crate) fn begin_operation(&self) -> i64 {
        next_operation_id()
    }

    /// Carries out a command that is one of several of an operation.
    pub(crate) async fn run_as_part_of(
        &self,
        operation_id: i64,
        mut command: Command,
    ) -> Result<Reply> {
        let _active = self.begin_activity()?;
        if let Some((server, connection)) = pinned(&mut command.target) {
            let view = self.topology().view();
            let selected = Selected { server, view };
            return self.attempt(operation_id, &command, selected, connection).await;
        }
        let operation = trace::Operation { name: &command.name, id: operation_id };
        let target = command.target.for_selection();
        let selected = self.topology().select(target, &[], operation).await?;
        let _counted = Arc::clone(&selected.server).begin_operation();
        let connection = selected.server.pool.check_out().await?;
        self.attempt(operation_id, &command, selected, connection).await
    }

    /// Sends a command once.
    async fn attempt(
        &self,
        operation_id: i64,
        command: &Command,
        selected: Selected,
        mut connection: PooledConnection,
    ) -> Result<Reply> {
        let outgoing = Outgoing {
            name: &command.name,
            database: &command.database,
            body: &command.body,
            sequence: command.sequence.as_ref(),
            read_preference: command.target.read_preference(&selected.view, &selected),
            server_api: self.server_api(),
            acknowledged: command.acknowledged,
            exhaust_allowed: false,
        };
        let request_id = connection.prepare(&outgoing)?;
        connection.check_prepared_size()?;
        let watch = Watch::start(self, &outgoing, &connection, request_id, operation_id);
        let received = connection.exchange(request_id, command.acknowledged).await;
        let outcome = received.and_then(|body| accept(body, command.acknowledged));
        let outcome = outcome.map_err(|error| error.with_server(&connection.address));
        watch.finish(outcome.as_ref().map(|body| raw(body)));
        match outcome {
            Ok(body) => Ok(self.conclude(body, selected, connection)),
            Err(error) => {
                // The topology hears of it before the connection goes back (pitfall 25).
                let topology = connection.pool().topology();
                topology.operation_failed(&connection, connection.generation(), &error);
                // A server that only refused can still be told to forget the cursor.
                if let (Target::Cursor(home), false) = (&command.target, error.is_network_error()) {
                    home.connection.put_back(connection);
                }
                Err(error)
            }
        }
    }

    fn conclude(&self, body: Bytes, selected: Selected, connection: PooledConnection) -> Reply {
        if let Some(failure) = write_concern_failure(raw(&body)) {
            let topology = connection.pool().topology();
            topology.write_concern_failed(&connection, connection.generation(), failure);
        }
        let keeps_connection = self.is_load_balanced() && has_open_cursor(raw(&body));
        let mut reply = Reply::new(body, selected.server);
        reply.pinned = keeps_connection.then_some(connection);
        reply
    }
}

/// The server and the connection that a cursor is bound to.
fn pinned(target: &mut Target) -> Option<(Arc<Server>, PooledConnection)> {
    match target {
        Target::Cursor(home) => {
            let connection = home.connection.take()?;
            Some((Arc::clone(&home.server), connection))
        }
        Target::Write | Target::Read(_) | Target::WritingAggregate(_) => None,
    }
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

fn raw(body: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(body).expect("checked when it was read")
}

fn has_open_cursor(reply: &RawDocument) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| cursor.get_i64("id").is_ok_and(|id| id != 0))
}

impl Target {
    /// The same in the words of server selection.
    fn for_selection(&self) -> selection::Target<'_> {
        match self {
            Self::Write => selection::Target::Write,
            Self::Read(criteria) => selection::Target::Read(criteria),
            Self::WritingAggregate(criteria) => selection::Target::WritingAggregate(criteria),
            Self::Cursor(home) => selection::Target::Server(&home.server.address),
        }
    }

    /// What the chosen server is to be told of the read preference.
    fn read_preference(&self, view: &View, selected: &Selected) -> Option<&ReadPreference> {
        /// A member that a predicate chose is to answer, whatever it is.
        static ANY_MEMBER: ReadPreference = ReadPreference::PrimaryPreferred { options: None };

        let preference = match self.for_selection().resolve(&view.description) {
            selection::Target::Read(SelectionCriteria::ReadPreference(preference)) => preference,
            selection::Target::Read(_) => &ANY_MEMBER,
            _ => return None,
        };
        let server_type = selected.description()?.server_type;
        selection::read_preference_for(view.description.topology_type, server_type, preference)
    }
}

impl crate::connection::Connection {
    /// Refuses a message that the server would refuse by closing the connection.
    fn check_prepared_size(&self) -> Result<()> {
        let limit = self.hello.max_message_size_bytes.and_then(|limit| usize::try_from(limit).ok());
        match limit {
            Some(limit) if self.prepared_size() > limit => Err(Error::invalid_argument(format!(
                "the message is {} bytes long, but the server takes {limit} at most",
                self.prepared_size()
            ))),
            _ => Ok(()),
        }
    }
}
