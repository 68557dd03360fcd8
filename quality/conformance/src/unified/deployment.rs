//! Deployments of tests, with the properties that requirements name. Each is started when a test first requires it.

mod balancer;
mod embedded;
mod mongod;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bson::{Document, doc};
use steadfast::{
    Client,
    error::Error,
    options::{ClientOptions, ServerAddress},
};
use tokio::runtime::Runtime;

use super::{
    requirements,
    schema::{Requirement, TestFile, TopologyName, Version},
};
use crate::{Context, Target};

/// A deployment with the runner's clients.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) uri: String,
    pub(super) load_balancer: Option<LoadBalancerUris>,
    /// Client for set-up and checks. On a sharded cluster it is connected to the first mongos only: the format requires a
    /// single mongos for the initial data.
    pub(super) client: Client,
    /// Every mongos of a sharded cluster, also behind a load balancer. Empty for other topologies.
    pub(super) mongos: Vec<MongosClient>,
    pub(super) facts: DeploymentFacts,
    /// Locked by the running test.
    pub(super) lock: Arc<Mutex<()>>,
}

/// A mongos with a client that is connected only to it.
#[derive(Clone, Debug)]
pub(super) struct MongosClient {
    pub(super) address: ServerAddress,
    pub(super) client: Client,
}

/// Address of a deployment.
#[derive(Clone, Debug)]
struct DeploymentAddress {
    uri: String,
    load_balancer: Option<LoadBalancerUris>,
    /// Locked by the running test. Several addresses of the same servers share it.
    lock: Arc<Mutex<()>>,
}

/// Further connection strings of a deployment behind a load balancer.
#[derive(Clone, Debug)]
pub(super) struct LoadBalancerUris {
    /// Load balancer in front of the first mongos only.
    pub(super) one_mongos_uri: String,
    /// All mongos without a load balancer, for the runner's clients.
    cluster_uri: String,
}

impl From<String> for DeploymentAddress {
    fn from(uri: String) -> Self {
        Self { uri, load_balancer: None, lock: Arc::default() }
    }
}

/// Kind of a deployment that the runner starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeploymentKind {
    ReplicaSet,
    Sharded,
    Standalone,
    LoadBalanced,
}

impl DeploymentKind {
    const ALL: [Self; 4] = [Self::ReplicaSet, Self::Sharded, Self::Standalone, Self::LoadBalanced];

    fn topology(self) -> TopologyName {
        match self {
            Self::ReplicaSet => TopologyName::ReplicaSet,
            Self::Sharded => TopologyName::Sharded,
            Self::Standalone => TopologyName::Single,
            Self::LoadBalanced => TopologyName::LoadBalanced,
        }
    }
}

/// Properties of a deployment that requirements name.
#[derive(Clone, Debug)]
pub(super) struct DeploymentFacts {
    pub(super) topology: TopologyName,
    pub(super) version: Version,
    pub(super) auth: bool,
    pub(super) parameters: Document,
}

/// Reason why there is no deployment for a test.
pub(super) enum NoDeployment {
    /// No deployment meets the requirements: the unmet part.
    UnmetRequirement(String),
    /// A deployment could not be started or reached.
    Unreachable(String),
}

impl Deployment {
    /// Returns the deployment for a test of a file.
    pub(super) fn for_test(
        context: &Context,
        file: &TestFile,
        test: Option<&[Requirement]>,
    ) -> Result<Self, NoDeployment> {
        let of_file = file.run_on_requirements.as_deref();
        let suits = |deployment: &Self| {
            requirements::check(of_file, &deployment.facts)?;
            requirements::check(test, &deployment.facts)
        };
        let mut missing = String::new();
        for address in candidates(context, [of_file, test]) {
            let deployment = address().and_then(Self::at).map_err(NoDeployment::Unreachable)?;
            match suits(&deployment) {
                Ok(()) => return Ok(deployment),
                Err(part) => missing = part,
            }
        }
        Err(NoDeployment::UnmetRequirement(missing))
    }

    /// Returns the deployment at this address. Its properties are requested once.
    fn at(address: DeploymentAddress) -> Result<Self, String> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deployment) = known.get(&address.uri) {
            return Ok(deployment.clone());
        }
        let uri = address.uri.clone();
        let found = background().block_on(Self::connect(address));
        let found = found.map_err(|error| format!("{uri}: {error}"))?;
        known.insert(uri, found.clone());
        Ok(found)
    }

    async fn connect(address: DeploymentAddress) -> Result<Self, Error> {
        let DeploymentAddress { uri, load_balancer, lock } = address;
        let own_uri = load_balancer.as_ref().map_or(&uri, |uris| &uris.cluster_uri);
        let client = Client::with_uri_str(own_uri).await?;
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await?;
        let is_mongos = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
        let mongos = match is_mongos && !own_uri.contains(LOAD_BALANCED) {
            true => mongos_clients(own_uri).await?,
            false => Vec::new(),
        };
        let client = mongos.first().map_or(client, |first| first.client.clone());
        let admin = client.database("admin");
        let build = admin.run_command(doc! { "buildInfo": 1 }).await?;
        let parameters = admin.run_command(doc! { "getParameter": "*" }).await?;
        let options = admin.run_command(doc! { "getCmdLineOpts": 1 }).await?;
        let facts = DeploymentFacts {
            topology: topology(&uri, &hello),
            version: version(&build),
            auth: requires_authentication(&options),
            parameters,
        };
        Ok(Self { uri, load_balancer, client, mongos, facts, lock })
    }

    /// Returns true if commands go through mongos.
    pub(super) fn is_sharded(&self) -> bool {
        matches!(self.facts.topology, TopologyName::Sharded | TopologyName::LoadBalanced)
    }

    /// Returns the runner's clients of all servers that run transactions: one for each mongos.
    pub(super) fn transaction_clients(&self) -> Vec<&Client> {
        match &*self.mongos {
            [] => vec![&self.client],
            mongos => mongos.iter().map(|mongos| &mongos.client).collect(),
        }
    }
}

