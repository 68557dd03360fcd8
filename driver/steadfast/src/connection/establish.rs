//! Connection establishment: stream, handshake and authentication.

use std::{sync::Arc, time::Duration};

use bson::{RawArrayBuf, RawDocumentBuf, ToStr, raw::cstr};
use bytes::Bytes;
use steadfast_core::{
    address::ServerAddress,
    description::ServerType,
    hello::HelloReply,
    sdam::{ConnectionPhase, MIN_SERVER_VERSION, MIN_WIRE_VERSION},
    server_api::ServerApi,
};
use steadfast_wire::{Compressor, write_legacy_hello};
use tokio::task::AbortHandle;

use super::{
    Connection, Interrupt, MAX_REPLY, Outgoing, Stream, append_api, metadata::Metadata,
    next_request_id,
};
use crate::{
    auth::{AuthError, Authenticator, Exchange},
    error::{
        CommandError, Error, ErrorKind, NetworkFailure, RETRYABLE_ERROR, Result,
        SYSTEM_OVERLOADED_ERROR,
    },
    tls::TlsConnector,
};

/// Establishes connections of one client.
#[derive(Debug)]
pub(crate) struct Establisher {
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) server_api: Option<ServerApi>,
    pub(crate) load_balanced: bool,
    /// Client metadata of the handshake.
    pub(crate) metadata: Metadata,
    pub(crate) compressors: Vec<Compressor>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) socket_timeout: Option<Duration>,
    /// Default `timeoutMS` of the client, for each authentication command on connections that the
    /// pool establishes in the background.
    pub(crate) timeout: Option<Duration>,
}

/// Error of connection establishment, with the step that failed.
#[derive(Clone, Debug)]
pub(crate) struct EstablishError {
    pub(crate) error: Error,
    pub(crate) phase: ConnectionPhase,
}

impl Establisher {
    /// Spawns a background task of the client.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// Establishes a connection for operations. `awaited` is `true` if an operation waits for it:
    /// its own time-out applies then, not the client's. `handshake_completed` is called after the
    /// reply to `hello`, before authentication.
    pub(crate) async fn establish(
        &self,
        address: &ServerAddress,
        interrupt: Arc<Interrupt>,
        awaited: bool,
        handshake_completed: impl FnOnce(&HelloReply),
    ) -> std::result::Result<Connection, EstablishError> {
        let mut phase = ConnectionPhase::Connecting;
        let limit = self.timeout.filter(|_| !awaited);
        let work =
            self.establish_in_phases(address, interrupt, limit, &mut phase, handshake_completed);
        self.within_limit(work).await.map_err(|error| {
            let mut error = error.with_server(address);
            if phase == ConnectionPhase::Connecting
                && error.network_failure().is_some_and(NetworkFailure::may_be_overload)
            {
                error.add_label(SYSTEM_OVERLOADED_ERROR);
                error.add_label(RETRYABLE_ERROR);
            }
            EstablishError { error, phase }
        })
    }

    async fn establish_in_phases(
        &self,
        address: &ServerAddress,
        interrupt: Arc<Interrupt>,
        login_limit: Option<Duration>,
        phase: &mut ConnectionPhase,
        handshake_completed: impl FnOnce(&HelloReply),
    ) -> Result<Connection> {
        let mut connection = self.open_stream(address, interrupt).await?;
        let opening = self.authenticator.as_ref().map(Authenticator::open).transpose()?;
        let mut hello = self.hello();
        if let Some(opening) = &opening {
            opening.append_to(&mut hello);
        }
        let reply = connection.run_hello(&hello, self.uses_modern_hello()).await?;
        self.check_hello(&connection)?;
        connection.compressor = self.common_compressor(&connection.hello);
        *phase = ConnectionPhase::Authenticating;
        handshake_completed(&connection.hello);
        connection.reply_limit = login_limit.map(|time| (time, "timeoutMS"));
        if let (Some(authenticator), Some(opening)) = (&self.authenticator, opening) {
            reject_arbiter(&connection.hello)?;
            let reply = bson::RawDocument::from_bytes(&reply)?;
            let mut exchange =
                AuthExchange { connection: &mut connection, api: self.server_api.as_ref() };
            authenticator.finish(opening, reply, &mut exchange).await?;
        }
        // The handshake is limited by connectTimeoutMS, also for monitors.
        connection.reply_limit = self.socket_timeout.map(|time| (time, "socketTimeoutMS"));
        connection.max_reply = MAX_REPLY;
        connection.is_new = true;
        Ok(connection)
    }

    /// Opens a connection without a handshake, for monitors.
    pub(crate) async fn open(&self, address: &ServerAddress) -> Result<Connection> {
        let opening = self.open_stream(address, Arc::default());
        self.within_limit(opening).await.map_err(|error| error.with_server(address))
    }

    async fn open_stream(
        &self,
        address: &ServerAddress,
        interrupt: Arc<Interrupt>,
    ) -> Result<Connection> {
        let stream = Stream::open(address, self.tls.as_ref()).await?;
        let offered = self.compressors.iter().copied().collect();
        Ok(Connection::new(address.clone(), stream, offered, interrupt))
    }

