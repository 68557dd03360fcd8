//! Options of a server or deployment.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::AtomicI32},
};

use bson::Document;

use super::{
    Deployment, Request, Role, Server, ServerLog, SharedScript, Step,
    hello_state::HelloState,
    inner::{DefaultBehavior, ServerInner, ServerTasks, reserve},
    watch,
};
use blackpipe_base::runtime::TaskRuntime;

/// Options of a server or deployment. [`Server::builder`] creates it.
///
/// ```
/// use blackpipe::server::{Role, Server};
/// use bson::doc;
///
/// let old_mongos = Server::builder().role(Role::Mongos).hello_fields(doc! { "maxWireVersion": 7 }).start();
/// let set = Server::builder().lenient().replica_set(3);
/// # drop((old_mongos, set));
/// ```
#[derive(Clone)]
#[must_use]
pub struct ServerBuilder {
    role: Role,
    overrides: Document,
    behavior: DefaultBehavior,
    is_streaming: Option<bool>,
    is_in_thread: bool,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            role: Role::Standalone,
            overrides: Document::new(),
            behavior: DefaultBehavior::default(),
            is_streaming: None,
            is_in_thread: false,
        }
    }
}

impl ServerBuilder {
    /// Sets the role that the server reports in `hello`. Defaults to standalone.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Overrides fields of `hello`. Null removes a field.
    pub fn hello_fields(mut self, fields: Document) -> Self {
        self.overrides.extend(fields);
        self
    }

    /// Accepts every command and sends the [default reply](super::default_reply) to those without
    /// script and handler. By default, unexpected commands fail the script.
    pub fn lenient(mut self) -> Self {
        self.behavior.is_lenient = true;
        self
    }

    /// Passes each request that the script does not expect to a handler, `hello` included. `None`
    /// sends the [default reply](super::default_reply). Implies [`lenient`](Self::lenient).
    pub fn handler(
        mut self,
        handler: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        self.behavior.handler = Some(Arc::new(handler));
        self.lenient()
    }

    /// Cuts requests by connection number (from 1) and command name: the rule returns the number of
    /// bytes to read. See [`ExpectedRequest::cut_after`](super::ExpectedRequest::cut_after).
    pub fn cut_requests(
        mut self,
        rule: impl Fn(usize, &str) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        self.behavior.cut = Some(Arc::new(rule));
        self
    }

    /// Streams `hello` to clients that request it, as servers do since 4.4. Drivers then open a
    /// second connection to measure round-trip times. Defaults to `true` for replica sets and
    /// `false` for single servers.
    pub fn streaming(mut self, is_streaming: bool) -> Self {
        self.is_streaming = Some(is_streaming);
        self
    }

    /// Runs the server in its own thread even if the test has a runtime. Use it in tests that block
    /// the runtime.
    pub fn in_thread(mut self) -> Self {
        self.is_in_thread = true;
        self
    }

    /// Starts one server.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start(self) -> Server {
        let runtime = TaskRuntime::find(self.is_in_thread);
        let inner = self.open(&runtime, &Arc::default(), 0, self.role);
        Server { inner, checks_script: true }
    }

    /// Starts a replica set. The first member is primary.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn replica_set(mut self, members: usize) -> Deployment {
        self.is_streaming.get_or_insert(true);
        let deployment = self.start_all(members, Role::Secondary);
        if members > 0 {
            deployment.elect(0);
        }
        deployment
    }

    /// Starts several mongos of a sharded cluster.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn mongos(self, count: usize) -> Deployment {
        self.start_all(count, Role::Mongos)
    }

    fn start_all(self, count: usize, role: Role) -> Deployment {
        let (runtime, script) = (TaskRuntime::find(self.is_in_thread), Arc::default());
        let servers: Vec<_> = (0..count).map(|n| self.open(&runtime, &script, n, role)).collect();
        let hosts: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
        for server in &servers {
            server.hello.send_modify(|hello| hello.hosts.clone_from(&hosts));
        }
        let servers = servers.into_iter().map(|inner| Server { inner, checks_script: false });
        Deployment::new(servers.collect(), script)
    }

    fn open(
        &self,
        runtime: &TaskRuntime,
        script: &Arc<SharedScript>,
        member: usize,
        role: Role,
    ) -> Arc<ServerInner> {
        let reserved = reserve(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = reserved.address;
        let is_streaming = self.is_streaming.unwrap_or(false);
        let hello =
            HelloState::new(role, address.to_string(), self.overrides.clone(), is_streaming);
        let server = Arc::new(ServerInner {
            script: Arc::clone(script),
            member,
            address,
            hello: watch::Sender::new(hello),
            log: watch::Sender::new(ServerLog::default()),
            behavior: self.behavior.clone(),
            runtime: runtime.clone(),
            next_id: AtomicI32::new(1),
            tasks: Mutex::new(ServerTasks::default()),
        });
        server.listen(reserved);
        server
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("role", &self.role).finish_non_exhaustive()
    }
}
