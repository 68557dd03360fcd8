//! All that a whole client logs, against a server that quotes in its errors what it was sent.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use bson::{RawDocumentBuf, doc, rawdoc};
use tracing::Level;

use super::{Captured, Value, capture, messages};
use crate::{Client, error::Result};

const SECRET: &str = "hunter2";
const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;

/// Says hello to everyone, and refuses everything else but `ping`.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let field = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut body = vec![0; usize::try_from(field(0)).unwrap() - 16];
        stream.read_exact(&mut body)?;
        let said = |word: &str| body.windows(word.len()).any(|part| part == word.as_bytes());
        let reply = if said("isMaster\0") || said("hello\0") {
            hello()
        } else if said("ping\0") {
            rawdoc! { "ok": 1 }
        } else {
            let message = format!("cannot do that with {SECRET}");
            rawdoc! { "ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": message }
        };
        let legacy = field(12) == OP_QUERY;
        stream.write_all(&message(field(4), legacy, &reply))?;
    }
}

fn hello() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "ismaster": true, "helloOk": true, "minWireVersion": 0, "maxWireVersion": 21,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "connectionId": 42,
    }
}

fn message(response_to: i32, legacy: bool, reply: &RawDocumentBuf) -> Vec<u8> {
    let between: &[u8] = if legacy {
        // Flags, cursor, first and number of documents.
        &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    } else {
        // Flags, and a section that is one document.
        &[0, 0, 0, 0, 0]
    };
    let length = i32::try_from(16 + between.len() + reply.as_bytes().len()).unwrap();
    let mut message = Vec::new();
    for field in [length, 1, response_to, if legacy { OP_REPLY } else { OP_MSG }] {
        message.extend(field.to_le_bytes());
    }
    message.extend(between);
    message.extend(reply.as_bytes());
    message
}

fn uri(credentials: &str) -> String {
    format!("mongodb://{credentials}{}/?directConnection=true", server())
}

/// What a client logs while it runs a command; one thread does all its work, and is listened to.
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
fn a_client_logs_all_that_it_does_under_one_topology_id() {
    let (captured, outcome) = logs_of(&uri(""), doc! { "ping": 1 });
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

/// The failure of each of three servers changes what is known, and each time there is none still.
#[test]
fn waiting_for_a_server_is_logged_once_for_each_operation() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hosts = [closed(), closed(), closed()].map(|address| address.to_string()).join(",");
    let uri = format!("mongodb://{hosts}/?serverSelectionTimeoutMS=300");
    let (captured, outcome) = logs_of(&uri, doc! { "ping": 1 });
    assert!(outcome.unwrap_err().is_server_selection_error());
    let messages = messages(&captured);
    let count = |wanted: &str| messages.iter().filter(|message| **message == wanted).count();
    assert!(count("Topology description changed") > 3, "{messages:?}");
    assert_eq!(count("Waiting for suitable server to become available"), 1);
    assert_eq!(count("Server selection failed"), 1);
}

/// pitfall 40: neither the command, nor what the server says of it, on any target.
#[test]
fn a_command_with_secrets_shows_in_no_log_message() {
    for command in [
        doc! { "createUser": "u", "pwd": SECRET },
        doc! { "saslStart": 1, "payload": SECRET },
        doc! { "authenticate": 1, "key": SECRET },
    ] {
        let (captured, outcome) = logs_of(&uri(""), command);
        assert_eq!(outcome.unwrap_err().code(), Some(18));
        assert!(!format!("{captured:?}").contains(SECRET), "{captured:?}");
        let commands = of(&captured, "steadfast::command");
        assert_eq!(commands[0].text("command"), "{}");
        assert!(commands[1].text("failure").contains("REDACTED"));
    }
}

/// pitfall 40: a password shows neither as it is nor in what is made of it.
#[test]
fn a_password_shows_in_no_log_message() {
    let (captured, outcome) = logs_of(&uri("user:pass-of-ours@"), doc! { "ping": 1 });
    assert!(outcome.unwrap_err().is_auth_error());
    assert!(messages(&captured).contains(&"Connection checkout failed"));
    let all = format!("{captured:?}");
    assert!(!all.contains("pass-of-ours") && !all.contains("speculativeAuthenticate"), "{all}");
}
