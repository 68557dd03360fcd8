//! `steadfast zones` as its users meet it, on clusters of `steadfast serve`.
#![allow(missing_docs)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;

use std::{fs, path::PathBuf, process::Output};

use ::steadfast::{
    Client,
    bson::{Document, doc},
};
use program::{Program, steadfast};
use serde_json::Value;

const LAYOUT: &str = r#"
collection = "app.messages"
shard_key = ["datacenter", "userid"]

[datacenters]
alfa = ["shard0000"]
bravo = ["shard0001"]
"#;

/// A layout in a file, which is gone with this value.
struct Layout(PathBuf);

impl Layout {
    fn of(name: &str, text: &str) -> Self {
        // Another run of the tests has others.
        let name = format!("zones-{}-{name}.toml", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_file(&self.0);
    }
}

fn cluster(version: &str) -> Program {
    Program::start(&["serve", "--sharded", "shard0000,shard0001", "--version", version])
}

/// Runs `steadfast zones <what>` on a cluster.
fn zones(what: &[&str], uri: &str, layout: &Layout) -> Output {
    steadfast(&[&["zones"], what, &["--uri", uri, layout.path()]].concat()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", errors(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_layout_is_planned_applied_shown_and_removed() {
    let layout = Layout::of("all", LAYOUT);
    for version in ["6.0", "8.0"] {
        let cluster = cluster(version);
        let run = |what: &[&str]| zones(what, cluster.uri(), &layout);
        let before = run(&["status"]);
        assert_eq!(before.status.code(), Some(1), "{}", errors(&before));
        assert!(out(&before).contains("not applied: 5 steps are left"), "{}", out(&before));
        let plan = run(&["plan"]);
        assert_eq!(plan.status.code(), Some(0), "{}", errors(&plan));
        assert!(out(&plan).starts_with("1. add shard0000 to zone alfa\n"), "{}", out(&plan));
        let typed = "db.adminCommand({ updateZoneKeyRange: \"app.messages\", \
                     min: { datacenter: \"alfa\", userid: MinKey() }, \
                     max: { datacenter: \"alfa\", userid: MaxKey() }, zone: \"alfa\" })";
        assert!(out(&plan).contains(typed), "{}", out(&plan));
        assert_eq!(out(&run(&["plan"])), out(&plan), "a plan changes nothing");
        // The members of this cluster have no tags.
        assert!(out(&plan).contains("// the layout has shard0000 in alfa\n"), "{}", out(&plan));
        let unknown = "\nWarning: 0 of 3 voting members of shard0000 are known to be in alfa: ";
        assert!(out(&plan).contains(unknown), "{}", out(&plan));
        assert!(out(&before).contains(unknown), "{}", out(&before));
        let applied = run(&["apply"]);
        assert_eq!(applied.status.code(), Some(0), "{}", errors(&applied));
        assert!(out(&applied).contains("app.messages: 5 steps done."), "{}", out(&applied));
        let told = errors(&applied);
        assert!(told.contains("warning: 0 of 3 voting members of shard0001 are known"), "{told}");
        assert!(
            told.contains("steadfast zones: step 1 of 5: add shard0000 to zone alfa\n"),
            "{told}"
        );
        assert!(told.contains("step 5 of 5: shard the collection by"), "{told}");
        let status = run(&["status"]);
        assert_eq!(status.status.code(), Some(0), "{}", out(&status));
        assert!(out(&status).contains("\nshard0000  alfa   alfa "), "{}", out(&status));
        assert!(out(&run(&["apply"])).contains("nothing to do"));
        let rehearsal = run(&["remove", "--dry-run"]);
        assert!(out(&rehearsal).contains("zone: null"), "{}", out(&rehearsal));
        let removed = run(&["remove"]);
        assert_eq!(removed.status.code(), Some(0), "{}", errors(&removed));
        assert!(out(&removed).contains("4 steps taken back"), "{}", out(&removed));
        assert!(errors(&removed).contains("stays sharded"), "{}", errors(&removed));
        assert!(out(&run(&["remove"])).contains("nothing of the layout is there"));
    }
}

#[test]
fn programs_get_json() {
    let cluster = cluster("8.0");
    let layout = Layout::of("json", LAYOUT);
    let run = |what: &[&str]| zones(what, cluster.uri(), &layout);
    let plan = json(&run(&["plan", "--json"]));
    assert_eq!(plan["steps"].as_array().unwrap().len(), 5);
    assert_eq!(plan["steps"][0]["command"]["addShardToZone"], "shard0000");
    assert_eq!(plan["steps"][2]["command"]["min"]["userid"]["$minKey"], 1);
    assert_eq!(plan["warnings"].as_array().unwrap().len(), 2);
    let applied = run(&["apply", "--json", "--quiet", "--wait", "--timeout", "10m"]);
    assert_eq!(errors(&applied), "");
    let applied = json(&applied);
    assert_eq!(applied["applied"].as_array().unwrap().len(), 5);
    assert_eq!(applied["status"]["compliant"], true);
    let status = json(&run(&["status", "--json"]));
    assert_eq!(status["shards"][1]["zones"][0], "bravo");
    assert_eq!(status["warnings"], plan["warnings"]);
    assert_eq!(status["left"]["steps"].as_array().unwrap().len(), 0);
    assert_eq!(status["verdict"], "compliant");
    let removed = json(&run(&["remove", "--json"]));
    assert_eq!(removed["removed"].as_array().unwrap().len(), 4);
}

/// Puts documents of both datacenters into the collection, and runs a command.
fn prepare(uri: &str, command: Document) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::with_uri_str(uri).await.unwrap();
        let messages = client.database("app").collection::<Document>("messages");
        let documents = (0..10).map(|n| {
            doc! { "datacenter": if n % 2 == 0 { "alfa" } else { "bravo" }, "userid": n }
        });
        messages.insert_many(documents).await.unwrap();
    });
    admin(uri, command);
}

