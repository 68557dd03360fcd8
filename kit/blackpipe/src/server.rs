//! The scripted server: a test says what comes and what happens then.
//!
//! It is a real server on a real socket that speaks MongoDB's wire protocol, so that whatever
//! connects to it, be it a driver or an application upon one, is tested whole, and the network with
//! it. It has no data: every answer is the test's, or one that no test cares about.
//!
//! # A script
//!
//! The test says beforehand what is to come, in order, and what happens then. At its end the server
//! [is asked](Server::finish) whether that is what came, and nothing else.
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
//! What goes otherwise fails the test with what was expected, what came, and all that was said:
//!
//! ```text
//! The script was not kept.
//!   - through connection 2 came unexpected: update db.things { … }; expected next is insert db.things: it is not insert
//!   - never came: insert db.things
//!
//! The conversation so far:
//!   connection 1 is opened from 127.0.0.1:51234
//!   connection 1 > isMaster admin { "helloOk": true }
//!   connection 1 < { "helloOk": true, "ismaster": true, … }
//!   …
//! ```
//!
//! A script is about what the test is about. Drivers say more than that: they say hello, watch the
//! server, end sessions. That is answered [as usual](usual), and needs no mention, but can be
//! expected like anything else.
//!
//! # A handler
//!
//! If a test is about many requests, a closure may decide about each
//! ([`Server::with_handler`]); then everything is welcome, and the [`Log`] tells what came.
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
//! # In hand
//!
//! A test that wants to look at a request before it decides, or has something else happen first,
//! [takes it in its own hands](Server::receives):
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
//! let coming = server.receives(insert("db.things"));
//! let application = start_the_application(server.uri(""));
//! let request = coming.wait(); // in asynchronous tests: `coming.arrives().await`
//! assert_eq!(request.namespace(), "db.things");
//! request.reply(doc! { "ok": 1, "n": 1 });
//! application.join().unwrap();
//! # server.finish();
//! ```
//!
//! # Deployments
//!
//! A [`Deployment`] is several servers with one script: a replica set whose primary moves when the
//! test says so, and which tells the drivers that watch it, or some routers.
//!
//! # Where it runs
//!
//! In an asynchronous test the server's tasks run in the test's own runtime, so that a clock which
//! the test has paused is the server's as well, and a test with one thread is one thread. Without a
//! runtime, or if [it is told so](Builder::in_thread), the server has a thread of its own.
//!
//! There is nothing to sleep for: [`Gate`]s hold a reply until the test opens them, and
//! [`Server::wait_for`] waits for what came.

mod beginning;
mod builder;
mod conversation;
mod deployment;
mod exchange;
mod expected;
mod failure;
mod gate;
mod log;
mod patience;
mod play;
mod received;
mod script;
mod serving;
mod stage;
mod standing;
mod step;
mod transport;
mod usual;

use std::{fmt, net::SocketAddr, sync::Arc};

use bson::Document;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
};

pub use self::{
    builder::Builder,
    conversation::Conversation,
    deployment::Deployment,
    exchange::Exchange,
    expected::{
        Expected, aggregate, any, command, delete, find, find_and_modify, get_more, hello, insert,
        update,
    },
    failure::{Failure, error, write_concern_error, write_error},
    gate::Gate,
    log::Log,
    received::{Received, Receiving},
    stage::NotKept,
    standing::Role,
    step::{
        Step, delay, garbage, hang_up, part_of_reply, reply, reply_to_another, reset, silence,
        usual, wait_for,
    },
    transport::Transport,
};
use self::{play::Play, stage::Stage};
pub use blackpipe_base::message::Request;

/// A server that does what a test tells it to. See the [module](self).
///
/// It stops when it is dropped, and if its script was not kept by then, it panics as
/// [`finish`](Self::finish) does. If the test is panicking already, perhaps just because of that, it
/// shows on standard error what it would have said.
pub struct Server {
    play: Arc<Play>,
    /// Whether it answers for the script. In a deployment, that does.
    answers_for_script: bool,
}

impl Server {
    /// Starts a server of its own ([`Role::Standalone`]) on a free port of this machine, which
    /// expects nothing yet.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts a server to which every command is welcome, and answered [as usual](usual).
    pub fn plain(role: Role) -> Self {
        Self::builder().role(role).lenient().start()
    }

    /// Starts a server to which every command is welcome. The handler is asked about each request,
    /// hello included; where it says nothing, the request is answered [as usual](usual), and where it
    /// says that nothing is to be done, it is not answered.
    ///
    /// A handler that panics fails the script.
    pub fn with_handler(
        role: Role,
        handler: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        Self::builder().role(role).handler(handler).start()
    }

    /// A server that is yet to be started.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Its address, `127.0.0.1:` and the port.
    pub fn address(&self) -> String {
        self.play.address.to_string()
    }

    /// The same to connect to.
    pub fn socket_address(&self) -> SocketAddr {
        self.play.address
    }

