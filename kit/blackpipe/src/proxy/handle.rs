//! Starting, controlling and shutting down a proxy.

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
    connection,
    dial::Dialer,
    error::ProxyError,
    event::ProxyEvent,
    ledger::Ledger,
    members::{Members, NewListener},
    rule::{Rule, RuleError},
    rulebook::{RuleState, Rulebook},
    state::{Observer, ProxyState},
    upstream::Upstream,
};
use blackpipe_base::address::Listener;

/// Options of a proxy. [`Proxy::builder`] creates it.
///
/// ```no_run
/// use blackpipe::proxy::{Proxy, Reaction, Rule};
///
/// # async fn example() -> Result<(), blackpipe::proxy::ProxyError> {
/// let proxy = Proxy::builder("mongodb://localhost:27017")
///     .listen(([127, 0, 0, 1], 27100).into())
///     .rule(Rule::new(Reaction::cut_request()).command("find").nth(1))
///     .start()
///     .await?;
/// assert_eq!(proxy.members()[0].0.port(), 27100);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ProxyBuilder {
    uri: String,
    listen: SocketAddr,
    advertised_host: Option<String>,
    rules: Vec<Rule>,
    observer: Option<Observer>,
}

impl ProxyBuilder {
    /// Sets the listening address. Defaults to any free port of the loopback interface. Further
    /// members of a replica set get the following ports, if they are free.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets the host that clients see in connection strings and `hello`. Defaults to the listening
    /// address.
    pub fn advertise(mut self, host: impl Into<String>) -> Self {
        self.advertised_host = Some(host.into());
        self
    }

