//! Real servers: of one version, of the kinds that the target names, with authentication where a test requires it.

use std::{
    any::Any,
    collections::BTreeMap,
    env,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use testbed::{ClusterOptions, Mongod, Mongos, Options, ReplicaSet, ShardedCluster, User, Version};

use super::{
    Address, Balanced, Candidate, DeploymentKind, LOAD_BALANCED, allows,
    balancer::{self, BalancerProtocol},
};
use crate::{Context, unified::schema::Requirement};

/// Servers to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ServersKey {
    version: Version,
    kind: DeploymentKind,
    login: bool,
    /// Number of a deployment other than the shared one.
    apart: Option<usize>,
}

/// Servers that run until the process ends, or until [`stop_all`].
struct StartedServers {
    /// Stops them when it is dropped.
    _servers: Box<dyn Any + Send + Sync>,
    address: Address,
    /// Address of the load balancer in front of the `mongos` of a cluster.
    balanced: Option<Address>,
}

type Slot = Arc<OnceLock<Result<StartedServers, String>>>;

static STARTED: Mutex<BTreeMap<ServersKey, Slot>> = Mutex::new(BTreeMap::new());

/// Default of servers. Nothing kills these primaries: one that does not answer for a second is only busy.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

const USER: &str = "runner";
const PASSWORD: &str = "secret";

/// Names a deployment that runs already, instead of servers of version 6.0.
const OVERRIDE: &str = "STEADFAST_TEST_URI";

/// Candidates for a test, those without authentication first. The target's first kind is always among them, to say
/// what is lacking; the others only if a requirement names them.
pub(super) fn candidates(
    context: &Context,
    version: Version,
    kinds: &[DeploymentKind],
    requirements: [Option<&[Requirement]>; 2],
) -> Vec<Candidate> {
    if let Some(uri) = env::var(OVERRIDE).ok().filter(|_| version == Version::V6_0) {
        return vec![Box::new(move || Ok(uri.clone().into()))];
    }
    let lists = || requirements.into_iter().flatten();
    let names =
        |kind| move |wanted: &Requirement| wanted.0.topologies.is_some() && allows(wanted, kind);
    let kinds = kinds.iter().enumerate();
    let kinds: Vec<_> = kinds
        .filter(|&(at, &kind)| at == 0 || lists().flatten().any(names(kind)))
        .map(|(_, &kind)| kind)
        .collect();
    let secured_alone = lists().any(|list| list.iter().all(wants_login));
    let secured_too =
        lists().flatten().any(|wanted| wants_login(wanted) || wants_api_version_2(wanted));
    let logins = [(false, !secured_alone), (true, secured_too)];
    let apart = context.other_deployment();
    let mut candidates: Vec<Candidate> = Vec::new();
    for login in logins.into_iter().filter_map(|(login, wanted)| wanted.then_some(login)) {
        for &kind in &kinds {
            let apart = apart.filter(|_| !login && kind != DeploymentKind::Standalone);
            let key = ServersKey { version, kind, login, apart };
            candidates.push(Box::new(move || address(key)));
        }
    }
    candidates
}

fn wants_login(requirement: &Requirement) -> bool {
    requirement.0.auth == Some(true)
}

/// Servers with authentication are started with `acceptApiVersion2`, too: one more deployment for one case less.
fn wants_api_version_2(requirement: &Requirement) -> bool {
    let parameters = requirement.0.server_parameters.as_ref();
    parameters.is_some_and(|wanted| wanted.iter().any(|(name, _)| name == API_VERSION_2))
}

const API_VERSION_2: &str = "acceptApiVersion2";

/// Address of the servers, which are started by the first caller. A sharded cluster and one behind a load balancer are
/// the same servers.
fn address(key: ServersKey) -> Result<Address, String> {
    let balanced = key.kind == DeploymentKind::LoadBalanced;
    let kind = if balanced { DeploymentKind::Sharded } else { key.kind };
    let key = ServersKey { kind, ..key };
    let slot =
        Arc::clone(STARTED.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    let started = slot.get_or_init(|| start(key)).as_ref().map_err(Clone::clone)?;
    match (balanced, &started.balanced) {
        (true, Some(address)) => Ok(address.clone()),
        (true, None) => Err("these servers have no load balancer".to_owned()),
        (false, _) => Ok(started.address.clone()),
    }
}

/// Stops all servers, so that those of the next target have the machine to themselves. Tests that run on them fail.
pub(super) fn stop_all() {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn start(key: ServersKey) -> Result<StartedServers, String> {
    let options = options(key);
    match key.kind {
        DeploymentKind::ReplicaSet => {
            // One member is enough for the tests of authentication.
            let members = if key.login { 1 } else { 3 };
            let set = ReplicaSet::start(members, options).map_err(text)?;
            let address = with_login(&set.uri(), key.login).into();
            Ok(StartedServers { _servers: Box::new(set), address, balanced: None })
        }
        DeploymentKind::Standalone => {
            let server = Mongod::standalone(options).map_err(text)?;
            let uri = format!("mongodb://{}/", server.address());
            let address = with_login(&uri, key.login).into();
            Ok(StartedServers { _servers: Box::new(server), address, balanced: None })
        }
        DeploymentKind::Sharded | DeploymentKind::LoadBalanced => {
            let mut cluster = ClusterOptions::new().options(options).load_balanced(true);
            if key.login {
                cluster = cluster.mongos_parameter(format!("{API_VERSION_2}=true"));
            }
            let cluster = ShardedCluster::start(cluster).map_err(text)?;
            let address = Address::from(with_login(&cluster.uri(), key.login));
            let balanced = Some(balanced(&cluster, &address, key.login)?);
            Ok(StartedServers { _servers: Box::new(cluster), address, balanced })
        }
    }
}

fn options(key: ServersKey) -> Options {
    let mut options = Options::new().version(key.version).election_timeout(ELECTION_TIMEOUT);
    if key.kind == DeploymentKind::Sharded {
        // A change stream waits for each shard, and a shard without writes is heard of at this interval, by default 10 s.
        options = options.parameter("periodicNoopIntervalSecs=1");
    }
    if !key.login {
        return options;
    }
    // Some tests leave little time for authentication: fewer iterations of the hash.
    options
        .parameter("scramSHA256IterationCount=5000")
        .parameter("scramIterationCount=5000")
        .parameter(format!("{API_VERSION_2}=true"))
        .user(User::new(USER, PASSWORD))
}

fn with_login(uri: &str, login: bool) -> String {
    match login {
        true => uri.replacen("mongodb://", &format!("mongodb://{USER}:{PASSWORD}@"), 1),
        false => uri.to_owned(),
    }
}

/// Starts two load balancers: one in front of all `mongos`, one in front of the first.
fn balanced(cluster: &ShardedCluster, plain: &Address, login: bool) -> Result<Address, String> {
    let ports: Option<Vec<SocketAddr>> =
        cluster.mongos().iter().map(Mongos::load_balancer_address).collect();
    let ports = ports.ok_or("a mongos has no loadBalancerPort")?;
    let balancer_uri = |ports: Vec<SocketAddr>| {
        let balancer = balancer::start(ports, BalancerProtocol::ProxyHeader).map_err(text)?;
        Ok::<_, String>(with_login(&format!("mongodb://{balancer}/?{LOAD_BALANCED}"), login))
    };
    let one_mongos_uri = balancer_uri(ports[..1].to_vec())?;
    let uri = balancer_uri(ports)?;
    let balanced = Balanced { one_mongos_uri, cluster_uri: plain.uri.clone() };
    Ok(Address { uri, balanced: Some(balanced), turn: Arc::clone(&plain.turn) })
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
