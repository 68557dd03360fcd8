//! Commands about the connection or the server that do not access data.

use bson::doc;
use steadfast_query::{Code, Fault};

use super::connection::{Connection, End, Outcome};
use crate::{auth, era, parameters};
use blackpipe_base::message::Request;

impl Connection {
    /// Runs a command of this module. Returns `None` for other commands.
    pub(super) async fn run_own(&mut self, request: &Request) -> Result<Option<Outcome>, End> {
        let server = self.server().clone();
        let Request { name, database, body, .. } = request;
        let done = match name.as_str() {
            "configureFailPoint" => for_admin(request, || server.configure(body)),
            "waitForFailPoint" => match for_admin(request, || Ok(())) {
                Ok(()) => self.wait(server.fail_points.wait(body)).await?,
                Err(fault) => Err(fault),
            },
            "setParameter" => {
                for_admin(request, || Ok(parameters::set(&server, body).unwrap_or_else(|no| no)))
            }
            "getParameter" => for_admin(request, || Ok(parameters::get(&server, body))),
            // Start of MONGODB-CR, which servers kept after they had removed the mechanism.
            "getnonce" if !era::is_since(&server.host.about().version, (6, 2, 0)) => {
                Ok(doc! { "nonce": server.users.short_nonce(), "ok": 1.0 })
            }
            "whatsmyuri" => Ok(doc! { "you": self.peer.to_string(), "ok": 1.0 }),
            "connectionStatus" => Ok(self.identity.status(body, &server.users)),
            "saslStart" => {
                let nonce = server.users.nonce();
                self.identity.sasl_start(body, database, &server.users, &nonce)
            }
            "saslContinue" => self.identity.sasl_continue(body),
            "authenticate" => {
                let mechanism = body.get_str("mechanism").unwrap_or("MONGODB-X509");
                Err(Fault::new(
                    Code::named(334, "MechanismUnavailable"),
                    format!(
                        "Received authentication for mechanism {mechanism} which is not enabled"
                    ),
                ))
            }
            "logout" => {
                self.identity.forget();
                Ok(doc! { "ok": 1.0 })
            }
            "shutdown" => match for_admin(request, || Ok(())) {
                Ok(()) => {
                    server.host.kill();
                    return Ok(Some(Outcome::Close));
                }
                Err(fault) => Err(fault),
            },
            name if auth::commands::is_write(name) && !server.host.is_writable() => {
                Err(Fault::new(Code::NOT_WRITABLE_PRIMARY, "not primary"))
            }
            name => match auth::commands::run(name, body, database, &server.users) {
                Some(done) => done,
                None => return Ok(None),
            },
        };
        Ok(Some(done.into()))
    }
}

/// Rejects the command outside of the database `admin`.
fn for_admin<T>(request: &Request, run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    match request.database == "admin" {
        true => run(),
        false => Err(Fault::new(
            Code::UNAUTHORIZED,
            format!("{} may only be run against the admin database.", request.name),
        )),
    }
}