fn admin(uri: &str, command: Document) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::with_uri_str(uri).await.unwrap();
        client.database("admin").run_command(command).await.unwrap();
    });
}

#[test]
fn documents_that_are_there_already_are_waited_for() {
    let layout = Layout::of("wait", LAYOUT);
    let cluster = cluster("8.0");
    prepare(cluster.uri(), doc! { "balancerStop": 1 });
    let run = |what: &[&str]| zones(what, cluster.uri(), &layout);
    let applied = run(&["apply", "--wait"]);
    assert_eq!(applied.status.code(), Some(1), "it would wait forever: {}", errors(&applied));
    let said = errors(&applied);
    assert!(said.contains("create the index { datacenter: 1, userid: 1 }"), "{said}");
    assert!(said.contains("the balancer is off"), "{said}");
    let status = run(&["status"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(out(&status).contains("zoneViolation"), "{}", out(&status));
    prepare(cluster.uri(), doc! { "balancerStart": 1 });
    let waited = run(&["apply", "--wait", "--timeout", "10m"]);
    assert_eq!(waited.status.code(), Some(0), "{}", errors(&waited));
    let conclusion = "nothing to do. Each datacenter's documents are on its shards.";
    assert!(out(&waited).contains(conclusion), "{}", out(&waited));
    assert_eq!(run(&["status"]).status.code(), Some(0));
}

#[test]
fn a_layout_that_is_none_is_refused_before_anything_is_asked() {
    let nowhere = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1";
    let wrong = [
        ("collection = ", "TOML parse error"),
        ("collection = 'app.m'\nshard_key = ['a', 'b']", "missing field `datacenters`"),
        (&format!("{LAYOUT}\n[zones]\n"), "unknown field `zones`"),
        (&LAYOUT.replace("app.messages", "messages"), "a dot between them"),
        (&LAYOUT.replace(", \"userid\"", ""), "many different values"),
        (
            &LAYOUT.replace("shard0001", "shard0000"),
            "shard0000 is in two datacenters, alfa and bravo",
        ),
        (&LAYOUT.replace("[\"shard0001\"]", "[]"), "it has no shards"),
        (&LAYOUT.replace("[\"shard0001\"]", "7"), "invalid type"),
        (&format!("{LAYOUT}alfa = [\"x\"]"), "duplicate key"),
    ];
    for (place, (text, said)) in wrong.into_iter().enumerate() {
        let layout = Layout::of(&format!("wrong-{place}"), text);
        let output = zones(&["apply"], nowhere, &layout);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(said), "{}", errors(&output));
        assert!(errors(&output).contains(layout.path()), "{}", errors(&output));
        assert_eq!(out(&output), "");
    }
    let missing = Layout(PathBuf::from("no-such-layout.toml"));
    let output = zones(&["plan"], nowhere, &missing);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no-such-layout.toml: No such file"), "{}", errors(&output));
    let output = steadfast(&["zones", "apply", "--uri", nowhere]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a layout is needed");
}

#[test]
fn what_contradicts_the_cluster_is_said_and_nothing_is_changed() {
    let cluster = cluster("8.0");
    let unknown = Layout::of("unknown", &LAYOUT.replace("shard0001", "shard0009"));
    let output = zones(&["apply"], cluster.uri(), &unknown);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("there is no shard shard0009, which the layout has in bravo"), "{said}");
    assert!(said.contains("the cluster has shard0000, shard0001"), "{said}");
    let layout = Layout::of("contradiction", LAYOUT);
    let plan = json(&zones(&["plan", "--json"], cluster.uri(), &layout));
    assert_eq!(plan["steps"].as_array().unwrap().len(), 5, "nothing was done");
    json(&zones(&["apply", "--json"], cluster.uri(), &layout));
    let other = Layout::of("other-key", &LAYOUT.replace("userid", "message_id"));
    let output = zones(&["apply"], cluster.uri(), &other);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("sharded already, by { datacenter: 1, userid: 1 }"), "{said}");
}

