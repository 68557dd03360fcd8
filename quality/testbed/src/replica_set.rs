//! A replica set of real servers on loopback, with short election time-outs.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use bson::{Bson, Document, Timestamp, doc};

use crate::{MemberConfig, Mongod, Options, Result, TestbedError, parallel, wire};

const DEFAULT_NAME: &str = "steadfast";
/// Bound on an election or an initial sync on a busy machine.
const STATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of `electionTimeoutMillis`.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running replica set.
///
/// Its members are killed when this value is dropped or the process ends. Members are numbered from 0.
#[derive(Debug)]
pub struct ReplicaSet {
    name: String,
    members: Vec<Mongod>,
}

/// Role of a replica set in a sharded cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterRole {
    None,
    ConfigServer,
    Shard,
}

impl ClusterRole {
    fn argument(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::ConfigServer => Some("--configsvr"),
            Self::Shard => Some("--shardsvr"),
        }
    }
}

impl ReplicaSet {
    /// Starts a set of 1 or 3 members (up to 7); returns when one is primary and the others are
    /// secondaries.
    ///
    /// # Errors
    ///
    /// Fails if the server programs are not available, or if a server does not start.
    pub fn start(members: usize, options: Options) -> Result<Self> {
        Self::start_as(DEFAULT_NAME, ClusterRole::None, members, &options)
    }

    /// Starts a set with this name and role in a sharded cluster.
    pub(crate) fn start_as(
        name: &str,
        role: ClusterRole,
        members: usize,
        options: &Options,
    ) -> Result<Self> {
        let mut arguments = vec!["--replSet", name, "--oplogSize", "64"];
        arguments.extend(role.argument());
        let start = |_| Mongod::start(options, &arguments);
        let members = parallel::try_collect((0..members).map(|member| move || start(member)))?;
        let set = Self { name: name.to_owned(), members };
        let preferred = set.preferred_primary(options);
        set.initiate(preferred, role, options)?;
        set.elect(&[preferred])?;
        set.wait_until_complete()?;
        if !options.members.is_empty() {
            // Another member may have been elected first. It steps down for the one with the higher priority.
            let is_preferred = || is_primary(&set.members[preferred]).then_some(());
            set.wait("the primary with the highest priority", is_preferred)?;
        }
        if role != ClusterRole::ConfigServer {
            set.create_users(options)?;
        }
        Ok(set)
    }

