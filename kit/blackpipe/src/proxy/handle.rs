//! A proxy from its start to its end.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bson::Document;
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc},
    task::{JoinHandle, JoinSet},
};

use super::{
    dial::Dialer,
    error::ProxyError,
    event::Event,
    ledger::Ledger,
    line,
    members::{Members, Opened},
    rule::{Rule, RuleError},
    rulebook::{RuleState, Rulebook},
    shared::{Observer, Shared},
    upstream::Upstream,
};
use blackpipe_base::address::Listener;

/// A proxy to be started.
#[must_use]
pub struct ProxyBuilder {
    uri: String,
    listen: SocketAddr,
    advertised_host: Option<String>,
    rules: Vec<Rule>,
    observer: Option<Observer>,
}

impl ProxyBuilder {
    /// Where to listen, instead of on any free port of the loopback interface. The members of a
    /// replica set get this port and those after it, as far as they are free.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// The host that clients are told, instead of the address that is listened on.
    pub fn advertise(mut self, host: impl Into<String>) -> Self {
        self.advertised_host = Some(host.into());
        self
    }

    /// A rule that is in force from the start. May be given several times.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Rules that are in force from the start.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Calls this for all that happens. It is called from the tasks that carry messages, and should
    /// not keep them waiting.
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Asks the servers who they are, and listens. At least one must answer.
    pub async fn start(self) -> Result<Proxy, ProxyError> {
        let upstream: Upstream = self.uri.parse()?;
        let mut rulebook = Rulebook::default();
        for rule in self.rules {
            rulebook.add(rule)?;
        }
        let dialer = Dialer::new(&upstream)?;
        let hellos = greet(&dialer, &upstream).await?;
        let (sender, opened) = mpsc::unbounded_channel();
        let members = Members::new(self.listen, self.advertised_host, sender);
        for seed in &upstream.seeds {
            members.add_seed(seed)?;
        }
        let shared = Arc::new(Shared::new(members, dialer, self.observer));
        shared.with_rules(|rules| *rules = rulebook);
        learn(&shared, &hellos);
        let set_name = hellos.iter().flatten().find_map(|hello| hello.get_str("setName").ok());
        let ending = Arc::new(Notify::new());
        Ok(Proxy {
            set_name: set_name.map(str::to_owned),
            running: tokio::spawn(listen(Arc::clone(&shared), opened, Arc::clone(&ending))),
            ending,
            upstream,
            shared,
        })
    }
}

/// What each server that the connection string names says, if it answers.
async fn greet(dialer: &Dialer, upstream: &Upstream) -> Result<Vec<Option<Document>>, ProxyError> {
    let mut hellos = Vec::new();
    let mut problems = Vec::new();
    for seed in &upstream.seeds {
        match dialer.hello(seed).await {
            Ok(hello) => hellos.push(Some(hello)),
            Err(error) => {
                problems.push(format!("{seed}: {error}"));
                hellos.push(None);
            }
        }
    }
    match hellos.iter().any(Option::is_some) {
        true => Ok(hellos),
        false => Err(ProxyError::Unreachable(problems.join("; "))),
    }
}

/// Takes in what servers call themselves first, so that none of them is taken for another.
fn learn(shared: &Shared, hellos: &[Option<Document>]) {
    let seeds = shared.members.all();
    let greeted =
        || seeds.iter().zip(hellos).filter_map(|(seed, said)| Some((seed, said.as_ref()?)));
    for (seed, hello) in greeted() {
        let mut name_alone = Document::new();
        name_alone.extend(hello.get_str("me").ok().map(|me| ("me".to_owned(), me.into())));
        shared.members.learn(seed, &name_alone);
    }
    for (seed, hello) in greeted() {
        shared.members.learn(seed, hello);
    }
}

