//! `hello` of every connection: of monitors, round-trip time monitors and pools.

use steadfast::options::{Credential, ServerApi, ServerApiVersion};

use super::*;

/// Client options and server type of a handshake.
#[derive(Clone, Copy, Debug)]
struct HandshakeCase {
    role: Role,
    /// The server supports streaming heartbeats, so a third connection measures the round-trip time.
    is_streaming: bool,
    /// The client has a credential, which the server does not support: authentication fails after the handshake.
    has_credential: bool,
    /// The client declares a stable API version, so its first message is OP_MSG.
    has_server_api: bool,
}

impl HandshakeCase {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for role in [Role::Standalone, Role::Primary, Role::Mongos, Role::LoadBalanced] {
            for options in 0..8 {
                let [is_streaming, has_credential, has_server_api] =
                    [1, 2, 4].map(|bit| options & bit != 0);
                all.push(Self { role, is_streaming, has_credential, has_server_api });
            }
        }
        all
    }

    fn connections(self) -> usize {
        match self.role {
            Role::LoadBalanced => 1,
            _ => 2 + usize::from(self.is_streaming),
        }
    }

    async fn check(self) {
        let server =
            Server::builder().role(self.role).lenient().streaming(self.is_streaming).start();
        let is_load_balanced = self.role == Role::LoadBalanced;
        let uri = server.uri(if is_load_balanced { "loadBalanced=true" } else { "" });
        let mut options = ClientOptions::parse(uri).await.unwrap();
        if self.has_credential {
            let user =
                Credential::builder().username("user".to_owned()).password("pencil".to_owned());
            options.credential = Some(user.build());
        }
        if self.has_server_api {
            options.server_api = Some(ServerApi::builder().version(ServerApiVersion::V1).build());
        }
        let client = Client::with_options(options).unwrap();
        let ping = start(&client, "ping");
        let is_first = |request: &&Request| request.earlier_requests == 0;
        let of_all = |log: &common::ServerLog| {
            log.requests.iter().filter(is_first).count() >= self.connections()
        };
        let log = server.wait_for(of_all).await;
        assert_eq!(bounded(ping).await.unwrap().is_err(), self.has_credential, "{self:?}");

        let handshakes: Vec<_> = log.requests.iter().filter(is_first).collect();
        let is_modern = self.has_server_api || is_load_balanced;
        for hello in &handshakes {
            assert_eq!(hello.name, if is_modern { "hello" } else { "isMaster" }, "{self:?}");
            assert_eq!(hello.legacy, !is_modern, "{self:?}: {hello:?}");
            assert_eq!(
                hello.body.get("backpressure"),
                Some(&Bson::Boolean(true)),
                "{self:?}: {hello:?}"
            );
        }
        let is_authenticating =
            |hello: &&&Request| hello.body.contains_key("speculativeAuthenticate");
        let authenticating = handshakes.iter().filter(is_authenticating).count();
        assert_eq!(authenticating, usize::from(self.has_credential), "{self:?}: {handshakes:?}");
    }
}

#[tokio::test]
async fn every_handshake_has_the_backpressure_field() {
    let checks: Vec<_> =
        HandshakeCase::all().into_iter().map(|case| tokio::spawn(case.check())).collect();
    assert_eq!(checks.len(), 32);
    for check in checks {
        check.await.unwrap();
    }
}
