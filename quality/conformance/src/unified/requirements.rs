//! Requirements of tests (`runOnRequirements`).

use bson::Bson;

use super::{
    deployment::DeploymentFacts,
    matching::scalars_are_equal,
    schema::{Requirement, RequirementFields, Serverless, TopologyName},
};

/// Fails if the deployment meets none of the requirements, with the unmet part of the last one.
pub(super) fn check(
    requirements: Option<&[Requirement]>,
    facts: &DeploymentFacts,
) -> Result<(), String> {
    let Some(requirements) = requirements else { return Ok(()) };
    let mut missing = "no requirement is listed".to_owned();
    for requirement in requirements {
        match unmet(&requirement.0, facts) {
            None => return Ok(()),
            Some(part) => missing = part,
        }
    }
    Err(missing)
}

/// Part of the requirement that the deployment does not meet.
fn unmet(requirement: &RequirementFields, facts: &DeploymentFacts) -> Option<String> {
    if let Some(topologies) = &requirement.topologies
        && !topologies.iter().any(|&topology| is_met(topology, facts.topology))
    {
        return Some(format!("needs {}", name(topologies[0])));
    }
    if requirement.serverless == Some(Serverless::Require) {
        return Some("needs Atlas Serverless".to_owned());
    }
    if let Some(least) = requirement.min_server_version.filter(|&least| facts.version < least) {
        return Some(format!("needs server {least} or later"));
    }
    if let Some(most) = requirement.max_server_version.filter(|&most| facts.version > most) {
        return Some(format!("needs server {most} or earlier"));
    }
    if requirement.csfle.is_some_and(|csfle| csfle.wanted) {
        return Some("needs client-side encryption".to_owned());
    }
    match requirement.auth {
        Some(true) if !facts.auth => return Some("needs authentication".to_owned()),
        Some(false) if facts.auth => return Some("needs no authentication".to_owned()),
        _ => {}
    }
    unmet_parameter(requirement, facts)
}

/// Returns true if a test that requires the one topology can run on the other.
pub(super) fn is_met(wanted: TopologyName, found: TopologyName) -> bool {
    // All shards are replica sets since MongoDB 3.6.
    let is_sharded_set = wanted == TopologyName::ShardedReplicaSet;
    wanted == found || is_sharded_set && found == TopologyName::Sharded
}

fn unmet_parameter(requirement: &RequirementFields, facts: &DeploymentFacts) -> Option<String> {
    for (name, expected) in requirement.server_parameters.iter().flat_map(|wanted| wanted.iter()) {
        if !facts.parameters.get(name).is_some_and(|actual| scalars_are_equal(expected, actual)) {
            return Some(format!("needs the server parameter {name}: {expected}"));
        }
    }
    let mechanism = requirement.auth_mechanism.as_deref()?;
    let known = facts.parameters.get_array("authenticationMechanisms").ok();
    let is_known = known
        .into_iter()
        .flatten()
        .filter_map(Bson::as_str)
        .any(|known| known.eq_ignore_ascii_case(mechanism));
    (!is_known).then(|| format!("needs {mechanism} authentication"))
}

fn name(topology: TopologyName) -> &'static str {
    match topology {
        TopologyName::Single => "a standalone server",
        TopologyName::ReplicaSet => "a replica set",
        TopologyName::Sharded | TopologyName::ShardedReplicaSet => "a sharded cluster",
        TopologyName::LoadBalanced => "a load balancer",
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::unified::schema::Version;

    fn facts() -> DeploymentFacts {
        DeploymentFacts {
            topology: TopologyName::ReplicaSet,
            version: Version(6, 0, 5),
            auth: false,
            parameters: doc! { "enableTestCommands": true, "limit": 3 },
        }
    }

    fn check_one(requirement: bson::Document) -> Result<(), String> {
        let requirement: Requirement = bson::deserialize_from_document(requirement).unwrap();
        check(Some(&[requirement]), &facts())
    }

    #[test]
    fn unmet_requirement_is_named() {
        let missing = |requirement| check_one(requirement).unwrap_err();
        assert_eq!(missing(doc! { "minServerVersion": "7.0" }), "needs server 7.0 or later");
        assert_eq!(missing(doc! { "maxServerVersion": "6.0.4" }), "needs server 6.0.4 or earlier");
        assert_eq!(missing(doc! { "topologies": ["sharded"] }), "needs a sharded cluster");
        assert_eq!(missing(doc! { "csfle": true }), "needs client-side encryption");
        assert_eq!(missing(doc! { "auth": true }), "needs authentication");
        let parameter = missing(doc! { "serverParameters": { "limit": 4 } });
        assert_eq!(parameter, "needs the server parameter limit: 4");
    }

    #[test]
    fn one_met_requirement_is_enough() {
        let requirements =
            [doc! { "topologies": ["single"] }, doc! { "minServerVersion": "6.0.5" }]
                .map(|requirement| bson::deserialize_from_document(requirement).unwrap());
        assert!(check(Some(&requirements), &facts()).is_ok());
        assert!(check(None, &facts()).is_ok());
        assert!(check_one(doc! { "serverParameters": { "limit": 3.0 } }).is_ok());
        assert!(check_one(doc! { "serverless": "forbid", "csfle": false }).is_ok());
    }
}
