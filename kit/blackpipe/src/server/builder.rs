//! How a server, or a deployment of servers, is to be.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::AtomicI32},
};

use bson::Document;

use super::{
    Deployment, Log, Request, Role, Server, Stage, Step,
    play::{Manner, Play, Tasks, take},
    standing::Standing,
    watch,
};
use blackpipe_base::runtime::TaskRuntime;

/// A server, or several, yet to be started. [`Server::builder`] makes one.
///
/// ```
/// use blackpipe::server::{Role, Server};
/// use bson::doc;
///
/// let old_router = Server::builder().role(Role::Mongos).saying(doc! { "maxWireVersion": 7 }).start();
/// let set = Server::builder().lenient().replica_set(3);
/// # drop((old_router, set));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    role: Role,
    said: Document,
    manner: Manner,
    is_streaming: Option<bool>,
    is_in_thread: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            role: Role::Standalone,
            said: Document::new(),
            manner: Manner::default(),
            is_streaming: None,
            is_in_thread: false,
        }
    }
}

impl Builder {
    /// What the server says it is.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// What hello says in place of what the role demands; a null takes a field away.
    pub fn saying(mut self, fields: Document) -> Self {
        self.said.extend(fields);
        self
    }

    /// Every command is welcome, and answered [as usual](super::usual) where no script and no
    /// handler says otherwise. (Else what is not expected fails the script.)
    pub fn lenient(mut self) -> Self {
        self.manner.is_lenient = true;
        self
    }

    /// Asks this about each request that no script expects, hello included. Where it says nothing,
    /// the request is answered [as usual](super::usual), and every command is welcome.
    pub fn handler(
        mut self,
        handler: impl Fn(&Request) -> Option<Vec<Step>> + Send + Sync + 'static,
    ) -> Self {
        self.manner.handler = Some(Arc::new(handler));
        self.lenient()
    }

    /// Asks this about the connection (counted from 1) and the name of each command as soon as its
    /// first bytes are there: after how many bytes is it to be cut, if at all? See
    /// [`Expected::cut_after`](super::Expected::cut_after).
    pub fn cutting(
        mut self,
        rule: impl Fn(usize, &str) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        self.manner.cut = Some(Arc::new(rule));
        self
    }

    /// Whether clients that want it are told when the server becomes another, as servers from 4.4 on
    /// do. Drivers then keep a second connection to measure the way to it. Replica sets do so unless
    /// told otherwise, and single servers do not.
    pub fn streaming(mut self, is_streaming: bool) -> Self {
        self.is_streaming = Some(is_streaming);
        self
    }

    /// Runs in a thread of its own, also if the test has a runtime: for tests that block that.
    pub fn in_thread(mut self) -> Self {
        self.is_in_thread = true;
        self
    }

    /// Starts one server.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn start(self) -> Server {
        let home = TaskRuntime::find(self.is_in_thread);
        let play = self.open(&home, &Arc::default(), 0, self.role);
        Server { play, answers_for_script: true }
    }

    /// Starts a replica set of so many members, of which the first is primary.
    ///
    /// # Panics
    ///
    /// If there are no free ports.
    pub fn replica_set(mut self, members: usize) -> Deployment {
        self.is_streaming.get_or_insert(true);
        let deployment = self.start_all(members, Role::Secondary);
        if members > 0 {
            deployment.elect(0);
        }
        deployment
    }

    /// Starts so many routers of a sharded cluster.
    ///
    /// # Panics
    ///
    /// If there are no free ports.
    pub fn routers(self, routers: usize) -> Deployment {
        self.start_all(routers, Role::Mongos)
    }

    fn start_all(self, count: usize, role: Role) -> Deployment {
        let (home, stage) = (TaskRuntime::find(self.is_in_thread), Arc::default());
        let plays: Vec<_> = (0..count).map(|n| self.open(&home, &stage, n, role)).collect();
        let hosts: Vec<_> = plays.iter().map(|play| play.address.to_string()).collect();
        for play in &plays {
            play.standing.send_modify(|standing| standing.hosts.clone_from(&hosts));
        }
        let servers = plays.into_iter().map(|play| Server { play, answers_for_script: false });
        Deployment::new(servers.collect(), stage)
    }

    fn open(&self, home: &TaskRuntime, stage: &Arc<Stage>, member: usize, role: Role) -> Arc<Play> {
        let seat = take(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = seat.address;
        let is_streaming = self.is_streaming.unwrap_or(false);
        let standing = Standing::new(role, address.to_string(), self.said.clone(), is_streaming);
        let play = Arc::new(Play {
            stage: Arc::clone(stage),
            member,
            address,
            standing: watch::Sender::new(standing),
            log: watch::Sender::new(Log::default()),
            manner: self.manner.clone(),
            home: home.clone(),
            next_id: AtomicI32::new(1),
            tasks: Mutex::new(Tasks::default()),
        });
        play.listen(seat);
        play
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("role", &self.role).finish_non_exhaustive()
    }
}