#[test]
fn what_was_done_before_it_failed_is_told() {
    let layout = Layout::of("midway", LAYOUT);
    let cluster = cluster("8.0");
    let run = |what: &[&str]| zones(what, cluster.uri(), &layout);
    let refused = |mode: &str, command: &str| {
        let data = doc! { "failCommands": [command], "errorCode": 13 };
        admin(
            cluster.uri(),
            doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data },
        );
    };
    refused("alwaysOn", "updateZoneKeyRange");
    let applied = run(&["apply", "--json"]);
    assert_eq!(applied.status.code(), Some(1), "{}", errors(&applied));
    let told: Value = serde_json::from_slice(&applied.stdout).unwrap();
    assert!(told["error"].as_str().unwrap().starts_with("step 3 of 5 failed, to "), "{told}");
    let done = told["applied"].as_array().unwrap();
    assert_eq!((done.len(), &told["steps"]), (2, &Value::from(5)), "{told}");
    assert_eq!(done[1]["command"]["addShardToZone"], "shard0001", "{told}");
    let again = run(&["apply"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(out(&again), "app.messages: 0 of 3 steps done.\n", "the others are done");
    refused("off", "updateZoneKeyRange");
    assert_eq!(run(&["apply"]).status.code(), Some(0));

    refused("alwaysOn", "removeShardFromZone");
    let removed = run(&["remove", "--json"]);
    assert_eq!(removed.status.code(), Some(1), "{}", errors(&removed));
    let told: Value = serde_json::from_slice(&removed.stdout).unwrap();
    assert_eq!(told["removed"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["steps"], 4, "{told}");
}

#[test]
fn a_replica_set_is_not_taken_for_a_cluster() {
    let set = Program::start(&["serve", "--replica-set", "1"]);
    let layout = Layout::of("set", LAYOUT);
    for what in ["plan", "apply", "status", "remove"] {
        let output = zones(&[what], set.uri(), &layout);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors(&output).contains("connect to the mongos"), "{}", errors(&output));
    }
}

#[test]
fn help_has_a_layout_to_copy() {
    let output = steadfast(&["zones", "--help"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = out(&output);
    assert!(help.contains("shard_key = [\"datacenter\", \"userid\"]"), "{help}");
    assert!(help.contains("Exit status:"), "{help}");
}
