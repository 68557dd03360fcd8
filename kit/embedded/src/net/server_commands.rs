//! Commands about the connection or the server that do not access data.

use bson::doc;
use steadfast_query::{Code, Fault};

use super::connection::{Connection, ConnectionEnd, RequestOutcome};
use crate::{auth, parameters, version_gate};
use blackpipe_base::message::Request;

impl Connection {
    /// Runs a command of this module. Returns `None` for other commands.
    pub(super) async fn run_server_command(
        &mut self,
        request: &Request,
    ) -> Result<Option<RequestOutcome>, ConnectionEnd> {
        let server = self.server().clone();
        let Request { name, database, body, .. } = request;
        let done = match name.as_str() {
            "configureFailPoint" => require_admin(request, || server.configure_fail_point(body)),
            "waitForFailPoint" => match require_admin(request, || Ok(())) {
                Ok(()) => self.wait(server.fail_points.wait(body)).await?,
                Err(fault) => Err(fault),
            },
            "setParameter" => {
                require_admin(
                    request,
                    || Ok(parameters::set(&server, body).unwrap_or_else(|no| no)),
                )
            }
            "getParameter" => require_admin(request, || Ok(parameters::get(&server, body))),
            // Start of MONGODB-CR, which servers kept after they had removed the mechanism.
            "getnonce"
                if !version_gate::is_at_least(&server.host.server_info().version, (6, 2, 0)) =>
            {
                Ok(doc! { "nonce": server.users.short_nonce(), "ok": 1.0 })
            }
            "whatsmyuri" => Ok(doc! { "you": self.peer.to_string(), "ok": 1.0 }),
            "connectionStatus" => Ok(self.auth.status(body, &server.users)),
            "saslStart" => {
                let nonce = server.users.nonce();
                self.auth.sasl_start(body, database, &server.users, &nonce)
            }
            "saslContinue" => self.auth.sasl_continue(body),
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
                self.auth.log_out();
                Ok(doc! { "ok": 1.0 })
            }
            "shutdown" => match require_admin(request, || Ok(())) {
                Ok(()) => {
                    server.host.kill();
                    return Ok(Some(RequestOutcome::Close));
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
fn require_admin<T>(request: &Request, run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    match request.database == "admin" {
        true => run(),
        false => Err(Fault::new(
            Code::UNAUTHORIZED,
            format!("{} may only be run against the admin database.", request.name),
        )),
    }
}