    /// A connection string with these options, which may be empty: `retryWrites=true&w=1`.
    pub fn uri(&self, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.play.address)
    }

    /// Expects a request after all that is expected already.
    pub fn expect(&self, exchange: impl Into<Exchange>) {
        self.expect_in_any_order([exchange]);
    }

    /// Expects some requests after all that is expected already, whichever of them comes first.
    pub fn expect_in_any_order(&self, exchanges: impl IntoIterator<Item = impl Into<Exchange>>) {
        self.play.stage.expect(exchanges.into_iter().map(|it| self.here(it.into())));
    }

    /// Does this whenever such a request comes that is not expected, now or later. What is said last
    /// goes first.
    pub fn whenever(&self, exchange: impl Into<Exchange>) {
        self.play.stage.whenever(self.here(exchange.into()));
    }

    /// Expects a request after all that is expected already, and gives it to the test when it comes.
    pub fn receives(&self, expected: Expected) -> Receiving {
        receives(&self.play.stage, self.here(expected.into()).expected)
    }

    /// An exchange that takes place at this server.
    fn here(&self, exchange: Exchange) -> Exchange {
        match self.answers_for_script {
            true => exchange,
            false => exchange.at(self.play.member),
        }
    }

    /// Has hello say this from now on, in place of what the server's role demands; a null takes a
    /// field away. Clients that wait for news are told.
    ///
    /// ```
    /// use blackpipe::server::Server;
    /// use bson::doc;
    ///
    /// let server = Server::start();
    /// server.say(doc! { "maxWireVersion": 9, "compression": ["zstd"] });
    /// ```
    pub fn say(&self, fields: Document) {
        self.play.standing.send_modify(|standing| {
            standing.said.extend(fields);
            standing.changed();
        });
    }

    /// What the server would reply to a hello now.
    pub fn hello(&self) -> Document {
        self.play.standing.borrow().hello(1, &Document::new())
    }

    /// What came so far.
    pub fn log(&self) -> Log {
        self.play.log.borrow().clone()
    }

    /// All that was said so far, to be shown.
    pub fn transcript(&self) -> Conversation {
        self.play.stage.transcript()
    }

    /// Waits until something has come, and gives what came so far. It must come within a time that
    /// only a hang exceeds.
    ///
    /// # Panics
    ///
    /// If it does not come. The panic shows the conversation so far.
    pub async fn wait_for(&self, what: impl FnMut(&Log) -> bool) -> Log {
        let mut log = self.play.log.subscribe();
        let as_wanted = async { log.wait_for(what).await.map(|log| log.clone()) };
        match patience::asynchronous(as_wanted).await {
            Some(Ok(log)) => log,
            Some(Err(_)) | None => self.play.stage.give_up("waited for something to come"),
        }
    }

    /// The same from a test without a runtime.
    ///
    /// # Panics
    ///
    /// If it does not come, and if it is called from asynchronous code.
    pub fn block_until(&self, what: impl FnMut(&Log) -> bool) -> Log {
        patience::blocking(self.wait_for(what))
    }

    /// Waits until all that is expected has come, or something came that was not expected.
    ///
    /// # Panics
    ///
    /// If it does not come within a time that only a hang exceeds.
    pub async fn settled(&self) {
        self.play.stage.settled().await;
    }

    /// Lets the runtime see all that happened on its sockets so far: waiting for one of them to be
    /// ready, it learns of the others. It counts as one more connection.
    pub async fn let_sockets_settle(&self) {
        drop(TcpStream::connect(self.play.address).await);
    }

    /// Serves a connection that was made by other means, such as [`tokio::io::duplex`].
    pub fn serve(&self, stream: impl Transport) {
        self.play.serve(stream);
    }

    /// Closes all connections. New ones are welcome.
    pub fn close_connections(&self) {
        self.play.close_connections();
    }

    /// Closes all connections and takes no more, as if the server had died. Nobody else is given its
    /// address.
    pub fn stop(&self) {
        self.play.stop();
    }

    /// Takes connections again after a [`stop`](Self::stop), at the same address.
    ///
    /// # Panics
    ///
    /// If another program has taken the address in the instant in which the server was stopped.
    pub fn resume(&self) {
        self.play.stop();
        self.play.resume();
    }

    /// Whether the script was kept so far: all that is expected came, and nothing else.
    pub fn check(&self) -> Result<(), NotKept> {
        self.play.stage.check()
    }

    /// Ends the server, and the test if the script was not kept.
    ///
    /// What a client sends without waiting for an answer may not have come yet; then wait until all
    /// is [`settled`](Self::settled).
    ///
    /// # Panics
    ///
    /// If something expected has not come, or something came that was not expected. The panic shows
    /// the conversation.
    #[track_caller]
    pub fn finish(mut self) {
        self.answers_for_script = false;
        if let Err(not_kept) = self.check() {
            panic!("{not_kept}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.play.end();
        if self.answers_for_script {
            self.play.stage.answer_for_script();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.play.address).finish_non_exhaustive()
    }
}

/// Expects a request that is given to the test.
fn receives(stage: &Arc<Stage>, expected: Expected) -> Receiving {
    let (to, arrival) = mpsc::unbounded_channel();
    let what = expected.to_string();
    stage.expect([Exchange::hand_over(expected, to)]);
    Receiving { what, stage: Arc::clone(stage), arrival }
}