/// Accepts connections on every listener there is, and on those to come.
async fn listen(
    shared: Arc<Shared>,
    mut opened: mpsc::UnboundedReceiver<Opened>,
    ending: Arc<Notify>,
) {
    // Dropped with this task, and all connections with them.
    let mut listeners = JoinSet::new();
    loop {
        tokio::select! {
            Some(opened) = opened.recv() => {
                listeners.spawn(accept(Arc::clone(&shared), opened));
            }
            () = ending.notified() => break,
        }
    }
    listeners.shutdown().await;
}

async fn accept(shared: Arc<Shared>, Opened { listener, member }: Opened) {
    /// When there are no more file descriptors, some may come back.
    const PAUSE: Duration = Duration::from_millis(50);
    let Ok(listener) = TcpListener::from_std(listener).map(Listener::from) else { return };
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                connections.spawn(line::serve(
                    Arc::clone(&shared),
                    Arc::clone(&member),
                    client,
                    from,
                ));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// A running proxy. It ends, with all its connections, when this is dropped.
pub struct Proxy {
    upstream: Upstream,
    set_name: Option<String>,
    shared: Arc<Shared>,
    /// Told when it is to end in order.
    ending: Arc<Notify>,
    running: JoinHandle<()>,
}

impl Proxy {
    /// A proxy before the servers of a connection string. All members of a replica set come to stand
    /// behind it, unless the string says `directConnection=true`.
    pub fn before(uri: impl Into<String>) -> ProxyBuilder {
        ProxyBuilder {
            uri: uri.into(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertised_host: None,
            rules: Vec::new(),
            observer: None,
        }
    }

    /// The connection string for clients. It has the options of the servers' own that are the
    /// client's business, and no credentials.
    pub fn uri(&self) -> String {
        let members = self.shared.members.all();
        let mut hosts: Vec<_> = members.iter().map(|member| member.front.clone()).collect();
        if self.upstream.direct {
            hosts.truncate(1);
        }
        self.upstream.client_uri(&hosts, self.set_name.as_deref())
    }

    /// Whether the servers' connection string had credentials, which [`uri`](Self::uri) leaves out.
    pub fn left_out_credentials(&self) -> bool {
        self.upstream.had_credentials
    }

    /// Where it listens, and for which server, in the order in which they became known.
    pub fn members(&self) -> Vec<(SocketAddr, String)> {
        let members = self.shared.members.all();
        members.iter().map(|member| (member.listening, member.name.to_string())).collect()
    }

    /// Adds a rule, or replaces the one with its name; it holds from the next request on. Returns its
    /// name.
    ///
    /// # Panics
    ///
    /// If the rule contradicts itself; [`try_add`](Self::try_add) says so in another way.
    pub fn add(&self, rule: Rule) -> String {
        self.try_add(rule).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`add`](Self::add), for rules from elsewhere.
    pub fn try_add(&self, rule: Rule) -> Result<String, RuleError> {
        self.shared.with_rules(|rules| rules.add(rule))
    }

    /// Removes a rule; returns how often it was applied. What it stalls goes on.
    pub fn remove(&self, name: &str) -> Option<u64> {
        self.shared.with_rules(|rules| rules.remove(name))
    }

    /// Removes all rules. What they stall goes on.
    pub fn clear(&self) {
        self.shared.with_rules(Rulebook::clear);
    }

    /// The rules with their counts.
    pub fn rules(&self) -> Vec<RuleState> {
        self.shared.with_rules(|rules| rules.list().to_vec())
    }

    /// The ledger as it is now.
    pub fn ledger(&self) -> Ledger {
        self.shared.ledger().clone()
    }

    /// Begins a new ledger.
    pub fn forget(&self) {
        self.shared.forget();
    }

    /// Ends the proxy; returns when its ports are free.
    pub async fn shutdown(mut self) {
        self.ending.notify_one();
        // It fails only with the runtime.
        let _ = (&mut self.running).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("members", &self.members()).finish_non_exhaustive()
    }
}
