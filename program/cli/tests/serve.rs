//! Tests of `steadfast serve`: arguments, output, exit status.
#![allow(missing_docs)]

mod program;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use bson::{Document, doc};
use program::{Program, signal, steadfast};

/// Returns the exit status and standard error of a failure.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = steadfast(&[&["serve"], arguments].concat()).output().unwrap();
    assert_eq!(output.stdout, b"", "there is no connection string");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn hosts(uri: &str) -> Vec<&str> {
    let rest = uri.trim_start_matches("mongodb://");
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    rest.split('/').next().unwrap().split(',').collect()
}

/// Sends a command to a server, and returns the reply.
fn run_command(host: &str, command: &Document) -> Document {
    let body = command.to_vec().unwrap();
    let mut message = Vec::new();
    for field in [i32::try_from(21 + body.len()).unwrap(), 1, 0, 2013, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(&message).unwrap();
    let mut head = [0; 21];
    stream.read_exact(&mut head).unwrap();
    let length = i32::from_le_bytes(*head.first_chunk().unwrap());
    let mut reply = vec![0; usize::try_from(length).unwrap() - head.len()];
    stream.read_exact(&mut reply).unwrap();
    Document::from_reader(reply.as_slice()).unwrap()
}

#[test]
fn default_is_a_replica_set_of_three() {
    let set = Program::start(&["serve"]);
    assert!(set.uri().ends_with("/?replicaSet=rs0"), "{}", set.uri());
    let hosts = hosts(set.uri());
    let primaries = hosts.iter().filter(|host| {
        let hello = run_command(host, &doc! { "hello": 1, "$db": "admin" });
        hello.get_bool("isWritablePrimary").unwrap()
    });
    assert_eq!((hosts.len(), primaries.count()), (3, 1));
    let insert = doc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
    assert_eq!(run_command(hosts[0], &insert).get_i32("n").unwrap(), 1);
    let output = set.end();
    assert!(output.contains("a replica set of 3 members, emulating MongoDB 8.0.0"), "{output}");
    assert!(output.contains("in memory"), "{output}");
}

#[test]
fn server_has_the_given_options() {
    let arguments = ["serve", "--standalone", "--version", "8.2", "--request-rate", "0.0001,1"];
    let server = Program::start(&arguments);
    let host = hosts(server.uri())[0];
    let hello = run_command(host, &doc! { "hello": 1, "$db": "admin" });
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), 27);
    assert!(!hello.contains_key("setName"));
    let find = doc! { "find": "things", "$db": "db" };
    assert_eq!(run_command(host, &find).get_f64("ok").unwrap(), 1.0);
    assert_eq!(run_command(host, &find).get_i32("code").unwrap(), 462);
}

#[test]
fn sharded_cluster_is_used_through_its_mongos() {
    let cluster = Program::start(&["serve", "--sharded", "alfa,bravo", "--mongos", "2"]);
    let hosts = hosts(cluster.uri());
    assert_eq!(hosts.len(), 2);
    let insert = doc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
    assert_eq!(run_command(hosts[0], &insert).get_i32("n").unwrap(), 1);
    let output = cluster.end();
    assert!(output.contains("a sharded cluster of alfa and bravo"), "{output}");
    assert!(output.contains("shard bravo: 127.0.0.1:"), "{output}");
}

#[test]
fn auth_option_requires_authentication() {
    let server = Program::start(&["serve", "--standalone", "--auth", "root:a/b"]);
    assert!(server.uri().starts_with("mongodb://root:a%2Fb@127.0.0.1:"), "{}", server.uri());
    let find = doc! { "find": "things", "$db": "db" };
    assert_eq!(run_command(hosts(server.uri())[0], &find).get_i32("code").unwrap(), 13);
}

#[test]
fn exit_status_is_0_after_ctrl_c() {
    let mut process = steadfast(&["serve", "--replica-set", "1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    process.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    signal(&process, "-INT");
    assert!(process.wait().unwrap().success());
}

#[test]
fn invalid_options_and_used_ports_are_reported() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (status, stderr) = failure(&["--standalone", "--port", &port]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{stderr}");
    let (status, stderr) = failure(&["--version", "3.6"]);
    assert_eq!(status, Some(2));
    assert!(
        stderr.contains("unknown server version 3.6; known versions: 4.2 (wire 8), 4.4"),
        "{stderr}"
    );
    let (status, stderr) = failure(&["--replica-set", "0"]);
    assert_eq!((status, stderr.contains("at least one member")), (Some(2), true), "{stderr}");
    let (status, stderr) = failure(&["--auth", "root"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("a colon between them"), "{stderr}");
    let (status, _) = failure(&["--standalone", "--replica-set", "3"]);
    assert_eq!(status, Some(2));
}

#[test]
fn help_has_an_example() {
    let help = steadfast(&["serve", "--help"]).output().unwrap();
    let output = String::from_utf8_lossy(&help.stdout);
    assert!(output.contains("steadfast serve --port 27017"), "{output}");
    assert!(output.contains("in memory"), "{output}");
}

#[test]
fn wire_version_selects_the_server_version() {
    let server = Program::start(&["serve", "--standalone", "--wire-version", "17"]);
    let hello = run_command(hosts(server.uri())[0], &doc! { "hello": 1, "$db": "admin" });
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), 17);
    let output = server.end();
    assert!(output.contains("a standalone server, emulating MongoDB 6.0.0"), "{output}");

    let (status, stderr) = failure(&["--wire-version", "16"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("wire version 16; known versions: 4.2 (wire 8)"), "{stderr}");
}
