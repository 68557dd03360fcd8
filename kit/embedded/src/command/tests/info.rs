//! Diagnostic commands and statistics.

use bson::{Bson, doc};

use super::{TestServer, numbers};
use crate::command::COMMANDS;

#[test]
fn build_info_has_version_and_version_array() {
    let mut server = TestServer::new();
    let reply = server.ok(doc! { "buildInfo": 1 });
    assert_eq!(reply.get_str("version").unwrap(), "6.0.5");
    let numbers: Vec<Bson> = [6, 0, 5, 0].map(Bson::Int32).to_vec();
    assert_eq!(reply.get_array("versionArray").unwrap(), &numbers);
}

#[test]
fn diagnostic_commands_of_shells_succeed() {
    let mut server = TestServer::new();
    assert_eq!(server.ok(doc! { "ping": 1 }), doc! {});
    assert_eq!(
        server.expect_error(doc! { "ping": 1, "foo": 1 }),
        (40415, "BSON field 'ping.foo' is an unknown field.".into())
    );
    let options = server.admin(doc! { "getCmdLineOpts": 1 });
    let parsed = options.get_document("parsed").unwrap();
    assert_eq!(parsed.get_document("replication").unwrap(), &doc! { "replSet": "rs" });
    assert_eq!(
        server.expect_error(doc! { "getCmdLineOpts": 1 }),
        (13, "getCmdLineOpts may only be run against the admin database.".into())
    );
    assert_eq!(
        server.admin(doc! { "getLog": "startupWarnings" }),
        doc! { "totalLinesWritten": 0, "log": [] }
    );
    assert_eq!(server.expect_error(doc! { "getLog": "x", "$db": "admin" }).0, 96);
    let status = server.ok(doc! { "serverStatus": 1 });
    assert_eq!(status.get_i64("uptimeMillis").unwrap(), 10_000);
    assert_eq!(status.get_str("process").unwrap(), "mongod");
    assert!(server.ok(doc! { "hostInfo": 1 }).get_document("system").is_ok());
    assert_eq!(server.ok(doc! { "profile": -1 }).get_i32("was").unwrap(), 0);
    assert_eq!(server.expect_error(doc! { "profile": 2 }).0, 238);
    assert_eq!(server.admin(doc! { "currentOp": 1 }), doc! { "inprog": [] });
    assert_eq!(server.expect_error(doc! { "killOp": 1, "$db": "admin" }).0, 4);
}

#[test]
fn list_commands_has_each_command_once() {
    let mut server = TestServer::new();
    let reply = server.admin(doc! { "listCommands": 1 });
    let listed = reply.get_document("commands").unwrap();
    assert_eq!(listed.len(), COMMANDS.len());
    assert_eq!(listed.get_document("find").unwrap().get_array("apiVersions").unwrap().len(), 1);
}

#[test]
fn unsupported_commands_return_command_not_supported() {
    let mut server = TestServer::new();
    for name in ["compact", "convertToCapped", "mapReduce", "reIndex", "top", "fsync"] {
        assert_eq!(server.expect_error(doc! { name: "c" }).0, 115, "{name}");
    }
}

#[test]
fn statistics_report_document_sizes() {
    let mut server = TestServer::with(numbers(5));
    // Two ints whose names have three bytes and one byte.
    let size = 5 * (5 + (2 + 3 + 4) + (2 + 1 + 4));
    let statistics = server.ok(doc! { "collStats": "c" });
    assert_eq!(statistics.get_i32("size").unwrap(), size);
    assert_eq!(statistics.get_i32("count").unwrap(), 5);
    assert_eq!(server.ok(doc! { "collStats": "nope" }).get_i32("count").unwrap(), 0);
    assert_eq!(server.expect_error(doc! { "collStats": "c", "scale": 0 }).0, 51024);
    let statistics = server.ok(doc! { "dbStats": 1 });
    assert_eq!(statistics.get_i32("objects").unwrap(), 5);
    assert_eq!(statistics.get_f64("dataSize").unwrap(), f64::from(size));
    let reply = server.ok(doc! { "dataSize": "d.c" });
    assert_eq!(reply.get_i32("size").unwrap(), size);
    let reply = server.ok(doc! { "validate": "c" });
    assert!(reply.get_bool("valid").unwrap());
    assert_eq!(reply.get_document("keysPerIndex").unwrap(), &doc! { "_id_": 5 });
    assert_eq!(server.expect_error(doc! { "validate": "nope" }).0, 26);
}

#[test]
fn db_hash_is_independent_of_insertion_order() {
    let digest = |server: &mut TestServer| {
        let reply = server.ok(doc! { "dbHash": 1 });
        reply.get_str("md5").unwrap().to_owned()
    };
    let mut one = TestServer::with(numbers(3));
    let mut documents: Vec<_> = numbers(3).collect();
    documents.reverse();
    let mut other = TestServer::with(documents);
    assert_eq!(digest(&mut one), digest(&mut other));
    other.ok(
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 9 } } }] },
    );
    assert_ne!(digest(&mut one), digest(&mut other));
}
