//! Embedded deployments of the topology and version that a test requires, with authentication if required.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use steadfast_embedded::Deployment;

use super::{
    Candidate, DeploymentAddress, DeploymentKind, LoadBalancerUris, allows,
    balancer::{self, BalancerProtocol},
};
use crate::{
    unified::schema::{Requirement, Version},
    worker_slot::WorkerSlot,
};

/// Versions of embedded deployments, in the order of preference.
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
struct EmbeddedKey {
    version: &'static str,
    kind: DeploymentKind,
    auth: bool,
    /// Names of a cluster's shards.
    shards: &'static [&'static str],
}

const TWO_SHARDS: &[&str] = &["alfa", "bravo"];
/// One shard, because the embedded deployment has no change streams over several.
const ONE_SHARD: &[&str] = &["alfa"];

/// Candidates for a test, with a replica set of 8.0 first. Only candidates that may meet the requirements are started; if
/// there is none, one is started to name the unmet part.
pub(super) fn candidates(requirements: [Option<&[Requirement]>; 2]) -> Vec<Candidate> {
    candidates_of(&VERSIONS, &DeploymentKind::ALL, TWO_SHARDS, requirements)
}

/// Candidates for a test on sharded clusters of version 8.2. They have one shard, so that more cases pass.
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
    let requires_auth = |requirement: &Requirement| requirement.0.auth == Some(true);
    let auth = requirements.into_iter().flatten().flatten().any(requires_auth);
    let mut keys = Vec::new();
    for &(version, number) in versions {
        for &kind in kinds {
            let suits = |requirement: &Requirement| suits(requirement, number, kind);
            if requirements.into_iter().flatten().all(|list| list.iter().any(suits)) {
                keys.push(EmbeddedKey { version, kind, auth, shards });
            }
        }
    }
    if keys.is_empty() {
        keys.push(EmbeddedKey { version: versions[0].0, kind: kinds[0], auth, shards });
    }
    // Requirements that eight candidates do not meet are hardly met by a ninth.
    keys.truncate(8);
    keys.into_iter().map(|key| Box::new(move || address(key)) as Candidate).collect()
}

fn suits(requirement: &Requirement, version: Version, kind: DeploymentKind) -> bool {
    let expected = &requirement.0;
    expected.min_server_version.is_none_or(|least| version >= least)
        && expected.max_server_version.is_none_or(|most| version <= most)
        && allows(requirement, kind)
}

/// Returns the address of a deployment, which is started once for each worker, so that concurrent cases do not wait for
/// each other.
fn address(key: EmbeddedKey) -> Result<DeploymentAddress, String> {
    static STARTED: Mutex<BTreeMap<(usize, EmbeddedKey), (Deployment, DeploymentAddress)>> =
        Mutex::new(BTreeMap::new());
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let worker_key = (WorkerSlot::current(), key);
    if let Some((_, address)) = started.get(&worker_key) {
        return Ok(address.clone());
    }
    let deployment = start(key);
    let address = match key.kind {
        DeploymentKind::LoadBalanced => start_load_balancer(&deployment)?,
        DeploymentKind::ReplicaSet | DeploymentKind::Sharded | DeploymentKind::Standalone => {
            deployment.uri().into()
        }
    };
    started.insert(worker_key, (deployment, address.clone()));
    Ok(address)
}

fn start(EmbeddedKey { version, kind, auth, shards }: EmbeddedKey) -> Deployment {
    let builder = match kind {
        DeploymentKind::ReplicaSet => Deployment::replica_set(3),
        DeploymentKind::Sharded => Deployment::sharded(shards).mongos_count(2),
        DeploymentKind::Standalone => Deployment::standalone(),
        DeploymentKind::LoadBalanced => {
            Deployment::sharded(ONE_SHARD).mongos_count(2).load_balanced()
        }
    };
    let builder = builder.version(version);
    if auth { builder.auth("runner", "secret").start() } else { builder.start() }
}

/// Starts a load balancer in front of all mongos. The deployment's connection string names the first mongos.
fn start_load_balancer(deployment: &Deployment) -> Result<DeploymentAddress, String> {
    let mongos: Vec<_> = deployment.members().iter().map(|member| member.address()).collect();
    let balancer = balancer::start(mongos.clone(), BalancerProtocol::Plain)
        .map_err(|error| error.to_string())?;
    let one_mongos_uri = deployment.uri();
    let hosts: Vec<_> = mongos.iter().map(ToString::to_string).collect();
    let cluster_uri = one_mongos_uri.replacen(&hosts[0], &hosts.join(","), 1);
    let cluster_uri = cluster_uri.replacen("?loadBalanced=true", "", 1);
    let uri = one_mongos_uri.replacen(&hosts[0], &balancer.to_string(), 1);
    let load_balancer = Some(LoadBalancerUris { one_mongos_uri, cluster_uri });
    Ok(DeploymentAddress { load_balancer, ..uri.into() })
}