    /// Returns the set's name (`replicaSet`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a connection string that names all members and the set.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?replicaSet={}", self.hosts(), self.name)
    }

    /// The members' addresses, separated by commas.
    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.addresses().iter().map(SocketAddr::to_string).collect();
        hosts.join(",")
    }

    /// The members' addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Mongod::address).collect()
    }

    /// The members.
    pub fn members(&self) -> &[Mongod] {
        &self.members
    }

    /// Kills a member with SIGKILL, and waits for its end.
    ///
    /// # Errors
    ///
    /// Fails if the watchdog of the server does not reply.
    pub fn kill(&self, member: usize) -> Result<()> {
        self.members[member].kill()
    }

    /// Restarts a member with the same port and data. Returns when it listens.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start. The error contains the end of its log.
    pub fn restart(&self, member: usize) -> Result<()> {
        self.members[member].restart()
    }

    /// Freezes a member with SIGSTOP: its connections remain open, and it does not reply.
    ///
    /// # Errors
    ///
    /// Fails if the watchdog of the server does not reply.
    pub fn freeze(&self, member: usize) -> Result<()> {
        self.members[member].freeze()
    }

    /// Continues a frozen member with SIGCONT.
    ///
    /// # Errors
    ///
    /// Fails if the watchdog of the server does not reply.
    pub fn thaw(&self, member: usize) -> Result<()> {
        self.members[member].thaw()
    }

    /// Runs a command on a member; a reply with `ok: 0` is an error.
    ///
    /// # Errors
    ///
    /// Fails if the server does not reply, or if its reply has `ok: 0`.
    pub fn run_command(&self, member: usize, db: &str, command: Document) -> Result<Document> {
        self.members[member].run_command(db, command)
    }

    /// Makes the primary step down for three seconds, and returns its number.
    /// [`wait_for_primary`](Self::wait_for_primary) waits for the next primary.
    ///
    /// # Errors
    ///
    /// Fails if no primary steps down in time.
    pub fn step_down(&self) -> Result<usize> {
        // Longer than an election. A set of one member waits for all of it.
        const PAUSE_SECS: i32 = 3;
        let command = doc! {
            "replSetStepDown": PAUSE_SECS,
            "secondaryCatchUpPeriodSecs": 1,
            "force": true,
        };
        let mut last_error = None;
        let stepped_down = self.wait("a primary that steps down", || {
            let primary = self.members.iter().position(is_primary)?;
            match self.run_command(primary, "admin", command.clone()) {
                Ok(_) => Some(primary),
                // The member may have stepped down, or may still be becoming primary.
                Err(error) => {
                    last_error = Some(error);
                    None
                }
            }
        });
        stepped_down.map_err(|error| last_error.unwrap_or(error))
    }

    /// Makes the primary step down and another member call for an election at once. Returns the number of the new primary.
    ///
    /// # Errors
    ///
    /// Fails if no primary steps down, or if no other member is elected in time.
    pub fn hand_over(&self) -> Result<usize> {
        let primary = self.step_down()?;
        let others: Vec<usize> = (0..self.members.len()).filter(|&at| at != primary).collect();
        self.elect(&others)?;
        self.wait_for_primary()
    }

    /// Waits until a member reports that it is primary, and returns its number.
    ///
    /// # Errors
    ///
    /// Fails if no member becomes primary in time.
    pub fn wait_for_primary(&self) -> Result<usize> {
        self.wait("a primary", || self.members.iter().position(is_primary))
    }

    /// Waits until one member is primary, all others are secondaries, and the majority commit point of all includes the
    /// writes of the primary.
    ///
    /// A `mongod` without a majority commit point cannot roll back: it would crash if it became primary, were frozen, and
    /// had to roll back its writes.
    ///
    /// # Errors
    ///
    /// Fails if the set does not reach this state in time, or if a member has crashed.
    pub fn wait_until_complete(&self) -> Result<()> {
        let mut written = None;
        self.wait("a primary and secondaries with its writes", || {
            if let Some(ended) = self.members.iter().find_map(crash_of) {
                return Some(Err(TestbedError::new(ended)));
            }
            let hellos: Vec<Hello> = self.members.iter().filter_map(Hello::of).collect();
            let primary = hellos.iter().find(|hello| hello.is_primary())?;
            let secondaries = hellos.iter().filter(|hello| hello.is_secondary()).count();
            if secondaries + 1 != self.members.len() {
                return None;
            }
            // Later writes do not matter.
            let written = *written.get_or_insert(primary.written()?);
            hellos.iter().all(|hello| hello.majority_committed() >= Some(written)).then_some(Ok(()))
        })?
    }

    fn wait<T>(&self, what: &str, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if started.elapsed() > STATE_TIMEOUT {
                let secs = STATE_TIMEOUT.as_secs();
                let error = TestbedError::new(format!("{secs} seconds passed without {what}"));
                let states: Vec<String> = self.members.iter().map(state).collect();
                return Err(error.because(states.join(", ")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The first member with the highest priority.
    fn preferred_primary(&self, options: &Options) -> usize {
        let priority =
            |member: &usize| options.members.get(member).map_or(1.0, MemberConfig::priority_value);
        let members = (0..self.members.len()).rev();
        members.max_by(|a, b| priority(a).total_cmp(&priority(b))).unwrap_or(0)
    }

    /// Initiates the set on a member that can become primary, as the server requires.
    fn initiate(&self, member: usize, role: ClusterRole, options: &Options) -> Result<()> {
        let timeout = options.election_timeout.unwrap_or(ELECTION_TIMEOUT).as_millis();
        let timeout = i64::try_from(timeout).unwrap_or(i64::MAX);
        let config_of = |member| options.members.get(&member).cloned().unwrap_or_default();
        let members: Vec<Bson> = (0_i32..)
            .zip(self.addresses().iter().enumerate())
            .map(|(id, (member, address))| config_of(member).document(id, &address.to_string()))
            .map(Bson::from)
            .collect();
        let mut config = doc! {
            "_id": &self.name,
            "members": members,
            "settings": { "electionTimeoutMillis": timeout, "heartbeatIntervalMillis": 200 },
        };
        if role == ClusterRole::ConfigServer {
            config.insert("configsvr", true);
        }
        self.run_command(member, "admin", doc! { "replSetInitiate": config }).map(drop)
    }

    /// Makes one of the candidates call for an election (`replSetStepUp`), instead of waiting for the election time-out.
    fn elect(&self, candidates: &[usize]) -> Result<()> {
        let call = |&member: &usize| {
            self.run_command(member, "admin", doc! { "replSetStepUp": 1 }).is_ok()
        };
        self.wait("an election", || {
            (candidates.iter().any(call) || self.members.iter().any(is_primary)).then_some(())
        })
    }

    /// Creates the users, with a write concern of all members.
    fn create_users(&self, options: &Options) -> Result<()> {
        let primary = self.wait_for_primary()?;
        for user in &options.users {
            let (db, mut command) = user.creation();
            let members = i64::try_from(self.members.len()).unwrap_or(i64::MAX);
            command.insert("writeConcern", doc! { "w": members, "j": true });
            self.run_command(primary, db, command)?;
        }
        Ok(())
    }
}

/// Reply to `hello` of a member.
struct Hello(Document);

impl Hello {
    /// Returns `None` if the member does not reply within a second: it may be down or frozen.
    fn of(member: &Mongod) -> Option<Self> {
        wire::hello(member.address()).map(Self)
    }

    fn is_primary(&self) -> bool {
        self.0.get_bool("isWritablePrimary").unwrap_or(false)
    }

    fn is_secondary(&self) -> bool {
        self.0.get_bool("secondary").unwrap_or(false)
    }

    /// Time of its last write (`opTime`).
    fn written(&self) -> Option<Timestamp> {
        self.time_of("opTime")
    }

    /// Majority commit point as the member reports it (`majorityOpTime`).
    fn majority_committed(&self) -> Option<Timestamp> {
        self.time_of("majorityOpTime")
    }

    fn time_of(&self, what: &str) -> Option<Timestamp> {
        let time = self.0.get_document("lastWrite").ok()?.get_document(what).ok()?;
        time.get_timestamp("ts").ok()
    }
}

fn is_primary(member: &Mongod) -> bool {
    Hello::of(member).is_some_and(|hello| hello.is_primary())
}

/// Description of a crashed member. Waiting for it has no effect.
fn crash_of(member: &Mongod) -> Option<String> {
    let message = member.fatal_message()?;
    Some(format!("{} has ended: {message}", member.address()))
}

/// Description of a member's state.
fn state(member: &Mongod) -> String {
    let address = member.address();
    if let Some(ended) = crash_of(member) {
        return ended;
    }
    match Hello::of(member) {
        Some(hello) if hello.is_primary() => format!("{address} is primary"),
        Some(hello) if hello.is_secondary() => format!("{address} is a secondary"),
        Some(_) => format!("{address} is neither primary nor secondary"),
        None => format!("{address} does not answer"),
    }
}
