//! MongoDB 8.2 and sharded clusters: versions, routing, failures, access control and privileges.
#![allow(missing_docs)]

mod unauthenticated;

use std::{
    collections::BTreeSet,
    env, fs,
    net::SocketAddr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use bson::{Document, doc, oid::ObjectId};
use testbed::{ClusterOptions, MemberConfig, ShardedCluster, User, Version, shared};
#[cfg(feature = "certificates")]
use testbed::{Options, TestCa};

#[test]
fn servers_report_the_requested_version() {
    testbed::require!(V8_2);
    testbed::require!(V6_0);
    let version = |reply: Document| reply.get_str("version").unwrap().to_owned();
    let build_info = || doc! { "buildInfo": 1 };
    let mongod = shared::standalone_of(Version::V8_2).unwrap();
    assert_eq!(version(mongod.run_command("admin", build_info()).unwrap()), "8.2.0");
    let set = shared::replica_set_of(Version::V8_2).unwrap();
    assert_eq!(version(set.run_command(2, "admin", build_info()).unwrap()), "8.2.0");
    let mongos = &shared::sharded_cluster().unwrap().mongos()[0];
    assert_eq!(version(mongos.run_command("admin", build_info()).unwrap()), "8.2.0");
    let default = shared::standalone().unwrap().run_command("admin", build_info()).unwrap();
    if env::var_os("STEADFAST_MONGOD").is_none() {
        assert_eq!(version(default), "6.0.5");
    }
}

#[test]
fn servers_of_8_2_do_not_run_as_root() {
    testbed::require!(V8_2);
    let cluster = shared::sharded_cluster().unwrap();
    let members = cluster.shards().iter().chain([cluster.config_server()]);
    let mongod = members.flat_map(|set| set.members()).map(|member| member.pid());
    for pid in mongod.chain(cluster.mongos().iter().map(|mongos| mongos.pid())) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for ids in ["Uid:", "Gid:"] {
            let ids = status.lines().find_map(|line| line.strip_prefix(ids)).unwrap();
            // Real, effective, saved and file system ids.
            assert!(ids.split_whitespace().all(|id| id != "0"), "{status}");
        }
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        assert!(!groups.split_whitespace().any(|id| id == "0"), "{status}");
    }
}

#[test]
fn every_mongos_routes_to_both_shards() {
    testbed::require!(V8_2);
    let cluster = shared::sharded_cluster().unwrap();
    let shard = doc! { "shardCollection": "routing.things", "key": { "_id": "hashed" } };
    cluster.run_command("admin", shard).unwrap();
    for (mongos, first) in cluster.mongos().iter().zip([0, 50]) {
        let documents: Vec<Document> = (first..first + 50).map(|id| doc! { "_id": id }).collect();
        let insert = doc! { "insert": "things", "documents": documents };
        assert_eq!(mongos.run_command("routing", insert).unwrap().get_i32("n").unwrap(), 50);
    }
    for mongos in cluster.mongos() {
        let find = mongos.run_command("routing", doc! { "find": "things", "batchSize": 1000 });
        assert_eq!(first_batch(&find.unwrap()).len(), 100);
    }
    let on_shards: Vec<usize> = cluster
        .shards()
        .iter()
        .map(|shard| shard.run_command(0, "routing", doc! { "find": "things" }).unwrap())
        .map(|reply| first_batch(&reply).len())
        .collect();
    // A direct connection returns at most the 101 documents of a first batch; each shard has fewer.
    assert_eq!(on_shards.iter().sum::<usize>(), 100);
    assert!(on_shards.iter().all(|&count| count > 0), "{on_shards:?}");
    let names: Vec<String> = (0..2).map(|shard| cluster.shard_name(shard)).collect();
    assert_eq!(names, [cluster.shards()[0].name(), cluster.shards()[1].name()]);
}

fn first_batch(reply: &Document) -> Vec<Document> {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|document| document.as_document().unwrap().clone()).collect()
}