const LOAD_BALANCED: &str = "loadBalanced=true";

/// Deployments by their connection strings.
static KNOWN: Mutex<BTreeMap<String, Deployment>> = Mutex::new(BTreeMap::new());

/// Stops all real servers that the runner has started. No test may be running on them.
pub(super) fn stop_servers() {
    let known = std::mem::take(&mut *KNOWN.lock().unwrap_or_else(PoisonError::into_inner));
    for deployment in known.into_values() {
        let mongos = deployment.mongos.into_iter().map(|mongos| mongos.client);
        for client in mongos.chain([deployment.client]) {
            background().block_on(client.shutdown().immediate(true).into_future());
        }
    }
    mongod::stop_all();
}

async fn mongos_clients(uri: &str) -> Result<Vec<MongosClient>, Error> {
    let options = ClientOptions::parse(uri).await?;
    let mut clients = Vec::new();
    for address in &options.hosts {
        let mut options = options.clone();
        options.hosts = vec![address.clone()];
        let client = Client::with_options(options)?;
        clients.push(MongosClient { address: address.clone(), client });
    }
    Ok(clients)
}

/// Runtime of the runner's clients, which outlive the runtimes of tests.
fn background() -> &'static Runtime {
    static BACKGROUND: OnceLock<Runtime> = OnceLock::new();
    BACKGROUND.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime with one thread")
    })
}

/// Returns the address of a deployment, and starts the deployment if necessary.
type Candidate = Box<dyn Fn() -> Result<DeploymentAddress, String>>;

/// Deployments that may meet the requirements, the most likely first. One requirement of each list must be met.
fn candidates(context: &Context, requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    match &context.target {
        Target::Mongod6_0 => {
            let kinds = [DeploymentKind::ReplicaSet, DeploymentKind::Standalone];
            mongod::candidates(context, testbed::Version::V6_0, &kinds, requirements)
        }
        Target::Mongod8_2 => mongod_8_2(context, DeploymentKind::ReplicaSet, requirements),
        Target::Mongod8_2Sharded => mongod_8_2(context, DeploymentKind::Sharded, requirements),
        Target::Mongod8_2Standalone => {
            mongod_8_2(context, DeploymentKind::Standalone, requirements)
        }
        Target::Mongod8_2LoadBalanced => {
            mongod_8_2(context, DeploymentKind::LoadBalanced, requirements)
        }
        Target::Embedded => embedded::candidates(requirements),
        Target::EmbeddedSharded => embedded::sharded_candidates(requirements),
        Target::Uri(uri) => {
            let uri = uri.clone();
            vec![Box::new(move || Ok(uri.clone().into()))]
        }
    }
}

fn mongod_8_2(
    context: &Context,
    kind: DeploymentKind,
    requirements: [Option<&[Requirement]>; 2],
) -> Vec<Candidate> {
    mongod::candidates(context, testbed::Version::V8_2, &[kind], requirements)
}

/// Returns true if the requirement allows the topology of this kind of deployment. Other parts are not compared.
fn allows(Requirement(expected): &Requirement, kind: DeploymentKind) -> bool {
    let met = |&name: &TopologyName| requirements::is_met(name, kind.topology());
    expected.topologies.as_ref().is_none_or(|names| names.iter().any(met))
}

fn topology(uri: &str, hello: &Document) -> TopologyName {
    if uri.contains(LOAD_BALANCED) {
        TopologyName::LoadBalanced
    } else if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        TopologyName::Sharded
    } else if hello.contains_key("setName") {
        TopologyName::ReplicaSet
    } else {
        TopologyName::Single
    }
}

fn version(build: &Document) -> Version {
    let parts = build.get_array("versionArray").map(Vec::as_slice).unwrap_or_default();
    let part = |at: usize| {
        let number = parts.get(at).and_then(bson::Bson::as_i32);
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    };
    Version(part(0), part(1), part(2))
}

fn requires_authentication(options: &Document) -> bool {
    let parsed = options.get_document("parsed");
    let security = parsed.and_then(|parsed| parsed.get_document("security"));
    security.is_ok_and(|security| {
        security.get_str("authorization").is_ok_and(|is| is == "enabled")
            || security.contains_key("keyFile")
    })
}
