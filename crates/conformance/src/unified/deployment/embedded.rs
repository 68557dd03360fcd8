//! Deployments in this process, made to measure: of the kind, the version and the strictness that a
//! test asks for.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use blackpipe::embedded::Deployment;

use steadfast::options::ServerAddress;

use super::{Address, Balanced, Candidate, balancer};
use crate::{
    lane::Lane,
    unified::{
        requirements::is_met,
        schema::{Requirement, TopologyName, Version},
    },
};

/// What is started, the most likely first.
const VERSIONS: [(&str, Version); 7] = [
    ("8.0", Version(8, 0, 0)),
    ("7.0", Version(7, 0, 0)),
    ("6.0", Version(6, 0, 0)),
    ("5.0", Version(5, 0, 0)),
    ("4.4", Version(4, 4, 0)),
    ("4.2", Version(4, 2, 0)),
    ("8.2", Version(8, 2, 0)),
];

const KINDS: [(Kind, TopologyName); 4] = [
    (Kind::ReplicaSet, TopologyName::ReplicaSet),
    (Kind::Sharded, TopologyName::Sharded),
    (Kind::Standalone, TopologyName::Single),
    (Kind::LoadBalanced, TopologyName::LoadBalanced),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ReplicaSet,
    Sharded,
    Standalone,
    LoadBalanced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Measure {
    version: &'static str,
    kind: Kind,
    login: bool,
}

/// A replica set of today comes first. Only what may suit is tried, and it is tried at all if nothing
/// may, to say what is lacking.
pub(super) fn candidates(requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    let wants_login = |requirement: &Requirement| requirement.0.auth == Some(true);
    let login = requirements.into_iter().flatten().flatten().any(wants_login);
    let mut measures = Vec::new();
    for (version, number) in VERSIONS {
        for (kind, topology) in KINDS {
            let suits = |requirement: &Requirement| suits(requirement, number, topology);
            if requirements.into_iter().flatten().all(|list| list.iter().any(suits)) {
                measures.push(Measure { version, kind, login });
            }
        }
    }
    if measures.is_empty() {
        measures.push(Measure { version: VERSIONS[0].0, kind: Kind::ReplicaSet, login });
    }
    // Whatever else is lacking, one of another version or kind will hardly have.
    measures.truncate(8);
    measures.into_iter().map(|measure| Box::new(move || address(measure)) as Candidate).collect()
}

fn suits(Requirement(wanted): &Requirement, version: Version, topology: TopologyName) -> bool {
    wanted.min_server_version.is_none_or(|least| version >= least)
        && wanted.max_server_version.is_none_or(|most| version <= most)
        && wanted
            .topologies
            .as_ref()
            .is_none_or(|names| names.iter().any(|&name| is_met(name, topology)))
}

/// The address of the deployment of this measure, which is started once for each lane: cases that are run
/// at the same time do not wait for each other.
fn address(measure: Measure) -> Result<Address, String> {
    static STARTED: Mutex<BTreeMap<(usize, Measure), (Deployment, Address)>> =
        Mutex::new(BTreeMap::new());
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = (Lane::here(), measure);
    if let Some((_, address)) = started.get(&place) {
        return Ok(address.clone());
    }
    let deployment = start(measure);
    let address = match measure.kind {
        Kind::LoadBalanced => balanced(&deployment)?,
        Kind::ReplicaSet | Kind::Sharded | Kind::Standalone => deployment.uri().into(),
    };
    started.insert(place, (deployment, address.clone()));
    Ok(address)
}

fn start(Measure { version, kind, login }: Measure) -> Deployment {
    let builder = match kind {
        Kind::ReplicaSet => Deployment::replica_set(3),
        Kind::Sharded => Deployment::sharded(&["alfa", "bravo"]).routers(2),
        Kind::Standalone => Deployment::standalone(),
        // One shard: the embedded deployment has no change streams over several.
        Kind::LoadBalanced => Deployment::sharded(&["alfa"]).routers(2).load_balanced(),
    };
    let builder = builder.version(version);
    if login { builder.auth("runner", "secret").start() } else { builder.start() }
}

/// Puts a load balancer in front of all mongos. The deployment's own connection string names the first.
fn balanced(deployment: &Deployment) -> Result<Address, String> {
    let mongos: Vec<_> = deployment.members().iter().map(|member| member.address()).collect();
    let balancer = balancer::start(mongos.clone()).map_err(|error| error.to_string())?;
    let one_mongos_uri = deployment.uri();
    let hosts: Vec<_> = mongos.iter().map(ToString::to_string).collect();
    let cluster_uri = one_mongos_uri.replacen(&hosts[0], &hosts.join(","), 1);
    let cluster_uri = cluster_uri.replacen("?loadBalanced=true", "", 1);
    let addresses = hosts.iter().map(ServerAddress::parse);
    let mongos = addresses.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let uri = one_mongos_uri.replacen(&hosts[0], &balancer.to_string(), 1);
    Ok(Address { uri, balanced: Some(Balanced { one_mongos_uri, cluster_uri, mongos }) })
}
