//! Deployments in this process, of the kind and version that a test requires, with authentication if it
//! requires that.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use steadfast_embedded::Deployment;

use super::{
    Address, Balanced, Candidate, DeploymentKind, allows,
    balancer::{self, BalancerProtocol},
};
use crate::{
    lane::Lane,
    unified::schema::{Requirement, Version},
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Measure {
    version: &'static str,
    kind: DeploymentKind,
    login: bool,
    /// Shards of a cluster.
    shards: &'static [&'static str],
}

const TWO_SHARDS: &[&str] = &["alfa", "bravo"];
/// One alone, since the embedded deployment has no change streams over several.
const ONE_SHARD: &[&str] = &["alfa"];

/// Candidates for a test: a replica set of the newest common version comes first. Only those are started that may meet
/// the requirements, or one, to say what is lacking.
pub(super) fn candidates(requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    candidates_of(&VERSIONS, &DeploymentKind::ALL, TWO_SHARDS, requirements)
}

/// Candidates for a test on sharded clusters of version 8.2 alone. They have one shard, so that most cases pass.
pub(super) fn sharded_candidates(requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    let versions = [("8.2", Version(8, 2, 0))];
    candidates_of(&versions, &[DeploymentKind::Sharded], ONE_SHARD, requirements)
}

fn candidates_of(
    versions: &[(&'static str, Version)],
    kinds: &[DeploymentKind],
    shards: &'static [&'static str],
    requirements: [Option<&[Requirement]>; 2],
) -> Vec<Candidate> {
    let wants_login = |requirement: &Requirement| requirement.0.auth == Some(true);
    let login = requirements.into_iter().flatten().flatten().any(wants_login);
    let mut measures = Vec::new();
    for &(version, number) in versions {
        for &kind in kinds {
            let suits = |requirement: &Requirement| suits(requirement, number, kind);
            if requirements.into_iter().flatten().all(|list| list.iter().any(suits)) {
                measures.push(Measure { version, kind, login, shards });
            }
        }
    }
    if measures.is_empty() {
        measures.push(Measure { version: versions[0].0, kind: kinds[0], login, shards });
    }
    // Whatever else is lacking, one of another version or kind will hardly have.
    measures.truncate(8);
    measures.into_iter().map(|measure| Box::new(move || address(measure)) as Candidate).collect()
}

fn suits(requirement: &Requirement, version: Version, kind: DeploymentKind) -> bool {
    let wanted = &requirement.0;
    wanted.min_server_version.is_none_or(|least| version >= least)
        && wanted.max_server_version.is_none_or(|most| version <= most)
        && allows(requirement, kind)
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
        DeploymentKind::LoadBalanced => balanced(&deployment)?,
        DeploymentKind::ReplicaSet | DeploymentKind::Sharded | DeploymentKind::Standalone => {
            deployment.uri().into()
        }
    };
    started.insert(place, (deployment, address.clone()));
    Ok(address)
}

fn start(Measure { version, kind, login, shards }: Measure) -> Deployment {
    let builder = match kind {
        DeploymentKind::ReplicaSet => Deployment::replica_set(3),
        DeploymentKind::Sharded => Deployment::sharded(shards).mongos_count(2),
        DeploymentKind::Standalone => Deployment::standalone(),
        DeploymentKind::LoadBalanced => {
            Deployment::sharded(ONE_SHARD).mongos_count(2).load_balanced()
        }
    };
    let builder = builder.version(version);
    if login { builder.auth("runner", "secret").start() } else { builder.start() }
}

/// Puts a load balancer in front of all mongos. The deployment's own connection string names the first.
fn balanced(deployment: &Deployment) -> Result<Address, String> {
    let mongos: Vec<_> = deployment.members().iter().map(|member| member.address()).collect();
    let balancer = balancer::start(mongos.clone(), BalancerProtocol::Plain)
        .map_err(|error| error.to_string())?;
    let one_mongos_uri = deployment.uri();
    let hosts: Vec<_> = mongos.iter().map(ToString::to_string).collect();
    let cluster_uri = one_mongos_uri.replacen(&hosts[0], &hosts.join(","), 1);
    let cluster_uri = cluster_uri.replacen("?loadBalanced=true", "", 1);
    let uri = one_mongos_uri.replacen(&hosts[0], &balancer.to_string(), 1);
    let balanced = Some(Balanced { one_mongos_uri, cluster_uri });
    Ok(Address { balanced, ..uri.into() })
}
