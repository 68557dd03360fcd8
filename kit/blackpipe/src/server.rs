//! Scripted server: a test scripts the requests it expects and the replies it sends.
//!
//! The server is a real one on a real socket. It speaks MongoDB's wire protocol, so a test covers
//! the whole stack: application, driver and network. It has no data. Each reply comes from the test
//! or is a default reply.
//!
//! # A script
//!
//! The test lists the expected requests in order, each with its response. [`Server::finish`] checks
//! that exactly these requests arrived.
//!
//! ```
//! use blackpipe::server::{Server, hang_up, insert, reply};
//! use bson::doc;
//!
//! # fn the_application(uri: &str) {
//! #     use std::{io::{Read, Write}, net::TcpStream};
//! #     let command = bson::rawdoc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
//! #     let command = steadfast_wire::DocumentBytes::try_from(command).unwrap();
//! #     let mut bytes = Vec::new();
//! #     steadfast_wire::OpMsg::new(command).encode(1, 0, &mut bytes).unwrap();
//! #     let address = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
//! #     for _ in 0..2 {
//! #         let mut stream = TcpStream::connect(address).unwrap();
//! #         stream.write_all(&bytes).unwrap();
//! #         if stream.read(&mut [0; 100]).unwrap() > 0 { return; }
//! #     }
//! # }
//! let server = Server::start();
//! server.expect(insert("db.things").with(doc! { "documents": [{ "_id": 1 }] }).then(hang_up()));
//! server.expect(insert("db.things").then(reply(doc! { "ok": 1, "n": 1 })));
//!
//! the_application(&server.uri(""));
//! server.finish();
//! ```
//!
//! Otherwise the test fails. The report has the violations and the transcript:
//!
//! ```text
//! script failed:
//!   - connection 2: unexpected request update db.things { … }; next expected is insert db.things: the command is update, not insert
//!   - missing request: insert db.things
//!
//! transcript:
//!   connection 1 opened by 127.0.0.1:51234
//!   connection 1 > isMaster admin { "helloOk": true }
//!   connection 1 < { "helloOk": true, "ismaster": true, … }
//!   …
//! ```
//!
//! Drivers also send commands that no test is about: `hello`, heartbeats, `endSessions`. They get a
//! [default reply](default_reply) and need no mention in the script, but they can be expected, too.
//!
//! # A handler
//!
//! A closure can decide about each request ([`Server::with_handler`]). The server then accepts
//! every command, and [`ServerLog`] has the requests.
//!
//! ```
//! use blackpipe::server::{Role, Server, error};
//!
//! let server = Server::with_handler(Role::Primary, |request| {
//!     (request.name == "find").then(|| vec![error(11600).into()])
//! });
//! # drop(server);
//! ```
//!
//! # Deciding when a request arrives
//!
//! A test can [receive](Server::receives) a request, run other code first, and then decide the
//! response:
//!
//! ```
//! use blackpipe::server::{Server, insert};
//! use bson::doc;
//!
//! # fn the_application(uri: &str) {
//! #     use std::{io::{Read, Write}, net::TcpStream};
//! #     let command = bson::rawdoc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
//! #     let command = steadfast_wire::DocumentBytes::try_from(command).unwrap();
//! #     let mut bytes = Vec::new();
//! #     steadfast_wire::OpMsg::new(command).encode(1, 0, &mut bytes).unwrap();
//! #     let address = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
//! #     for _ in 0..2 {
//! #         let mut stream = TcpStream::connect(address).unwrap();
//! #         stream.write_all(&bytes).unwrap();
//! #         if stream.read(&mut [0; 100]).unwrap() > 0 { return; }
//! #     }
//! # }
//! # fn start_the_application(uri: String) -> std::thread::JoinHandle<()> {
//! #     std::thread::spawn(move || the_application(&uri))
//! # }
//! let server = Server::start();
//! let pending = server.receives(insert("db.things"));
//! let application = start_the_application(server.uri(""));
//! let request = pending.arrives_blocking(); // in asynchronous tests: `pending.arrives().await`
//! assert_eq!(request.namespace(), "db.things");
//! request.reply(doc! { "ok": 1, "n": 1 });
//! application.join().unwrap();
//! # server.finish();
//! ```
//!
//! # Deployments
//!
//! A [`Deployment`] has several servers with one script: a replica set with elections, streamed to
//! the drivers that monitor it, or several mongos.
//!
//! # Runtime
//!
//! In an asynchronous test, the server runs in the runtime of the test: a paused clock also pauses
//! the server. Without a runtime, or with [`ServerBuilder::in_thread`], the server runs in its own
//! thread.
//!
//! Tests need no sleeps: [`Gate`]s hold replies until the test opens them, and [`Server::wait_for`]
//! waits for requests.

