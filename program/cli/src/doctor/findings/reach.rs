//! Whether the servers can be reached, all of them.

use steadfast::{ServerType, options::ServerAddress};

use super::{Findings, list};
use crate::{
    doctor::facts::{Facts, Failure, Kind, Server},
    duration,
};

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    strangers(facts, findings);
    let anybody = facts.reached().next().is_some();
    for server in facts.servers.iter().filter(|server| !server.is_reached()) {
        unreachable(facts, server, anybody, findings);
    }
    match &facts.failure {
        Some(failure) => failed(facts, failure, findings),
        None if anybody => {
            findings.ok("connection", "the deployment is reached and takes commands");
        }
        None => {}
    }
    other_names(facts, findings);
}

/// Seeds that are not what the connection string says.
fn strangers(facts: &Facts, findings: &mut Findings) {
    for server in &facts.left_out {
        let address = &server.address;
        let wanted = facts.uri.replica_set.as_deref();
        match (&server.set_name, wanted) {
            (Some(found), Some(wanted)) if found != wanted => findings.problem(
                "wrong_set_name",
                format!("{address} is of the replica set {found}, not {wanted}"),
                "The connection string says replicaSet, and servers of another set are not used.",
                &format!("Write replicaSet={found}, or name the hosts of {wanted}."),
            ),
            (None, Some(wanted)) => findings.problem(
                "not_a_member",
                format!("{address} is {}, not a member of {wanted}", article(server)),
                "The connection string says replicaSet, and only members of that set are used.",
                "Take replicaSet out of the connection string, or name the hosts of the set.",
            ),
            _ if facts.kind == Kind::Sharded && server.server_type != ServerType::Mongos => {
                findings.problem(
                    "not_a_router",
                    format!("{address} is {}, and the others are mongos", article(server)),
                    "Hosts of one connection string are of one kind; this one is not used.",
                    "Name only the mongos of the cluster.",
                );
            }
            _ => {}
        }
    }
}

fn article(server: &Server) -> &'static str {
    match server.server_type {
        ServerType::Mongos => "a mongos of a sharded cluster",
        ServerType::Standalone => "a standalone server",
        ServerType::RsGhost => "a server whose replica set has not been initiated",
        _ => "a member of a replica set",
    }
}

fn unreachable(facts: &Facts, server: &Server, anybody: bool, findings: &mut Findings) {
    let address = &server.address;
    let why = match &server.error {
        Some(error) => reason(error, Some(address)),
        None => format!("It did not answer within {}.", duration::show(facts.selection_timeout)),
    };
    if !anybody {
        findings.problem(
            "unreachable",
            format!("{address} cannot be reached"),
            &why,
            advice(server.error.as_deref(), facts),
        );
    } else if facts.seeds.contains(address) {
        findings.problem(
            "member_unreachable",
            format!("{address} cannot be reached; others can"),
            &format!("{why} One server less is there to take over, and to acknowledge writes."),
            advice(server.error.as_deref(), facts),
        );
    } else {
        findings.problem(
            "member_unreachable",
            format!("{address} cannot be reached; others can"),
            &format!("{why} The connection string does not name it: the set's members do."),
            "If it is down, start it. If it is up, its name in the set's configuration does not work \
             from this machine: make the name resolve here, or change the configuration to names that \
             all machines can use.",
        );
    }
}

/// An error as a sentence, without what the reader knows already.
fn reason(error: &str, server: Option<&ServerAddress>) -> String {
    let known = server.map(|address| format!(" (server {address})")).unwrap_or_default();
    let error = error.trim().trim_start_matches("I/O error: ");
    let error = error.strip_suffix(&known).unwrap_or(error).trim_end_matches('.');
    let mut letters = error.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

fn advice(error: Option<&str>, facts: &Facts) -> &'static str {
    let error = error.unwrap_or_default().to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&["refused"]) {
        "Nothing listens there. Start the server, or correct host and port in the connection string."
    } else if has(&["does not speak the mongodb"]) {
        "Something else listens there. Correct host and port in the connection string."
    } else if has(&["certificate", "unknownissuer", "notvalidforname"]) {
        "The server's certificate is not trusted. Name the authority that issued it with tlsCAFile, and \
         connect by a name that the certificate is for."
    } else if has(&["tls", "corrupt message", "handshake"]) {
        "The server may not speak TLS. Take tls=true out of the connection string, or enable TLS on the \
         server."
    } else if has(&["lookup", "resolve", "name or service", "dns"]) {
        "The name is not known. Check its spelling, and this machine's DNS."
    } else if has(&["closed", "eof", "reset"]) && facts.uri.tls.is_none() {
        "The server may demand TLS, or refuse this machine. Try tls=true; look into the server's log."
    } else {
        "Check that the server is running and that no firewall is between it and this machine."
    }
}

fn failed(facts: &Facts, failure: &Failure, findings: &mut Findings) {
    let explained_already = !findings.0.is_empty();
    match failure {
        Failure::Dns(why) => findings.problem(
            "dns",
            "the host name of the connection string cannot be resolved",
            &reason(why, facts.seeds.first()),
            "Check its spelling, and this machine's DNS. mongodb+srv:// needs SRV records; for a plain \
             host it is mongodb://.",
        ),
        Failure::Tls(why) => findings.problem(
            "tls_configuration",
            "connections cannot be encrypted as the connection string asks",
            &reason(why, facts.seeds.first()),
            "Check the files that tlsCAFile and tlsCertificateKeyFile name.",
        ),
        Failure::Login(why) => findings.problem(
            "login_refused",
            "the login was refused",
            &reason(why, facts.seeds.first()),
            "Check user and password, and that special characters are percent-encoded. If the user is \
             kept in another database than admin, say authSource.",
        ),
        Failure::Incompatible(why) => findings.problem(
            "incompatible",
            "this driver and the servers have no protocol in common",
            &reason(why, facts.seeds.first()),
            "Upgrade the older of the two.",
        ),
        Failure::NoServer(_) if facts.kind == Kind::ReplicaSet => no_primary(facts, findings),
        Failure::NoServer(_) if explained_already => {}
        Failure::NoServer(why) | Failure::Other(why) => findings.problem(
            "no_connection",
            "the deployment cannot be used",
            &reason(why, facts.seeds.first()),
            "Check that its servers are running and can be reached from this machine.",
        ),
    }
}

fn no_primary(facts: &Facts, findings: &mut Findings) {
    let (members, reached) = (facts.servers.len(), facts.reached().count());
    let next = if 2 * reached > members {
        "An election may be going on: run this again. If there is still none, look into the members' \
         logs, and at rs.status()."
    } else {
        "Start the members that are down: a primary needs a majority of the votes."
    };
    findings.problem(
        "no_primary",
        "the replica set has no primary",
        &format!("Nothing takes writes. {reached} of {members} members can be reached from here."),
        next,
    );
}

/// Seeds that the set knows by other names.
fn other_names(facts: &Facts, findings: &mut Findings) {
    if facts.kind != Kind::ReplicaSet || facts.is_direct() {
        return;
    }
    let name = facts.set_name();
    let same_set =
        facts.left_out.iter().filter(|it| name.is_some() && it.set_name.as_deref() == name);
    let aliases: Vec<_> = same_set.map(|server| &server.address).collect();
    if aliases.is_empty() {
        return;
    }
    let members = list(facts.servers.iter().map(|server| &server.address));
    findings.note(
        "other_names",
        format!("the set does not know {} by that name", list(&aliases)),
        &format!(
            "Its configuration has {members}, and these names are used: each machine that connects \
             must reach them."
        ),
        "Name the hosts in the connection string as the configuration does.",
    );
}
