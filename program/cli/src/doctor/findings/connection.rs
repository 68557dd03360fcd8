//! Connections to the servers: unreachable, unexpected and renamed ones.

use steadfast::{ServerType, options::ServerAddress};

use super::{Findings, list};
use crate::{
    doctor::facts::{DeploymentFailure, DeploymentKind, Facts, Server},
    duration,
};

pub(super) fn examine(facts: &Facts, findings: &mut Findings) {
    unexpected_servers(facts, findings);
    let is_any_reached = facts.reached().next().is_some();
    for server in facts.servers.iter().filter(|server| !server.is_reached()) {
        unreachable(facts, server, is_any_reached, findings);
    }
    match &facts.failure {
        Some(failure) => failed(facts, failure, findings),
        None if is_any_reached => {
            findings.ok("connection", "the deployment can be reached and accepts commands");
        }
        None => {}
    }
    other_names(facts, findings);
}

/// Reports seeds that contradict the connection string.
fn unexpected_servers(facts: &Facts, findings: &mut Findings) {
    for server in &facts.left_out {
        let address = &server.address;
        let wanted = facts.uri.replica_set.as_deref();
        match (&server.set_name, wanted) {
            (Some(found), Some(wanted)) if found != wanted => findings.problem(
                "wrong_set_name",
                format!("{address} belongs to the replica set {found}, not {wanted}"),
                "The connection string sets replicaSet; members of another set are not used.",
                &format!("Set replicaSet={found}, or name the hosts of {wanted}."),
            ),
            (None, Some(wanted)) => findings.problem(
                "not_a_member",
                format!("{address} is {}, not a member of {wanted}", article(server)),
                "The connection string sets replicaSet; only members of that set are used.",
                "Remove replicaSet from the connection string, or name the hosts of the set.",
            ),
            _ if facts.kind == DeploymentKind::Sharded
                && server.server_type != ServerType::Mongos =>
            {
                findings.problem(
                    "not_a_mongos",
                    format!("{address} is {}, but the others are mongos", article(server)),
                    "All hosts of a connection string must be of one kind; this one is not used.",
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

fn unreachable(facts: &Facts, server: &Server, is_any_reached: bool, findings: &mut Findings) {
    let address = &server.address;
    let why = match &server.error {
        Some(error) => reason(error, Some(address)),
        None => format!("It did not reply within {}.", duration::show(facts.selection_timeout)),
    };
    if !is_any_reached {
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
            &format!("{why} One server fewer is available for failover and to acknowledge writes."),
            advice(server.error.as_deref(), facts),
        );
    } else {
        findings.problem(
            "member_unreachable",
            format!("{address} cannot be reached; others can"),
            &format!("{why} Its name comes from the replica set configuration."),
            "If it is down, start it. If it is up, its name in the configuration does not work on this machine: \
             make the name resolve here, or configure names that all machines can use.",
        );
    }
}

/// Formats an error as a sentence, without the address of the server.
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
        "The name cannot be resolved. Check its spelling, and this machine's DNS."
    } else if has(&["closed", "eof", "reset"]) && facts.uri.tls.is_none() {
        "The server may require TLS, or reject this machine. Try tls=true; check the server's log."
    } else {
        "Check that the server is running and that no firewall is between it and this machine."
    }
}

fn failed(facts: &Facts, failure: &DeploymentFailure, findings: &mut Findings) {
    let is_explained = !findings.0.is_empty();
    match failure {
        DeploymentFailure::Dns(why) => findings.problem(
            "dns",
            "the host name of the connection string cannot be resolved",
            &reason(why, facts.seeds.first()),
            "Check its spelling, and this machine's DNS. mongodb+srv:// requires SRV records; for a plain host, use \
             mongodb://.",
        ),
        DeploymentFailure::Tls(why) => findings.problem(
            "tls_configuration",
            "TLS cannot be configured as the connection string requires",
            &reason(why, facts.seeds.first()),
            "Check the files that tlsCAFile and tlsCertificateKeyFile name.",
        ),
        DeploymentFailure::Authentication(why) => findings.problem(
            "login_failed",
            "authentication failed",
            &reason(why, facts.seeds.first()),
            "Check user and password, and that special characters are percent-encoded. If the user is defined in \
             another database than admin, set authSource.",
        ),
        DeploymentFailure::Incompatible(why) => findings.problem(
            "incompatible",
            "the driver and the servers have no wire version in common",
            &reason(why, facts.seeds.first()),
            "Upgrade the older of the two.",
        ),
        DeploymentFailure::NoServer(_) if facts.kind == DeploymentKind::ReplicaSet => no_primary(facts, findings),
        DeploymentFailure::NoServer(_) if is_explained => {}
        DeploymentFailure::NoServer(why) | DeploymentFailure::Other(why) => findings.problem(
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
        "An election may be in progress: run this again. If there is still no primary, check the members' logs \
         and rs.status()."
    } else {
        "Start the members that are down: a primary needs a majority of the votes."
    };
    findings.problem(
        "no_primary",
        "the replica set has no primary",
        &format!(
            "Writes are not possible. {reached} of {members} members can be reached from here."
        ),
        next,
    );
}

/// Reports seeds that the replica set configuration has under other names.
fn other_names(facts: &Facts, findings: &mut Findings) {
    if facts.kind != DeploymentKind::ReplicaSet || facts.is_direct() {
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
        format!("the replica set configuration does not contain {}", list(&aliases)),
        &format!(
            "It contains {members}. Drivers use these names: each client must be able to resolve and reach them."
        ),
        "Use the host names of the configuration in the connection string.",
    );
}
