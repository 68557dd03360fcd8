//! Who can listen, and who can log in.

use steadfast::options::{AuthMechanism, Tls};

use super::{Findings, list};
use crate::doctor::facts::{Facts, Failure};

pub(super) fn encryption(facts: &Facts, findings: &mut Findings) {
    match &facts.uri.tls {
        Some(Tls::Enabled(options)) => {
            if !options.verifies_certificates() {
                findings.warning(
                    "tls_unverified",
                    "connections are encrypted, but nobody checks to whom",
                    "Any machine in between can pretend to be the server, and read along.",
                    "Take tlsInsecure and tlsAllowInvalidCertificates out of the connection string, and \
                     name the authority that issued the server's certificate with tlsCAFile.",
                );
            } else if !options.verifies_hostnames() {
                findings.warning(
                    "tls_unverified",
                    "connections are encrypted, but the certificate may be for any host",
                    "Whoever has a certificate of the same authority can pretend to be the server.",
                    "Take tlsAllowInvalidHostnames out of the connection string.",
                );
            } else if facts.reached().next().is_some() {
                let by = match &options.ca_file_path {
                    Some(path) => format!("the authorities in {}", path.display()),
                    None => "the authorities that this machine trusts".to_owned(),
                };
                findings
                    .ok("tls", format!("connections are encrypted; servers are checked by {by}"));
            }
        }
        // Nobody answered: nothing was sent.
        _ if facts.is_local() && facts.reached().next().is_none() => {}
        _ if facts.is_local() => {
            findings.ok("tls", "connections are not encrypted, and stay on this machine");
        }
        _ => {
            let plain = facts.uri.credential.as_ref().and_then(|it| it.mechanism)
                == Some(AuthMechanism::Plain);
            let why = if plain {
                "All machines in between can read along, and with the mechanism PLAIN see the password."
            } else {
                "All machines in between can read along."
            };
            findings.warning(
                "tls_off",
                "connections are not encrypted",
                why,
                "Enable TLS on the servers, and say tls=true.",
            );
        }
    }
}

pub(super) fn login(facts: &Facts, findings: &mut Findings) {
    // Said already.
    if matches!(facts.failure, Some(Failure::Login(_))) {
        return;
    }
    let login = &facts.login;
    if !login.users.is_empty() {
        let roles = match login.roles.is_empty() {
            true => "no roles".to_owned(),
            false => list(&login.roles),
        };
        findings.ok("login", format!("logged in as {} ({roles})", list(&login.users)));
        return;
    }
    match login.required {
        Some(true) => findings.problem(
            "login_needed",
            "the servers ask for a login, and the connection string has none",
            "Nothing can be read or written.",
            "Put user and password into the connection string: mongodb://user:password@host/",
        ),
        Some(false) if facts.is_local() => findings.note(
            "no_access_control",
            "the servers ask for no login",
            "Whoever reaches them can read and change everything. These are on this machine.",
            "For production, create users and enable access control.",
        ),
        Some(false) => findings.warning(
            "no_access_control",
            "the servers ask for no login",
            "Whoever reaches them can read and change everything.",
            "Create users and enable access control (security.authorization).",
        ),
        None => {}
    }
}
