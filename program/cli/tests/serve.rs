//! `steadfast serve` as its users meet it: arguments, output, exit status.
#![allow(missing_docs)]

mod program;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use bson::{Document, doc};
use program::{Program, signal, steadfast};

/// Exit status and what it says of its failure.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = steadfast(&[&["serve"], arguments].concat()).output().unwrap();
    assert_eq!(output.stdout, b"", "programs that read the first line get none");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn hosts(uri: &str) -> Vec<&str> {
    let rest = uri.trim_start_matches("mongodb://");
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    rest.split('/').next().unwrap().split(',').collect()
}

/// Sends a command to a server, and gives its reply.
fn ask(host: &str, command: &Document) -> Document {
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
fn a_replica_set_of_three_is_there_unless_something_else_is_asked_for() {
    let set = Program::start(&["serve"]);
    assert!(set.uri().ends_with("/?replicaSet=rs0"), "{}", set.uri());
    let hosts = hosts(set.uri());
    let primaries = hosts.iter().filter(|host| {
        let hello = ask(host, &doc! { "hello": 1, "$db": "admin" });
        hello.get_bool("isWritablePrimary").unwrap()
    });
    assert_eq!((hosts.len(), primaries.count()), (3, 1));
    let insert = doc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
    assert_eq!(ask(hosts[0], &insert).get_i32("n").unwrap(), 1);
    let said = set.end();
    assert!(said.contains("a replica set of 3 members, as MongoDB 8.0.0 would be"), "{said}");
    assert!(said.contains("in memory"), "{said}");
}

#[test]
fn a_server_is_as_it_is_asked_to_be() {
    let arguments = ["serve", "--standalone", "--version", "8.2", "--request-rate", "0.0001,1"];
    let server = Program::start(&arguments);
    let host = hosts(server.uri())[0];
    let hello = ask(host, &doc! { "hello": 1, "$db": "admin" });
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), 27);
    assert!(!hello.contains_key("setName"));
    let find = doc! { "find": "things", "$db": "db" };
    assert_eq!(ask(host, &find).get_f64("ok").unwrap(), 1.0);
    assert_eq!(ask(host, &find).get_i32("code").unwrap(), 462);
}

#[test]
fn a_sharded_cluster_is_reached_through_its_routers() {
    let cluster = Program::start(&["serve", "--sharded", "alfa,bravo", "--routers", "2"]);
    let hosts = hosts(cluster.uri());
    assert_eq!(hosts.len(), 2);
    let insert = doc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" };
    assert_eq!(ask(hosts[0], &insert).get_i32("n").unwrap(), 1);
    let said = cluster.end();
    assert!(said.contains("a sharded cluster of alfa and bravo"), "{said}");
    assert!(said.contains("shard bravo: 127.0.0.1:"), "{said}");
}

#[test]
fn a_user_must_log_in_if_there_is_one() {
    let server = Program::start(&["serve", "--standalone", "--auth", "root:a/b"]);
    assert!(server.uri().starts_with("mongodb://root:a%2Fb@127.0.0.1:"), "{}", server.uri());
    let find = doc! { "find": "things", "$db": "db" };
    assert_eq!(ask(hosts(server.uri())[0], &find).get_i32("code").unwrap(), 13);
}

#[test]
fn ctrl_c_ends_it_well() {
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
fn what_cannot_be_done_is_said() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (status, said) = failure(&["--standalone", "--port", &port]);
    assert_eq!(status, Some(1));
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
    let (status, said) = failure(&["--version", "3.6"]);
    assert_eq!(status, Some(2));
    assert!(
        said.contains("unknown server version 3.6; known versions: 4.2 (wire 8), 4.4"),
        "{said}"
    );
    let (status, said) = failure(&["--replica-set", "0"]);
    assert_eq!((status, said.contains("at least one member")), (Some(2), true), "{said}");
    let (status, said) = failure(&["--auth", "root"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("a colon between them"), "{said}");
    let (status, _) = failure(&["--standalone", "--replica-set", "3"]);
    assert_eq!(status, Some(2));
}

#[test]
fn the_help_tells_how_to_begin() {
    let help = steadfast(&["serve", "--help"]).output().unwrap();
    let said = String::from_utf8_lossy(&help.stdout);
    assert!(said.contains("steadfast serve --port 27017"), "{said}");
    assert!(said.contains("in memory"), "{said}");
}

#[test]
fn a_version_of_the_wire_protocol_is_as_good_as_one_of_the_server() {
    let server = Program::start(&["serve", "--standalone", "--wire-version", "17"]);
    let hello = ask(hosts(server.uri())[0], &doc! { "hello": 1, "$db": "admin" });
    assert_eq!(hello.get_i32("maxWireVersion").unwrap(), 17);
    let said = server.end();
    assert!(said.contains("a standalone server, as MongoDB 6.0.0 would be"), "{said}");

    let (status, said) = failure(&["--wire-version", "16"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("wire version 16; known versions: 4.2 (wire 8)"), "{said}");
}