#[test]
fn cluster_recovers_from_kills_freezes_and_step_downs_of_mongos_and_shards() {
    testbed::require!(V8_2);
    let cluster = ShardedCluster::start(ClusterOptions::new().load_balanced(true)).unwrap();
    let [first, second] = cluster.mongos() else { panic!("two mongos") };
    let shard = doc! { "shardCollection": "faults.things", "key": { "_id": "hashed" } };
    cluster.run_command("admin", shard).unwrap();
    let documents: Vec<Document> = (0..20).map(|id| doc! { "_id": id }).collect();
    let insert = doc! { "insert": "things", "documents": documents, "writeConcern": { "j": true } };
    cluster.run_command("faults", insert).unwrap();
    let find = doc! { "find": "things" };
    let is_whole = |reply: testbed::Result<Document>| first_batch(&reply.unwrap()).len() == 20;

    assert_load_balancer_distributes_connections(&cluster);

    first.kill().unwrap();
    assert!(first.run_command("faults", find.clone()).is_err());
    assert!(is_whole(cluster.run_command("faults", find.clone())));
    let balancer = cluster.load_balancer().unwrap();
    assert_eq!(
        service_id(balancer.address()),
        service_id(balancer.address()),
        "one mongos is left"
    );
    first.restart().unwrap();
    assert!(is_whole(first.run_command("faults", find.clone())));

    first.freeze().unwrap();
    assert!(is_whole(cluster.run_command("faults", find.clone())));
    first.thaw().unwrap();
    assert!(is_whole(first.run_command("faults", find.clone())));

    // A fail point of one shard fails the client's command through a mongos.
    let [shard, other] = cluster.shards() else { panic!("two shards") };
    let fail_point = |mode: &str| {
        let data =
            doc! { "failCommands": ["find"], "errorCode": 8000, "failInternalCommands": true };
        doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data }
    };
    shard.run_command(0, "admin", fail_point("alwaysOn")).unwrap();
    let error = second.run_command("faults", find.clone()).unwrap_err().to_string();
    assert!(error.contains("8000"), "{error}");
    shard.run_command(0, "admin", fail_point("off")).unwrap();

    shard.kill(0).unwrap();
    let find_soon = doc! { "find": "things", "maxTimeMS": 500 };
    assert!(second.run_command("faults", find_soon).is_err());
    shard.restart(0).unwrap();
    shard.wait_for_primary().unwrap();
    assert!(is_whole(second.run_command("faults", find.clone())));

    assert_eq!(other.step_down().unwrap(), 0);
    other.wait_for_primary().unwrap();
    let update = doc! { "q": {}, "u": { "$set": { "late": true } }, "multi": true };
    let update = doc! { "update": "things", "updates": [update] };
    let reply = second.run_command("faults", update).unwrap();
    assert_eq!(reply.get_i32("nModified").unwrap(), 20, "{reply}");
}

/// Asserts that the load balancer distributes connections over all `mongos`, and that only its connections have a
/// `serviceId`.
fn assert_load_balancer_distributes_connections(cluster: &ShardedCluster) {
    let balancer = cluster.load_balancer().unwrap();
    assert!(balancer.uri().ends_with("/?loadBalanced=true"));
    let services: BTreeSet<_> =
        (0..4).map(|_| service_id(balancer.address()).unwrap().to_hex()).collect();
    assert_eq!(services.len(), 2, "{services:?}");
    for mongos in cluster.mongos() {
        assert_eq!(service_id(mongos.address()), None);
        // Without the header of the PROXY protocol, the connection is closed.
        let port = mongos.load_balancer_address().unwrap();
        assert!(unauthenticated::run(port, doc! { "hello": 1, "loadBalanced": true }).is_err());
    }
}

fn service_id(address: SocketAddr) -> Option<ObjectId> {
    let hello = unauthenticated::run(address, doc! { "hello": 1, "loadBalanced": true }).unwrap();
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
    hello.get_object_id("serviceId").ok()
}