    /// Adds a rule that is in force from the start.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds rules that are in force from the start.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Registers an observer of all events. It runs in the tasks that forward messages and must not
    /// block.
    pub fn observe(mut self, observer: impl Fn(&ProxyEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Connects to the servers and starts to listen.
    ///
    /// # Errors
    ///
    /// Fails if the connection string or a rule is invalid, if no server replies to `hello`, or if
    /// an address cannot be bound.
    pub async fn start(self) -> Result<Proxy, ProxyError> {
        let upstream: Upstream = self.uri.parse()?;
        let mut rulebook = Rulebook::default();
        for rule in self.rules {
            rulebook.add(rule)?;
        }
        let dialer = Dialer::new(&upstream)?;
        let hellos = fetch_hellos(&dialer, &upstream).await?;
        let (sender, opened) = mpsc::unbounded_channel();
        let members = Members::new(self.listen, self.advertised_host, sender);
        for seed in &upstream.seeds {
            members.add_seed(seed)?;
        }
        let state = Arc::new(ProxyState::new(members, dialer, self.observer));
        state.with_rules(|rules| *rules = rulebook);
        update_from_hello(&state, &hellos);
        let set_name = hellos.iter().flatten().find_map(|hello| hello.get_str("setName").ok());
        let shutdown_signal = Arc::new(Notify::new());
        Ok(Proxy {
            set_name: set_name.map(str::to_owned),
            task: tokio::spawn(listen(Arc::clone(&state), opened, Arc::clone(&shutdown_signal))),
            shutdown_signal,
            upstream,
            state,
        })
    }
}

/// Sends `hello` to each server of the connection string. Fails if none replies.
async fn fetch_hellos(
    dialer: &Dialer,
    upstream: &Upstream,
) -> Result<Vec<Option<Document>>, ProxyError> {
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

/// Adds the servers' own names (`me`) first, so that one server is not added twice under two names.
fn update_from_hello(state: &ProxyState, hellos: &[Option<Document>]) {
    let seeds = state.members.all();
    let greeted =
        || seeds.iter().zip(hellos).filter_map(|(seed, hello)| Some((seed, hello.as_ref()?)));
    for (seed, hello) in greeted() {
        let mut name_alone = Document::new();
        name_alone.extend(hello.get_str("me").ok().map(|me| ("me".to_owned(), me.into())));
        state.members.update_from_hello(seed, &name_alone);
    }
    for (seed, hello) in greeted() {
        state.members.update_from_hello(seed, hello);
    }
}

/// Accepts connections on all listeners, including those added later.
async fn listen(
    state: Arc<ProxyState>,
    mut opened: mpsc::UnboundedReceiver<NewListener>,
    shutdown_signal: Arc<Notify>,
) {
    // Dropping the set ends all connections.
    let mut listeners = JoinSet::new();
    loop {
        tokio::select! {
            Some(opened) = opened.recv() => {
                listeners.spawn(accept(Arc::clone(&state), opened));
            }
            () = shutdown_signal.notified() => break,
        }
    }
    listeners.shutdown().await;
}

async fn accept(state: Arc<ProxyState>, NewListener { listener, member }: NewListener) {
    /// Pause after a failed accept, for example without free file descriptors.
    const PAUSE: Duration = Duration::from_millis(50);
    let Ok(listener) = TcpListener::from_std(listener).map(Listener::from) else { return };
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                connections.spawn(connection::serve(
                    Arc::clone(&state),
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

/// A running proxy. Dropping it closes all connections.
///
/// ```
/// use blackpipe::{
///     proxy::{Proxy, Reaction, Rule},
///     server::{Role, Server},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A scripted server stands in for a real one here.
/// let server = Server::lenient(Role::Standalone);
/// let proxy = Proxy::builder(server.address()).start().await?;
/// let rule = proxy.add(Rule::new(Reaction::lose_reply()).command("insert").times(1));
/// // … connect the application to `proxy.uri()` and insert a document …
/// assert_eq!(proxy.remove(&rule), Some(0), "no insert arrived in this example");
/// proxy.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct Proxy {
    upstream: Upstream,
    set_name: Option<String>,
    state: Arc<ProxyState>,
    /// Signals an orderly shutdown.
    shutdown_signal: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Creates the builder of a proxy in front of the servers of a connection string. The proxy
    /// fronts all members of a replica set, except with `directConnection=true`.
    pub fn builder(uri: impl Into<String>) -> ProxyBuilder {
        ProxyBuilder {
            uri: uri.into(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertised_host: None,
            rules: Vec::new(),
            observer: None,
        }
    }

    /// Returns the connection string for clients. It has the client options of the original one,
    /// and no credentials.
    pub fn uri(&self) -> String {
        let members = self.state.members.all();
        let mut hosts: Vec<_> =
            members.iter().map(|member| member.client_address.clone()).collect();
        if self.upstream.direct {
            hosts.truncate(1);
        }
        self.upstream.client_uri(&hosts, self.set_name.as_deref())
    }

    /// Returns `true` if credentials of the original connection string are missing in
    /// [`uri`](Self::uri).
    pub fn removed_credentials(&self) -> bool {
        self.upstream.had_credentials
    }

    /// Returns listening address and server of each member, in the order of discovery.
    pub fn members(&self) -> Vec<(SocketAddr, String)> {
        let members = self.state.members.all();
        members.iter().map(|member| (member.listening, member.name.to_string())).collect()
    }

    /// Adds a rule, or replaces the one of the same name. It applies from the next request on.
    /// Returns its name.
    ///
    /// # Panics
    ///
    /// Panics if the rule is invalid; see [`try_add`](Self::try_add).
    pub fn add(&self, rule: Rule) -> String {
        self.try_add(rule).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Adds a rule like [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// Fails if the rule is invalid.
    pub fn try_add(&self, rule: Rule) -> Result<String, RuleError> {
        self.state.with_rules(|rules| rules.add(rule))
    }

    /// Removes a rule and resumes the messages that it stalled. Returns how often it applied.
    pub fn remove(&self, name: &str) -> Option<u64> {
        self.state.with_rules(|rules| rules.remove(name))
    }

    /// Removes all rules and resumes stalled messages.
    pub fn clear_rules(&self) {
        self.state.with_rules(Rulebook::clear);
    }

    /// Returns the rules with their counts.
    pub fn rules(&self) -> Vec<RuleState> {
        self.state.with_rules(|rules| rules.list().to_vec())
    }

    /// Returns a copy of the ledger.
    pub fn ledger(&self) -> Ledger {
        self.state.ledger().clone()
    }

    /// Removes all records from the ledger.
    pub fn clear_ledger(&self) {
        self.state.clear_ledger();
    }

    /// Shuts the proxy down. Returns when its ports are free.
    pub async fn shutdown(mut self) {
        self.shutdown_signal.notify_one();
        // Fails only if the runtime shuts down.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("members", &self.members()).finish_non_exhaustive()
    }
}
