//! The deployments that tests run on, with the facts that requirements are about.
//!
//! Each is started when a test first requires it.

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

/// A deployment with clients of the runner's own.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) uri: String,
    pub(super) balanced: Option<Balanced>,
    /// Client for set-up and for checks. On a sharded cluster it is connected to the first mongos alone: the format
    /// asks for a single mongos that handles the initial data.
    pub(super) client: Client,
    /// Every mongos of a sharded cluster, also behind a load balancer. Empty for other deployments.
    pub(super) mongos: Vec<MongosClient>,
    pub(super) facts: Facts,
    /// Held by the test that runs on it.
    pub(super) turn: Arc<Mutex<()>>,
}

/// A mongos with a client that is connected to it alone.
#[derive(Clone, Debug)]
pub(super) struct MongosClient {
    pub(super) address: ServerAddress,
    pub(super) client: Client,
}

/// Address of a deployment.
#[derive(Clone, Debug)]
struct Address {
    uri: String,
    balanced: Option<Balanced>,
    /// Held by the test that runs on its servers, which may have several addresses.
    turn: Arc<Mutex<()>>,
}

/// A deployment behind a load balancer whose mongos have known addresses.
#[derive(Clone, Debug)]
pub(super) struct Balanced {
    /// The connection string of a load balancer in front of the first mongos alone.
    pub(super) one_mongos_uri: String,
    /// The connection string of all mongos, without a load balancer: for the runner's own clients.
    cluster_uri: String,
}

impl From<String> for Address {
    fn from(uri: String) -> Self {
        Self { uri, balanced: None, turn: Arc::default() }
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

/// What requirements are about.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) topology: TopologyName,
    pub(super) version: Version,
    pub(super) auth: bool,
    pub(super) parameters: Document,
}

/// Why there is no deployment for a test.
pub(super) enum NoDeployment {
    /// None meets its requirements: what is lacking.
    Unmet(String),
    /// One could not be reached.
    Broken(String),
}

impl Deployment {
    /// The deployment for a test of a file.
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
        let mut lacking = String::new();
        for address in candidates(context, [of_file, test]) {
            let deployment = address().and_then(Self::at).map_err(NoDeployment::Broken)?;
            match suits(&deployment) {
                Ok(()) => return Ok(deployment),
                Err(what) => lacking = what,
            }
        }
        Err(NoDeployment::Unmet(lacking))
    }

    /// The deployment at this address. Its facts are requested once.
    fn at(address: Address) -> Result<Self, String> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deployment) = known.get(&address.uri) {
            return Ok(deployment.clone());
        }
        let uri = address.uri.clone();
        let found = background().block_on(Self::ask(address));
        let found = found.map_err(|error| format!("{uri}: {error}"))?;
        known.insert(uri, found.clone());
        Ok(found)
    }

    async fn ask(Address { uri, balanced, turn }: Address) -> Result<Self, Error> {
        let own_uri = balanced.as_ref().map_or(&uri, |balanced| &balanced.cluster_uri);
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
        let facts = Facts {
            topology: topology(&uri, &hello),
            version: version(&build),
            auth: demands_login(&options),
            parameters,
        };
        Ok(Self { uri, balanced, client, mongos, facts, turn })
    }

    /// Returns true if commands go through mongos.
    pub(super) fn is_sharded(&self) -> bool {
        matches!(self.facts.topology, TopologyName::Sharded | TopologyName::LoadBalanced)
    }

    /// The runner's clients by which all servers can be reached that run transactions: one for each mongos.
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

/// Stops all real servers that the runner has started, when no test runs on them any more.
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

/// The runtime of the runner's own clients, which outlive the tests' runtimes.
fn background() -> &'static Runtime {
    static BACKGROUND: OnceLock<Runtime> = OnceLock::new();
    BACKGROUND.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a thread and a poller can be had")
    })
}

/// Returns the address of a deployment, which is started if it has to be.
type Candidate = Box<dyn Fn() -> Result<Address, String>>;

/// The deployments that may suit, those first that are most likely to. Of each list of requirements
/// that there is, one must be met.
fn candidates(context: &Context, requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    match &context.target {
        Target::Mongod6_0 => {
            let kinds = [DeploymentKind::ReplicaSet, DeploymentKind::Standalone];
            mongod::candidates(context, testbed::Version::V6_0, &kinds, requirements)
        }
        Target::Mongod8_2 => newest(context, DeploymentKind::ReplicaSet, requirements),
        Target::Mongod8_2Sharded => newest(context, DeploymentKind::Sharded, requirements),
        Target::Mongod8_2Standalone => newest(context, DeploymentKind::Standalone, requirements),
        Target::Mongod8_2LoadBalanced => {
            newest(context, DeploymentKind::LoadBalanced, requirements)
        }
        Target::Embedded => embedded::candidates(requirements),
        Target::EmbeddedSharded => embedded::sharded_candidates(requirements),
        Target::Uri(uri) => {
            let uri = uri.clone();
            vec![Box::new(move || Ok(uri.clone().into()))]
        }
    }
}

fn newest(
    context: &Context,
    kind: DeploymentKind,
    requirements: [Option<&[Requirement]>; 2],
) -> Vec<Candidate> {
    mongod::candidates(context, testbed::Version::V8_2, &[kind], requirements)
}

/// Returns true if the requirement allows this kind of deployment, whatever else it demands.
fn allows(Requirement(wanted): &Requirement, kind: DeploymentKind) -> bool {
    let met = |&name: &TopologyName| requirements::is_met(name, kind.topology());
    wanted.topologies.as_ref().is_none_or(|names| names.iter().any(met))
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

fn demands_login(options: &Document) -> bool {
    let parsed = options.get_document("parsed");
    let security = parsed.and_then(|parsed| parsed.get_document("security"));
    security.is_ok_and(|security| {
        security.get_str("authorization").is_ok_and(|is| is == "enabled")
            || security.contains_key("keyFile")
    })
}