mod builder;
mod command_name;
mod connection;
mod default_replies;
mod deployment;
mod exchange;
mod expected;
mod failure;
mod gate;
mod hello_state;
mod inner;
mod log;
mod received;
mod script;
mod shared_script;
mod step;
mod transcript;
mod transport;
mod wait;

use std::{fmt, net::SocketAddr, sync::Arc};

use bson::Document;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
};

pub use self::{
    builder::ServerBuilder,
    deployment::Deployment,
    exchange::Exchange,
    expected::{
        ExpectedRequest, aggregate, any, command, delete, find, find_and_modify, get_more, hello,
        insert, update,
    },
    failure::{FailureReply, error, write_concern_error, write_error},
    gate::Gate,
    hello_state::Role,
    log::ServerLog,
    received::{PendingRequest, ReceivedRequest},
    shared_script::ScriptError,
    step::{
        Step, default_reply, delay, hang_up, no_reply, part_of_reply, raw_bytes, reply,
        reply_to_another, reset, wait_for,
    },
    transcript::Transcript,
    transport::Transport,
};
use self::{inner::ServerInner, shared_script::SharedScript};
pub use blackpipe_base::message::Request;

/// A scripted server. See the [module](self) for examples.
///
/// Dropping it stops the server and checks the script: it panics like [`finish`](Self::finish) if
/// the script failed. If the thread is already panicking, it prints the report to standard error
/// instead.
pub struct Server {
    inner: Arc<ServerInner>,
    /// `true` if this value checks the script. In a deployment, [`Deployment`] does.
    checks_script: bool,
}

impl Server {
    /// Starts a standalone server on a free port. It expects no requests yet.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts a server that accepts every command and sends [default replies](default_reply).
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn lenient(role: Role) -> Self {
        Self::builder().role(role).lenient().start()
    }

