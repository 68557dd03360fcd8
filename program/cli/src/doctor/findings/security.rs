//! Encryption and authentication.

use steadfast::options::{AuthMechanism, Tls};

use super::{Findings, list};
use crate::doctor::facts::{DeploymentFailure, Facts};

pub(super) fn encryption(facts: &Facts, findings: &mut Findings) {
    match &facts.uri.tls {
        Some(Tls::Enabled(options)) => {
            if !options.verifies_certificates() {
                findings.warning(
                    "tls_unverified",
                    "connections are encrypted, but certificates are not verified",
                    "Any machine in between can impersonate the server and read all data.",
                    "Remove tlsInsecure and tlsAllowInvalidCertificates from the connection string, and set \
                     tlsCAFile to the certificate authority of the servers.",
                );
            } else if !options.verifies_hostnames() {
                findings.warning(
                    "tls_unverified",
                    "connections are encrypted, but host names are not verified",
                    "The owner of any certificate of the same authority can impersonate the server.",
                    "Remove tlsAllowInvalidHostnames from the connection string.",
                );
            } else if facts.reached().next().is_some() {
                let by = match &options.ca_file_path {
                    Some(path) => format!("the authorities in {}", path.display()),
                    None => "the authorities that this machine trusts".to_owned(),
                };
                findings.ok(
                    "tls",
                    format!("connections are encrypted; certificates are verified with {by}"),
                );
            }
        }
        // Without a reply, nothing was sent.
        _ if facts.is_local() && facts.reached().next().is_none() => {}
        _ if facts.is_local() => {
            findings.ok("tls", "connections are not encrypted, and stay on this machine");
        }
        _ => {
            let plain = facts.uri.credential.as_ref().and_then(|it| it.mechanism)
                == Some(AuthMechanism::Plain);
            let why = if plain {
                "Any machine in between can read all data, including the password of the mechanism PLAIN."
            } else {
                "Any machine in between can read all data."
            };
            findings.warning(
                "tls_off",
                "connections are not encrypted",
                why,
                "Enable TLS on the servers, and set tls=true.",
            );
        }
    }
}

pub(super) fn login(facts: &Facts, findings: &mut Findings) {
    // Reported by `connection`.
    if matches!(facts.failure, Some(DeploymentFailure::Authentication(_))) {
        return;
    }
    let login = &facts.login;
    if !login.users.is_empty() {
        let roles = match login.roles.is_empty() {
            true => "no roles".to_owned(),
            false => list(&login.roles),
        };
        findings.ok("login", format!("authenticated as {} ({roles})", list(&login.users)));
        return;
    }
    match login.required {
        Some(true) => findings.problem(
            "login_needed",
            "the servers require authentication, and the connection string has no user",
            "Reads and writes are rejected.",
            "Put user and password into the connection string: mongodb://user:password@host/",
        ),
        Some(false) if facts.is_local() => findings.note(
            "no_access_control",
            "the servers do not require authentication",
            "Every client that can connect has full access. These servers are on this machine.",
            "For production, create users and enable access control.",
        ),
        Some(false) => findings.warning(
            "no_access_control",
            "the servers do not require authentication",
            "Every client that can connect has full access.",
            "Create users and enable access control (security.authorization).",
        ),
        None => {}
    }
}
