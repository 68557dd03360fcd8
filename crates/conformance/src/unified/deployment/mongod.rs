//! Real servers: a replica set, and for the tests that are not meant for it a standalone server, and a
//! replica set and a standalone server that demand a login.

use std::sync::OnceLock;

use testbed::{Mongod, Options, ReplicaSet, User};

use super::Candidate;
use crate::{
    Context,
    unified::schema::{Requirement, TopologyName},
};

/// The replica set comes first, then those that the requirements are likely to ask for.
pub(super) fn candidates(context: &Context, requirements: &[&Requirement]) -> Vec<Candidate> {
    let context = context.clone();
    let mut candidates: Vec<Candidate> = vec![Box::new(move || Ok(context.servers_uri()?.into()))];
    let others = others(requirements).iter();
    candidates.extend(others.map(|&uri| Box::new(move || Ok(uri()?.into())) as Candidate));
    candidates
}

fn others(requirements: &[&Requirement]) -> &'static [fn() -> Result<String, String>] {
    let single = requirements.iter().any(|requirement| allows_standalone(requirement));
    let login = requirements.iter().any(|requirement| requirement.0.auth == Some(true));
    // A deployment that somebody else has started is the only one.
    match (single, login) {
        _ if std::env::var_os("STEADFAST_TEST_URI").is_some() => &[],
        (false, false) => &[],
        (true, false) => &[standalone_uri],
        (false, true) => &[secured_uri],
        (true, true) => &[secured_uri, secured_standalone_uri],
    }
}

fn allows_standalone(requirement: &Requirement) -> bool {
    requirement.0.topologies.as_ref().is_some_and(|names| names.contains(&TopologyName::Single))
}

fn standalone_uri() -> Result<String, String> {
    let server = testbed::shared::standalone().map_err(|error| error.to_string())?;
    Ok(format!("mongodb://{}/", server.address()))
}

/// A server that demands a login. Some tests leave little time for one: the hashing is cut short.
fn secured() -> Options {
    Options::new()
        .parameter("scramSHA256IterationCount=5000")
        .parameter("scramIterationCount=5000")
        .user(User::new("runner", "secret"))
}

fn secured_uri() -> Result<String, String> {
    static SECURED: OnceLock<Result<ReplicaSet, String>> = OnceLock::new();
    let start = || ReplicaSet::start(1, secured()).map_err(|error| error.to_string());
    let set = SECURED.get_or_init(start).as_ref().map_err(Clone::clone)?;
    Ok(set.uri().replacen("mongodb://", "mongodb://runner:secret@", 1))
}

fn secured_standalone_uri() -> Result<String, String> {
    static SECURED: OnceLock<Result<Mongod, String>> = OnceLock::new();
    let start = || Mongod::standalone(secured()).map_err(|error| error.to_string());
    let server = SECURED.get_or_init(start).as_ref().map_err(Clone::clone)?;
    Ok(format!("mongodb://runner:secret@{}/", server.address()))
}
