//! The deployments that tests run on, and what is known of each.
//!
//! The one that the run is aimed at comes first; others may stand by for the tests that are not meant
//! for it. Each is started when a test first asks for it.

mod balancer;
mod embedded;
mod mongod;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bson::{Document, doc};
use steadfast::{Client, options::ServerAddress};
use tokio::runtime::Runtime;

use super::{
    requirements,
    schema::{Requirement, TestFile, TopologyName, Version},
};
use crate::{Context, Target};

/// A deployment with a client of the runner's own.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) uri: String,
    pub(super) balanced: Option<Balanced>,
    pub(super) client: Client,
    pub(super) facts: Facts,
    /// Held by the test that runs on it.
    pub(super) turn: Arc<Mutex<()>>,
}

/// The address of a deployment.
#[derive(Clone, Debug)]
struct Address {
    uri: String,
    balanced: Option<Balanced>,
}

/// A deployment behind a load balancer whose mongos are known to the runner.
#[derive(Clone, Debug)]
pub(super) struct Balanced {
    /// The connection string of a load balancer in front of the first mongos alone.
    pub(super) one_mongos_uri: String,
    /// The connection string of all mongos, without a load balancer: for the runner's own client.
    cluster_uri: String,
    /// All mongos.
    pub(super) mongos: Vec<ServerAddress>,
}

impl From<String> for Address {
    fn from(uri: String) -> Self {
        Self { uri, balanced: None }
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
        static KNOWN: Mutex<BTreeMap<String, Deployment>> = Mutex::new(BTreeMap::new());
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

    async fn ask(Address { uri, balanced }: Address) -> Result<Self, steadfast::error::Error> {
        let own_uri = balanced.as_ref().map_or(&uri, |balanced| &balanced.cluster_uri);
        let client = Client::with_uri_str(own_uri).await?;
        let admin = client.database("admin");
        let build = admin.run_command(doc! { "buildInfo": 1 }).await?;
        let hello = admin.run_command(doc! { "hello": 1 }).await?;
        let parameters = admin.run_command(doc! { "getParameter": "*" }).await?;
        let options = admin.run_command(doc! { "getCmdLineOpts": 1 }).await?;
        let facts = Facts {
            topology: topology(&uri, &hello),
            version: version(&build),
            auth: demands_login(&options),
            parameters,
        };
        Ok(Self { uri, balanced, client, facts, turn: Arc::default() })
    }
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
        Target::Mongod => {
            let all: Vec<_> = requirements.into_iter().flatten().flatten().collect();
            mongod::candidates(context, &all)
        }
        Target::Embedded => embedded::candidates(requirements),
        Target::Uri(uri) => {
            let uri = uri.clone();
            vec![Box::new(move || Ok(uri.clone().into()))]
        }
    }
}

fn topology(uri: &str, hello: &Document) -> TopologyName {
    if uri.contains("loadBalanced=true") {
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
