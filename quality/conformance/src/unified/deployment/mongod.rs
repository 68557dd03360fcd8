//! Real servers of the target's version and topology, with authentication if a test requires it.

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
    Candidate, DeploymentAddress, DeploymentKind, LOAD_BALANCED, LoadBalancerUris, allows,
    balancer::{self, BalancerProtocol},
};
use crate::{Context, unified::schema::Requirement};

/// Properties of servers to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ServersKey {
    version: Version,
    kind: DeploymentKind,
    auth: bool,
    /// Number of an unshared deployment.
    unshared: Option<usize>,
}

/// Servers that run until the process ends, or until [`stop_all`].
struct StartedServers {
    /// Stops the servers when it is dropped.
    _servers: Box<dyn Any + Send + Sync>,
    address: DeploymentAddress,
    /// Address of the load balancer in front of the `mongos` of a cluster.
    load_balanced: Option<DeploymentAddress>,
}

type SharedServers = Arc<OnceLock<Result<StartedServers, String>>>;

static STARTED: Mutex<BTreeMap<ServersKey, SharedServers>> = Mutex::new(BTreeMap::new());

/// Default of servers. These primaries are never killed: one that does not answer for a second is busy.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

const USER: &str = "runner";
const PASSWORD: &str = "secret";

/// Environment variable with the connection string of a running deployment, used instead of servers of version 6.0.
const OVERRIDE: &str = "STEADFAST_TEST_URI";

/// Candidates for a test, those without authentication first. The target's first topology is always a candidate, so that
/// its unmet requirement can be named. The others are candidates only if a requirement names them.
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
    let names = |kind| {
        move |expected: &Requirement| expected.0.topologies.is_some() && allows(expected, kind)
    };
    let kinds = kinds.iter().enumerate();
    let kinds: Vec<_> = kinds
        .filter(|&(at, &kind)| at == 0 || lists().flatten().any(names(kind)))
        .map(|(_, &kind)| kind)
        .collect();
    let requires_auth_always = lists().any(|list| list.iter().all(requires_auth));
    let requires_auth_sometimes = lists()
        .flatten()
        .any(|expected| requires_auth(expected) || requires_api_version_2(expected));
    let auth_modes = [(false, !requires_auth_always), (true, requires_auth_sometimes)];
    let unshared = context.unshared_deployment();
    let mut candidates: Vec<Candidate> = Vec::new();
    for auth in auth_modes.into_iter().filter_map(|(auth, expected)| expected.then_some(auth)) {
        for &kind in &kinds {
            let unshared = unshared.filter(|_| !auth && kind != DeploymentKind::Standalone);
            let key = ServersKey { version, kind, auth, unshared };
            candidates.push(Box::new(move || address(key)));
        }
    }
    candidates
}

fn requires_auth(requirement: &Requirement) -> bool {
    requirement.0.auth == Some(true)
}

/// Returns true for the requirement `acceptApiVersion2`. Servers with authentication have this parameter, too, so that
/// one case needs no deployment of its own.
fn requires_api_version_2(requirement: &Requirement) -> bool {
    let parameters = requirement.0.server_parameters.as_ref();
    parameters.is_some_and(|expected| expected.iter().any(|(name, _)| name == API_VERSION_2))
}

const API_VERSION_2: &str = "acceptApiVersion2";

/// Returns the address of servers. The first caller starts them. A sharded cluster and a load-balanced one are the same
/// servers.
fn address(key: ServersKey) -> Result<DeploymentAddress, String> {
    let load_balanced = key.kind == DeploymentKind::LoadBalanced;
    let kind = if load_balanced { DeploymentKind::Sharded } else { key.kind };
    let key = ServersKey { kind, ..key };
    let servers =
        Arc::clone(STARTED.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    let started = servers.get_or_init(|| start(key)).as_ref().map_err(Clone::clone)?;
    match (load_balanced, &started.load_balanced) {
        (true, Some(address)) => Ok(address.clone()),
        (true, None) => Err("these servers have no load balancer".to_owned()),
        (false, _) => Ok(started.address.clone()),
    }
}

/// Stops all servers, so that they do not compete with those of the next target. No test may be running on them.
pub(super) fn stop_all() {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn start(key: ServersKey) -> Result<StartedServers, String> {
    let options = options(key);
    match key.kind {
        DeploymentKind::ReplicaSet => {
            // One member is enough for tests of authentication.
            let members = if key.auth { 1 } else { 3 };
            let set = ReplicaSet::start(members, options).map_err(text)?;
            let address = with_credentials(&set.uri(), key.auth).into();
            Ok(StartedServers { _servers: Box::new(set), address, load_balanced: None })
        }
        DeploymentKind::Standalone => {
            let server = Mongod::standalone(options).map_err(text)?;
            let uri = format!("mongodb://{}/", server.address());
            let address = with_credentials(&uri, key.auth).into();
            Ok(StartedServers { _servers: Box::new(server), address, load_balanced: None })
        }
        DeploymentKind::Sharded | DeploymentKind::LoadBalanced => {
            let mut cluster = ClusterOptions::new().options(options).load_balanced(true);
            if key.auth {
                cluster = cluster.mongos_parameter(format!("{API_VERSION_2}=true"));
            }
            let cluster = ShardedCluster::start(cluster).map_err(text)?;
            let address = DeploymentAddress::from(with_credentials(&cluster.uri(), key.auth));
            let load_balanced = Some(start_load_balancers(&cluster, &address, key.auth)?);
            Ok(StartedServers { _servers: Box::new(cluster), address, load_balanced })
        }
    }
}

fn options(key: ServersKey) -> Options {
    let mut options = Options::new().version(key.version).election_timeout(ELECTION_TIMEOUT);
    if key.kind == DeploymentKind::Sharded {
        // A change stream waits for every shard. A shard without writes sends a no-op at this interval, by default 10 s.
        options = options.parameter("periodicNoopIntervalSecs=1");
    }
    if !key.auth {
        return options;
    }
    // Some tests have short time-outs for authentication: fewer iterations of the hash.
    options
        .parameter("scramSHA256IterationCount=5000")
        .parameter("scramIterationCount=5000")
        .parameter(format!("{API_VERSION_2}=true"))
        .user(User::new(USER, PASSWORD))
}

fn with_credentials(uri: &str, auth: bool) -> String {
    match auth {
        true => uri.replacen("mongodb://", &format!("mongodb://{USER}:{PASSWORD}@"), 1),
        false => uri.to_owned(),
    }
}

/// Starts two load balancers: one in front of all `mongos`, one in front of the first.
fn start_load_balancers(
    cluster: &ShardedCluster,
    plain: &DeploymentAddress,
    auth: bool,
) -> Result<DeploymentAddress, String> {
    let ports: Option<Vec<SocketAddr>> =
        cluster.mongos().iter().map(Mongos::load_balancer_address).collect();
    let ports = ports.ok_or("a mongos has no loadBalancerPort")?;
    let balancer_uri = |ports: Vec<SocketAddr>| {
        let balancer = balancer::start(ports, BalancerProtocol::ProxyHeader).map_err(text)?;
        Ok::<_, String>(with_credentials(&format!("mongodb://{balancer}/?{LOAD_BALANCED}"), auth))
    };
    let one_mongos_uri = balancer_uri(ports[..1].to_vec())?;
    let uri = balancer_uri(ports)?;
    let uris = LoadBalancerUris { one_mongos_uri, cluster_uri: plain.uri.clone() };
    Ok(DeploymentAddress { uri, load_balancer: Some(uris), lock: Arc::clone(&plain.lock) })
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