    async fn within_limit<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(limit) = self.connect_timeout else { return work.await };
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(Error::timed_out(format!(
                "the connection was not established within connectTimeoutMS ({limit:?})"
            ))),
        }
    }

    /// Returns `true` if the first message can be an OP_MSG: servers with the stable API or behind
    /// a load balancer support it.
    pub(crate) fn uses_modern_hello(&self) -> bool {
        self.server_api.is_some() || self.load_balanced
    }

    /// Returns the `hello` of the handshake, for all connections including monitoring connections.
    pub(crate) fn hello(&self) -> RawDocumentBuf {
        let mut hello = RawDocumentBuf::new();
        if self.uses_modern_hello() {
            hello.append(cstr!("hello"), 1);
        } else {
            hello.append(cstr!("isMaster"), 1);
        }
        hello.append(cstr!("helloOk"), true);
        hello.append(cstr!("backpressure"), true);
        if self.load_balanced {
            hello.append(cstr!("loadBalanced"), true);
        }
        let mut compression = RawArrayBuf::new();
        for compressor in &self.compressors {
            compression.push(compressor.name());
        }
        hello.append(cstr!("compression"), compression);
        hello.append(cstr!("client"), self.metadata.document());
        if let Some(api) = &self.server_api {
            append_api(&mut hello, api);
        }
        hello
    }

    /// Returns the first compressor of the client that the server supports.
    fn common_compressor(&self, hello: &HelloReply) -> Option<Compressor> {
        let theirs = |ours: &&Compressor| hello.compression.iter().any(|name| name == ours.name());
        self.compressors.iter().find(theirs).copied()
    }

    fn check_hello(&self, connection: &Connection) -> Result<()> {
        let hello = &connection.hello;
        if self.load_balanced && hello.service_id.is_none() {
            return Err(Error::new(ErrorKind::IncompatibleServer {
                // Message given by the specification.
                message: "Driver attempted to initialize in load balancing mode, but the server \
                          does not support this mode."
                    .to_owned(),
            }));
        }
        if !self.load_balanced && hello.max_wire_version < MIN_WIRE_VERSION {
            return Err(Error::new(ErrorKind::IncompatibleServer {
                message: format!(
                    "the server supports wire versions up to {}; this driver requires {} (MongoDB {}) or later",
                    hello.max_wire_version, MIN_WIRE_VERSION, MIN_SERVER_VERSION
                ),
            }));
        }
        Ok(())
    }
}

/// Rejects an arbiter if the client has credentials. An arbiter has no users, so it cannot
/// authenticate the client; and without authentication the application's data is not sent, because
/// any server could claim to be an arbiter.
fn reject_arbiter(hello: &HelloReply) -> Result<()> {
    match hello.server_type() {
        ServerType::RsArbiter => Err(Error::authentication(
            "the server is an arbiter, which has no users; connect to it without credentials",
        )),
        _ => Ok(()),
    }
}

impl Connection {
    /// Runs `hello`, as the handshake or later, and stores the reply.
    pub(crate) async fn run_hello(
        &mut self,
        hello: &RawDocumentBuf,
        modern: bool,
    ) -> Result<Bytes> {
        let request_id = if modern {
            self.prepare(&Outgoing::new("hello", "admin", hello))?
        } else {
            let request_id = next_request_id();
            self.outbox.clear();
            self.unbuffered_bytes = 0;
            write_legacy_hello(&mut self.outbox, request_id, hello)?;
            request_id
        };
        let reply = self.exchange(request_id, true, None).await?;
        let hello = read_hello(&reply)?;
        let theirs = hello.compression.iter().filter_map(|name| name.parse().ok());
        self.negotiated = theirs.filter(|it| self.negotiated.contains(*it)).collect();
        self.hello = Arc::new(hello);
        Ok(reply)
    }
}

/// Reads a reply to `hello`. An error reply is an error.
pub(crate) fn read_hello(reply: &Bytes) -> Result<HelloReply> {
    let reply = bson::RawDocument::from_bytes(reply)?;
    if let Some(error) = CommandError::from_reply(reply) {
        return Err(error);
    }
    HelloReply::parse(reply).map_err(|error| Error::invalid_response(error.to_string()))
}

/// Authentication commands on a connection that is not in use yet.
struct AuthExchange<'a> {
    connection: &'a mut Connection,
    api: Option<&'a ServerApi>,
}

impl Exchange for AuthExchange<'_> {
    type Error = Error;

    async fn command(&mut self, db: &str, command: RawDocumentBuf) -> Result<RawDocumentBuf> {
        let name = command.iter().next().and_then(std::result::Result::ok);
        let name = name.map(|(key, _)| key.to_str().to_owned()).unwrap_or_default();
        let mut outgoing = Outgoing::new(&name, db, &command);
        outgoing.server_api = self.api;
        let request_id = self.connection.prepare(&outgoing)?;
        let reply = self.connection.exchange(request_id, true, None).await?;
        let reply = bson::RawDocument::from_bytes(&reply)?;
        match CommandError::from_reply(reply) {
            None => Ok(reply.to_owned()),
            Some(error) => {
                let why = error.to_string();
                let message = format!("the server rejected {name}: {why}");
                Err(Error::authentication(message).with_source(error))
            }
        }
    }
}

impl From<AuthError> for ErrorKind {
    fn from(error: AuthError) -> Self {
        Self::Authentication { message: error.to_string() }
    }
}
