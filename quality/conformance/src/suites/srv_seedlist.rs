//! `mongodb+srv` connection strings, resolved from a table instead of DNS.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::{
    connection_string::{ConnectionString, HostInfo, UriError},
    srv::{SrvAnswer, SrvName, SrvRecord, TxtRecord},
};

use super::parsed_uri::{check_options, equal, namespace};
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "srv_seedlist", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files(SUITE.name)? {
        let case: SrvCase = file.json()?;
        let description = case.comment.clone().unwrap_or_else(|| case.uri.clone());
        cases.push(Case::new(file.name, description, move || case.check()));
    }
    Ok(cases)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SrvCase {
    uri: String,
    comment: Option<String>,
    #[serde(default)]
    error: bool,
    seeds: Option<Vec<String>>,
    num_seeds: Option<usize>,
    options: Option<Map<String, Value>>,
    #[serde(rename = "parsed_options")]
    parsed_options: Option<Map<String, Value>>,
}

impl SrvCase {
    fn check(&self) -> Result<(), String> {
        let resolved = match (resolve(&self.uri), self.error) {
            (Err(_), true) => return Ok(()),
            (Err(error), false) => return Err(format!("rejected: {error}")),
            (Ok(_), true) => return Err("was not rejected".to_owned()),
            (Ok(resolved), false) => resolved,
        };
        let HostInfo::HostIdentifiers(hosts) = &resolved.host_info else {
            return Err("was not resolved".to_owned());
        };
        let hosts: BTreeSet<_> = hosts.iter().map(ToString::to_string).collect();
        if let Some(seeds) = &self.seeds {
            equal("the seed list", &hosts, &seeds.iter().cloned().collect())?;
        }
        if let Some(count) = self.num_seeds {
            equal("the number of seeds", hosts.len(), count)?;
        }
        check_options(&resolved, self.options.iter().flatten())?;
        for (name, expected) in self.parsed_options.iter().flatten() {
            equal(name, parsed_option(&resolved, name)?.as_deref(), expected.as_str())?;
        }
        Ok(())
    }
}

fn parsed_option(uri: &ConnectionString, name: &str) -> Result<Option<String>, String> {
    let credential = uri.credential.as_ref();
    match name {
        "user" => Ok(credential.and_then(|credential| credential.username.clone())),
        "password" => Ok(credential.and_then(|credential| credential.password.clone())),
        "db" | "auth_database" | "defaultDatabase" => Ok(namespace(uri)),
        _ => Err(format!("unknown part of a connection string {name}")),
    }
}

fn resolve(uri: &str) -> Result<ConnectionString, UriError> {
    let parsed = ConnectionString::parse(uri)?;
    let answer = parsed.srv_name()?.map(|name| look_up(&name)).unwrap_or_default();
    parsed.resolve_srv(&answer, |_| 0)
}

/// Looks up a name in the records that the specification lists for its tests.
fn look_up(name: &SrvName) -> SrvAnswer {
    let label = |host: &str| host.strip_suffix(".test.build.10gen.cc").unwrap_or(host).to_owned();
    let (query, host) = (label(&name.query()), label(name.host()));
    let hosts = SRV_RECORDS.iter().filter(|(record, ..)| *record == query);
    let txt = TXT_RECORDS.iter().filter(|(record, _)| *record == host);
    SrvAnswer {
        hosts: hosts
            .map(|(_, port, host)| SrvRecord {
                host: format!("{host}."),
                port: *port,
                ttl: Duration::from_secs(86_400),
            })
            .collect(),
        txt: txt
            .map(|(_, strings)| TxtRecord {
                strings: strings.iter().map(|text| text.as_bytes().to_vec()).collect(),
            })
            .collect(),
    }
}

const LOCAL: &str = "localhost.test.build.10gen.cc";

/// Name (before `test.build.10gen.cc`, or the whole name), port and host. There is no `test4` and no `test9`.
const SRV_RECORDS: &[(&str, u16, &str)] = &[
    ("_mongodb._tcp.test1", 27017, LOCAL),
    ("_mongodb._tcp.test1", 27018, LOCAL),
    ("_mongodb._tcp.test2", 27018, LOCAL),
    ("_mongodb._tcp.test2", 27019, LOCAL),
    ("_mongodb._tcp.test3", 27017, LOCAL),
    ("_mongodb._tcp.test5", 27017, LOCAL),
    ("_mongodb._tcp.test6", 27017, LOCAL),
    ("_mongodb._tcp.test7", 27017, LOCAL),
    ("_mongodb._tcp.test8", 27017, LOCAL),
    ("_mongodb._tcp.test10", 27017, LOCAL),
    ("_mongodb._tcp.test11", 27017, LOCAL),
    ("_mongodb._tcp.test12", 27017, "localhost.build.10gen.cc"),
    ("_mongodb._tcp.test13", 27017, "test.build.10gen.cc"),
    ("_mongodb._tcp.test14", 27017, "localhost.not-test.build.10gen.cc"),
    ("_mongodb._tcp.test15", 27017, "localhost.test.not-build.10gen.cc"),
    ("_mongodb._tcp.test16", 27017, "localhost.test.build.not-10gen.cc"),
    ("_mongodb._tcp.test17", 27017, "localhost.test.build.10gen.not-cc"),
    ("_mongodb._tcp.test18", 27017, "localhost.sub.test.build.10gen.cc"),
    ("_mongodb._tcp.test19", 27017, "localhost.evil.build.10gen.cc"),
    ("_mongodb._tcp.test19", 27017, LOCAL),
    ("_mongodb._tcp.test20", 27017, LOCAL),
    ("_mongodb._tcp.test21", 27017, LOCAL),
    ("_customname._tcp.test22", 27017, LOCAL),
    ("_customname._tcp.test22", 27018, LOCAL),
    ("_mongodb._tcp.test23", 8000, LOCAL),
    ("_mongodb._tcp.test24", 8000, LOCAL),
    ("_mongodb._tcp", 27017, "test.build.10gen.cc"),
    ("_mongodb._tcp.build.10gen.cc", 27017, "build.10gen.cc"),
];

/// Name (before `test.build.10gen.cc`) and the strings of one record.
const TXT_RECORDS: &[(&str, &[&str])] = &[
    ("test5", &["replicaSet=repl0&authSource=thisDB"]),
    ("test6", &["replicaSet=repl0"]),
    ("test6", &["authSource=otherDB"]),
    ("test7", &["ssl=false"]),
    ("test8", &["authSource"]),
    ("test10", &["socketTimeoutMS=500"]),
    ("test11", &["replicaS", "et=rep", "l0"]),
    ("test20", &["loadBalanced=true"]),
    ("test21", &["loadBalanced=false"]),
    ("test24", &["loadBalanced=true"]),
];
