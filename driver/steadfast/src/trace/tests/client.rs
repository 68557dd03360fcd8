//! All log messages of a client, with a server that quotes commands in its errors.

use blackpipe::server::{Request, Server, error};
use bson::{Bson, doc};
use tokio::net::TcpSocket;
use tracing::Level;

use super::{Captured, Value, capture, messages};
use crate::{Client, error::Result};

const SECRET: &str = "hunter2";

/// Creates a server without sessions that returns an error for all commands except `hello` and
/// `ping`.
fn server() -> Server {
    let handler = |request: &Request| {
        let is_welcome = request.is_hello() || request.name == "ping";
        let command_error = || error(18).with_message(format!("cannot do that with {SECRET}"));
        (!is_welcome).then(|| vec![command_error().into()])
    };
    let said = doc! { "logicalSessionTimeoutMinutes": Bson::Null, "connectionId": 42 };
    Server::builder().hello_fields(said).handler(handler).start()
}

fn uri(server: &Server, credentials: &str) -> String {
    format!("mongodb://{credentials}{}/?directConnection=true", server.address())
}

/// Returns the log messages of a client that runs a command on the current thread.
fn logs_of(uri: &str, command: bson::Document) -> (Vec<Captured>, Result<bson::Document>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut outcome = None;
    let captured = capture(Level::TRACE, || {
        outcome = Some(runtime.block_on(async {
            let client = Client::with_uri_str(uri).await?;
            let outcome = client.database("admin").run_command(command).await;
            client.shutdown().await;
            outcome
        }));
    });
    (captured, outcome.unwrap())
}

fn of<'a>(captured: &'a [Captured], target: &str) -> Vec<&'a Captured> {
    captured.iter().filter(|captured| captured.target == target).collect()
}

#[test]
fn log_messages_of_a_client_have_one_topology_id() {
    let (captured, outcome) = logs_of(&uri(&server(), ""), doc! { "ping": 1 });
    outcome.unwrap();
    for message in [
        "Starting topology monitoring",
        "Server heartbeat succeeded",
        "Server selection started",
        "Server selection succeeded",
        "Connection checked out",
        "Command started",
        "Command succeeded",
        "Connection checked in",
        "Connection pool closed",
        "Stopped topology monitoring",
    ] {
        assert!(messages(&captured).contains(&message), "{message}: {:?}", messages(&captured));
    }
    let id = captured[0].text("topologyId");
    assert!(captured.iter().all(|captured| captured.text("topologyId") == id));
    let commands = of(&captured, "steadfast::command");
    assert_eq!(commands.len(), 2, "neither handshakes nor heartbeats are logged as commands");
    assert_eq!(commands[0].fields["serverConnectionId"], Value::from(42));
    for key in ["requestId", "operationId", "driverConnectionId"] {
        assert_eq!(commands[0].fields[key], commands[1].fields[key], "{key}");
    }
}

/// The failure of each of three servers changes the topology, and no server is suitable.
#[test]
fn waiting_for_a_server_is_logged_once_for_each_operation() {
    // The ports are reserved, and nothing listens there.
    let deaf = || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket
    };
    let deaf = [deaf(), deaf(), deaf()];
    let hosts = deaf.each_ref().map(|socket| socket.local_addr().unwrap().to_string()).join(",");
    let uri = format!("mongodb://{hosts}/?serverSelectionTimeoutMS=3000");
    let (captured, outcome) = logs_of(&uri, doc! { "ping": 1 });
    assert!(outcome.unwrap_err().is_server_selection_error());
    let messages = messages(&captured);
    let count = |wanted: &str| messages.iter().filter(|message| **message == wanted).count();
    assert!(count("Topology description changed") > 3, "{messages:?}");
    assert_eq!(count("Waiting for suitable server to become available"), 1);
    assert_eq!(count("Server selection failed"), 1);
}

/// pitfall 40: no target contains the command or the server's message.
#[test]
fn sensitive_command_is_in_no_log_message() {
    for command in [
        doc! { "createUser": "u", "pwd": SECRET },
        doc! { "saslStart": 1, "payload": SECRET },
        doc! { "authenticate": 1, "key": SECRET },
    ] {
        let (captured, outcome) = logs_of(&uri(&server(), ""), command);
        assert_eq!(outcome.unwrap_err().code(), Some(18));
        assert!(!format!("{captured:?}").contains(SECRET), "{captured:?}");
        let commands = of(&captured, "steadfast::command");
        assert_eq!(commands[0].text("command"), "{}");
        assert!(commands[1].text("failure").contains("REDACTED"));
    }
}

/// pitfall 40: no message contains the password or anything derived from it.
#[test]
fn password_is_in_no_log_message() {
    let (captured, outcome) = logs_of(&uri(&server(), "user:pass-of-ours@"), doc! { "ping": 1 });
    assert!(outcome.unwrap_err().is_auth_error());
    assert!(messages(&captured).contains(&"Connection checkout failed"));
    let all = format!("{captured:?}");
    assert!(!all.contains("pass-of-ours") && !all.contains("speculativeAuthenticate"), "{all}");
}
