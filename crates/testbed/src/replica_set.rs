//! A replica set of real servers on loopback, with quick elections.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};

use crate::{Mongod, Options, Result, TestbedError, wire};

const NAME: &str = "steadfast";
/// How long an election or an initial synchronisation may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running replica set.
///
/// Like a [`Mongod`], it ends with this value or with the process. Members are numbered from 0.
#[derive(Debug)]
pub struct ReplicaSet {
    members: Vec<Mongod>,
}

impl ReplicaSet {
    /// Starts a set of 1 or 3 members (up to 7); returns when one is primary and the others are
    /// secondaries.
    pub fn start(members: usize, options: Options) -> Result<Self> {
        let set = Self { members: start_members(members, &options)? };
        set.initiate()?;
        set.wait_until_complete()?;
        if options.is_secured() {
            set.create_users(&options)?;
            set.secure(&options)?;
            set.wait_until_complete()?;
        }
        Ok(set)
    }

    /// The set's name.
    pub fn name(&self) -> &str {
        NAME
    }

    /// A connection string that names all members and the set.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.addresses().iter().map(SocketAddr::to_string).collect();
        format!("mongodb://{}/?replicaSet={NAME}", hosts.join(","))
    }

    /// The members' addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Mongod::address).collect()
    }

    /// The members.
    pub fn members(&self) -> &[Mongod] {
        &self.members
    }

    /// Kills a member with SIGKILL; returns when it is gone.
    pub fn kill(&self, member: usize) -> Result<()> {
        self.members[member].kill()
    }

    /// Starts a member again on its port and data; returns when it listens.
    pub fn restart(&self, member: usize) -> Result<()> {
        self.members[member].restart()
    }

    /// Stops a member with SIGSTOP: its connections stay open and nothing answers.
    pub fn freeze(&self, member: usize) -> Result<()> {
        self.members[member].freeze()
    }

    /// Lets a frozen member go on.
    pub fn thaw(&self, member: usize) -> Result<()> {
        self.members[member].thaw()
    }

    /// Runs a command on a member; a reply with `ok: 0` is an error.
    pub fn run_command(&self, member: usize, db: &str, command: Document) -> Result<Document> {
        self.members[member].run_command(db, command)
    }

    /// Makes the primary step down for three seconds and returns its number. A successor is
    /// awaited with [`wait_for_primary`](Self::wait_for_primary).
    pub fn step_down(&self) -> Result<usize> {
        // Longer than an election takes; short for a set of one, which waits it out.
        const PAUSE_SECS: i32 = 3;
        let primary = self.wait_for_primary()?;
        let command = doc! {
            "replSetStepDown": PAUSE_SECS,
            "secondaryCatchUpPeriodSecs": 1,
            "force": true,
        };
        self.run_command(primary, "admin", command)?;
        Ok(primary)
    }

    /// Waits until a member says that it is primary, and returns its number. A frozen member is
    /// not asked for long.
    pub fn wait_for_primary(&self) -> Result<usize> {
        self.wait(PATIENCE, "a primary", || {
            (0..self.members.len()).find(|&member| self.says(member, "isWritablePrimary"))
        })
    }

    /// Waits until one member is primary and all others are secondaries.
    pub fn wait_until_complete(&self) -> Result<()> {
        self.wait_until_complete_for(PATIENCE)
    }

    /// The same, but no longer than this.
    pub fn wait_until_complete_for(&self, patience: Duration) -> Result<()> {
        self.wait(patience, "a primary and its secondaries", || {
            let count = |what| (0..self.members.len()).filter(|&at| self.says(at, what)).count();
            let (primaries, secondaries) = (count("isWritablePrimary"), count("secondary"));
            (primaries == 1 && secondaries == self.members.len() - 1).then_some(())
        })
    }

    /// The members that are neither primary nor secondary, or do not answer.
    pub fn stragglers(&self) -> Vec<usize> {
        let is_well = |&member: &usize| {
            self.says(member, "isWritablePrimary") || self.says(member, "secondary")
        };
        (0..self.members.len()).filter(|member| !is_well(member)).collect()
    }

    fn says(&self, member: usize, what: &str) -> bool {
        let hello = wire::hello(self.members[member].address());
        hello.is_some_and(|hello| hello.get_bool(what).unwrap_or(false))
    }

    fn wait<T>(
        &self,
        patience: Duration,
        what: &str,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if started.elapsed() > patience {
                let secs = patience.as_secs();
                let error = TestbedError::new(format!("{secs} seconds passed without {what}"));
                let states: Vec<String> = self.members.iter().map(state).collect();
                return Err(error.because(states.join(", ")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn initiate(&self) -> Result<()> {
        let members: Vec<Bson> = (0_i32..)
            .zip(self.addresses())
            .map(|(id, address)| doc! { "_id": id, "host": address.to_string() }.into())
            .collect();
        let config = doc! {
            "_id": NAME,
            "members": members,
            "settings": { "electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200 },
        };
        self.run_command(0, "admin", doc! { "replSetInitiate": config }).map(drop)
    }

    fn create_users(&self, options: &Options) -> Result<()> {
        let primary = self.wait_for_primary()?;
        for user in &options.users {
            let (db, command) = user.creation(self.members.len());
            self.run_command(primary, db, command)?;
        }
        Ok(())
    }

    fn secure(&self, options: &Options) -> Result<()> {
        // All are stopped first: those with a key and those without refuse each other.
        self.members.iter().try_for_each(Mongod::kill)?;
        for member in &self.members {
            let key_file = member.write_key_file()?;
            member.secure(&options.securing_configuration(Some(&key_file)))?;
        }
        Ok(())
    }
}

/// What can be seen of a member.
fn state(member: &Mongod) -> String {
    let address = member.address();
    let said = |hello: &Document, what| hello.get_bool(what).unwrap_or(false);
    match wire::hello(address) {
        Some(hello) if said(&hello, "isWritablePrimary") => format!("{address} is primary"),
        Some(hello) if said(&hello, "secondary") => format!("{address} is a secondary"),
        Some(_) => format!("{address} is neither primary nor secondary"),
        None => format!("{address} does not answer"),
    }
}

/// Starts the members side by side, since each takes a while to get going.
fn start_members(count: usize, options: &Options) -> Result<Vec<Mongod>> {
    let start = || Mongod::start(options, &["--replSet", NAME, "--oplogSize", "64"]);
    thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
        let panicked = |_| Err(TestbedError::new("the start of a member panicked"));
        starting.into_iter().map(|member| member.join().unwrap_or_else(panicked)).collect()
    })
}