#[cfg(feature = "certificates")]
#[test]
fn secured_cluster_has_users_tls_tags_and_priorities() {
    testbed::require!(V8_2);
    let ca = TestCa::new().unwrap();
    let options = Options::new().tls(&ca).user(User::new("ada", "secret"));
    let cluster = ShardedCluster::start(
        ClusterOptions::new()
            .options(options)
            .shards(1)
            .members_per_shard(3)
            .mongos(1)
            .member(0, 0, MemberConfig::new().priority(0.0).tag("dc", "paris"))
            .member(0, 1, MemberConfig::new().tag("dc", "berlin").tag("rack", "1"))
            .member(0, 2, MemberConfig::new().priority(5.0).tag("dc", "berlin")),
    )
    .unwrap();
    let shard = &cluster.shards()[0];
    assert_eq!(shard.wait_for_primary().unwrap(), 2);
    let tags = |member| {
        let hello = shard.run_command(member, "admin", doc! { "hello": 1 }).unwrap();
        hello.get_document("tags").unwrap().clone()
    };
    assert_eq!(tags(0), doc! { "dc": "paris" });
    assert_eq!(tags(1), doc! { "dc": "berlin", "rack": "1" });

    let mongos = &cluster.mongos()[0];
    for address in [mongos.address(), shard.addresses()[1]] {
        assert!(unauthenticated::is_rejected(address, doc! { "listDatabases": 1 }));
    }
    let secondary = doc! { "mode": "secondaryPreferred" };
    let users_info = doc! { "usersInfo": "ada", "$readPreference": secondary };
    for reply in [
        cluster.run_command("admin", users_info.clone()),
        shard.run_command(0, "admin", users_info),
    ] {
        assert_eq!(reply.unwrap().get_array("users").unwrap().len(), 1);
    }
    // Servers connect to each other with TLS.
    let status = shard.run_command(2, "admin", doc! { "serverStatus": 1 }).unwrap();
    let handshakes = status.get_document("transportSecurity").unwrap();
    let count = |version| handshakes.get_i64(version).unwrap_or(0);
    assert!(count("1.2") + count("1.3") > 0, "{handshakes}");

    let successor = shard.hand_over().unwrap();
    assert_eq!(successor, 1, "the other member with a priority above 0");
    mongos.restart().unwrap();
    cluster.run_command("admin", doc! { "listShards": 1 }).unwrap();
}

/// Runs one of these tests in another process, where 8.2 is not available.
fn run_without_8_2(ci: Option<&str>) -> Output {
    let test = "servers_report_the_requested_version";
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test]).env("STEADFAST_MONGOD_8_2", "/no/such/mongod").env_remove("CI");
    command.envs(ci.map(|value| ("CI", value))).output().unwrap()
}

#[test]
fn test_without_servers_is_skipped_by_name_but_fails_in_ci() {
    let skipped = run_without_8_2(None);
    let errors = String::from_utf8(skipped.stderr).unwrap();
    assert!(skipped.status.success(), "{errors}");
    let expected = "SKIPPED servers_report_the_requested_version: MongoDB 8.2.0";
    assert!(errors.contains(expected), "{errors}");
    assert!(errors.contains("/no/such/mongod"), "{errors}");

    let failed = run_without_8_2(Some("true"));
    assert!(!failed.status.success());
    let output = String::from_utf8(failed.stdout).unwrap();
    assert!(output.contains("/no/such/mongod"), "{output}");
}

/// The directory is private, as a clone below root's home directory.
#[test]
fn servers_of_8_2_start_from_a_private_directory() {
    testbed::require!(V8_2);
    let mongod = testbed::mongod_path(Version::V8_2).unwrap();
    let libraries = mongod.ancestors().nth(2).unwrap().join("openssl-1.1.1w");
    let private = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let private = private.join(format!("private-{}", std::process::id()));
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let program = private.join("steadfast-testbed");
    fs::copy(env!("CARGO_BIN_EXE_steadfast-testbed"), &program).unwrap();
    // Marks it as a target directory of cargo.
    fs::write(private.join("CACHEDIR.TAG"), "").unwrap();

    let mut command = Command::new(&program);
    command.args(["standalone", "--version", "8.2"]).env("STEADFAST_MONGOD_8_2", &mongod);
    if libraries.is_dir() {
        command.env("LD_LIBRARY_PATH", &libraries);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_root = fs::metadata(&private).unwrap().uid() == 0;
    let data = private.join("testbed/run").exists();
    fs::remove_dir_all(&private).unwrap();
    assert!(output.status.success(), "{errors}");
    assert_eq!(data, !is_root, "servers of root store their data elsewhere");
}