    /// Starts a server that accepts every command and passes each request to a handler, `hello`
    /// included.
    ///
    /// If the handler returns `None`, the server sends the [default reply](default_reply). If it
    /// returns an empty list, the server sends no reply. A handler that panics fails the script.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn with_handler(
        role: Role,
        handler: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        Self::builder().role(role).handler(handler).start()
    }

    /// Returns a builder with default options.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the address as `127.0.0.1:port`.
    pub fn address(&self) -> String {
        self.inner.address.to_string()
    }

    /// Returns the socket address.
    pub fn socket_address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Returns a connection string with these options, such as `retryWrites=true&w=1`. They may be
    /// empty.
    pub fn uri(&self, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.inner.address)
    }

    /// Appends an expected request to the script.
    pub fn expect(&self, exchange: impl Into<Exchange>) {
        self.expect_in_any_order([exchange]);
    }

    /// Appends a group of expected requests that may arrive in any order.
    pub fn expect_in_any_order(&self, exchanges: impl IntoIterator<Item = impl Into<Exchange>>) {
        self.inner
            .script
            .expect(exchanges.into_iter().map(|it| self.restrict_to_this_server(it.into())));
    }

    /// Defines the response to requests that the script does not expect next. Later definitions
    /// take precedence.
    pub fn whenever(&self, exchange: impl Into<Exchange>) {
        self.inner.script.whenever(self.restrict_to_this_server(exchange.into()));
    }

    /// Appends an expected request whose response the test decides when it arrives.
    pub fn receives(&self, expected: ExpectedRequest) -> PendingRequest {
        receives(&self.inner.script, self.restrict_to_this_server(expected.into()).expected)
    }

    /// Restricts an exchange to this server if it belongs to a deployment.
    fn restrict_to_this_server(&self, exchange: Exchange) -> Exchange {
        match self.checks_script {
            true => exchange,
            false => exchange.at(self.inner.member),
        }
    }

    /// Overrides fields of `hello` from now on. Null removes a field. Clients that stream `hello`
    /// get the new reply immediately.
    ///
    /// ```
    /// use blackpipe::server::Server;
    /// use bson::doc;
    ///
    /// let server = Server::start();
    /// server.set_hello_fields(doc! { "maxWireVersion": 9, "compression": ["zstd"] });
    /// ```
    pub fn set_hello_fields(&self, fields: Document) {
        self.inner.hello.send_modify(|hello| {
            hello.overrides.extend(fields);
            hello.changed();
        });
    }

    /// Returns the current reply to `hello`.
    pub fn hello(&self) -> Document {
        self.inner.hello.borrow().hello(1, &Document::new())
    }

    /// Returns the requests and connections so far.
    pub fn log(&self) -> ServerLog {
        self.inner.log.borrow().clone()
    }

    /// Returns the transcript of requests and replies so far.
    pub fn transcript(&self) -> Transcript {
        self.inner.script.transcript()
    }

    /// Waits until `what` returns `true` for the log, and returns the log.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds. The message shows the transcript.
    pub async fn wait_for(&self, what: impl FnMut(&ServerLog) -> bool) -> ServerLog {
        let mut log = self.inner.log.subscribe();
        let as_wanted = async { log.wait_for(what).await.map(|log| log.clone()) };
        match wait::with_timeout(as_wanted).await {
            Some(Ok(log)) => log,
            Some(Err(_)) | None => self.inner.script.fail_wait("a condition on the log"),
        }
    }

    /// Waits like [`wait_for`](Self::wait_for), in a test without a runtime.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds, and if called from asynchronous code.
    pub fn wait_for_blocking(&self, what: impl FnMut(&ServerLog) -> bool) -> ServerLog {
        wait::blocking(self.wait_for(what))
    }

    /// Waits until all expected requests arrived or the script failed.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds.
    pub async fn wait_for_script(&self) {
        self.inner.script.wait_for_script().await;
    }

    /// Lets the runtime process pending events of its sockets. Opens one more connection for that.
    pub async fn process_socket_events(&self) {
        drop(TcpStream::connect(self.inner.address).await);
    }

    /// Serves a connection over another transport, such as [`tokio::io::duplex`].
    pub fn serve(&self, stream: impl Transport) {
        self.inner.serve(stream);
    }

    /// Closes all connections. The server accepts new ones.
    pub fn close_connections(&self) {
        self.inner.close_connections();
    }

    /// Closes all connections and stops listening. The address stays reserved.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Listens again at the same address after [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// Panics if another process took the address while the server stopped.
    pub fn resume(&self) {
        self.inner.stop();
        self.inner.resume();
    }

    /// Checks that all expected requests arrived and no others did.
    ///
    /// # Errors
    ///
    /// Fails if an expected request did not arrive, an unexpected one did, or code of the test
    /// panicked.
    pub fn check(&self) -> Result<(), ScriptError> {
        self.inner.script.check()
    }

    /// Stops the server and checks the script.
    ///
    /// Requests that the client sends without waiting for a reply may not have arrived yet; call
    /// [`wait_for_script`](Self::wait_for_script) first.
    ///
    /// # Panics
    ///
    /// Panics if an expected request did not arrive or an unexpected one did. The message shows the
    /// transcript.
    #[track_caller]
    pub fn finish(mut self) {
        self.checks_script = false;
        if let Err(not_kept) = self.check() {
            panic!("{not_kept}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.end();
        if self.checks_script {
            self.inner.script.check_on_drop();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

/// Appends an expected request that is passed to the test.
fn receives(script: &Arc<SharedScript>, expected: ExpectedRequest) -> PendingRequest {
    let (to, arrival) = mpsc::unbounded_channel();
    let what = expected.to_string();
    script.expect([Exchange::ask_test(expected, to)]);
    PendingRequest { what, script: Arc::clone(script), arrival }
}
