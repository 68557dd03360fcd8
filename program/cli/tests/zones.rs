//! Tests of `steadfast zones`, on clusters of `steadfast serve`.
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

/// A layout file, which is deleted when it is dropped.
struct Layout(PathBuf);

impl Layout {
    fn of(name: &str, text: &str) -> Self {
        // Another run of the tests uses other files.
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
        // A failure affects no test.
        let _ = fs::remove_file(&self.0);
    }
}

fn cluster(version: &str) -> Program {
    Program::start(&["serve", "--sharded", "shard0000,shard0001", "--version", version])
}

/// Runs `steadfast zones <subcommand>` on a cluster.
fn zones(subcommand: &[&str], uri: &str, layout: &Layout) -> Output {
    steadfast(&[&["zones"], subcommand, &["--uri", uri, layout.path()]].concat()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn layout_is_planned_applied_shown_and_removed() {
    let layout = Layout::of("all", LAYOUT);
    for version in ["6.0", "8.0"] {
        let cluster = cluster(version);
        let run = |subcommand: &[&str]| zones(subcommand, cluster.uri(), &layout);
        let before = run(&["status"]);
        assert_eq!(before.status.code(), Some(1), "{}", stderr(&before));
        assert!(stdout(&before).contains("not applied: 5 steps are left"), "{}", stdout(&before));
        let plan = run(&["plan"]);
        assert_eq!(plan.status.code(), Some(0), "{}", stderr(&plan));
        assert!(stdout(&plan).starts_with("1. add shard0000 to zone alfa\n"), "{}", stdout(&plan));
        let typed = "db.adminCommand({ updateZoneKeyRange: \"app.messages\", \
                     min: { datacenter: \"alfa\", userid: MinKey() }, \
                     max: { datacenter: \"alfa\", userid: MaxKey() }, zone: \"alfa\" })";
        assert!(stdout(&plan).contains(typed), "{}", stdout(&plan));
        assert_eq!(stdout(&run(&["plan"])), stdout(&plan), "a plan changes nothing");
        // The members of this cluster have no tags.
        assert!(
            stdout(&plan).contains("// the layout has shard0000 in alfa\n"),
            "{}",
            stdout(&plan)
        );
        let unknown = "\nWarning: 0 of 3 voting members of shard0000 are known to be in alfa: ";
        assert!(stdout(&plan).contains(unknown), "{}", stdout(&plan));
        assert!(stdout(&before).contains(unknown), "{}", stdout(&before));
        let applied = run(&["apply"]);
        assert_eq!(applied.status.code(), Some(0), "{}", stderr(&applied));
        assert!(stdout(&applied).contains("app.messages: 5 steps done."), "{}", stdout(&applied));
        let text = stderr(&applied);
        assert!(text.contains("warning: 0 of 3 voting members of shard0001 are known"), "{text}");
        assert!(
            text.contains("steadfast zones: step 1 of 5: add shard0000 to zone alfa\n"),
            "{text}"
        );
        assert!(text.contains("step 5 of 5: shard the collection by"), "{text}");
        let status = run(&["status"]);
        assert_eq!(status.status.code(), Some(0), "{}", stdout(&status));
        assert!(stdout(&status).contains("\nshard0000  alfa   alfa "), "{}", stdout(&status));
        assert!(stdout(&run(&["apply"])).contains("nothing to do"));
        let rehearsal = run(&["remove", "--dry-run"]);
        assert!(stdout(&rehearsal).contains("zone: null"), "{}", stdout(&rehearsal));
        let removed = run(&["remove"]);
        assert_eq!(removed.status.code(), Some(0), "{}", stderr(&removed));
        assert!(stdout(&removed).contains("4 steps done"), "{}", stdout(&removed));
        assert!(stderr(&removed).contains("stays sharded"), "{}", stderr(&removed));
        assert!(stdout(&run(&["remove"])).contains("nothing to remove"));
    }
}

#[test]
fn results_are_printed_as_json() {
    let cluster = cluster("8.0");
    let layout = Layout::of("json", LAYOUT);
    let run = |subcommand: &[&str]| zones(subcommand, cluster.uri(), &layout);
    let plan = json(&run(&["plan", "--json"]));
    assert_eq!(plan["steps"].as_array().unwrap().len(), 5);
    assert_eq!(plan["steps"][0]["command"]["addShardToZone"], "shard0000");
    assert_eq!(plan["steps"][2]["command"]["min"]["userid"]["$minKey"], 1);
    assert_eq!(plan["warnings"].as_array().unwrap().len(), 2);
    let applied = run(&["apply", "--json", "--quiet", "--wait", "--timeout", "10m"]);
    assert_eq!(stderr(&applied), "");
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

/// Inserts documents of both datacenters, and runs a command.
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
fn wait_option_waits_for_existing_documents() {
    let layout = Layout::of("wait", LAYOUT);
    let cluster = cluster("8.0");
    prepare(cluster.uri(), doc! { "balancerStop": 1 });
    let run = |subcommand: &[&str]| zones(subcommand, cluster.uri(), &layout);
    let applied = run(&["apply", "--wait"]);
    assert_eq!(applied.status.code(), Some(1), "the wait would not end: {}", stderr(&applied));
    let text = stderr(&applied);
    assert!(text.contains("create the index { datacenter: 1, userid: 1 }"), "{text}");
    assert!(text.contains("the balancer is off"), "{text}");
    let status = run(&["status"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(stdout(&status).contains("zoneViolation"), "{}", stdout(&status));
    prepare(cluster.uri(), doc! { "balancerStart": 1 });
    let waited = run(&["apply", "--wait", "--timeout", "10m"]);
    assert_eq!(waited.status.code(), Some(0), "{}", stderr(&waited));
    let conclusion = "nothing to do. Each datacenter's documents are on its shards.";
    assert!(stdout(&waited).contains(conclusion), "{}", stdout(&waited));
    assert_eq!(run(&["status"]).status.code(), Some(0));
}

#[test]
fn invalid_layout_is_rejected_before_connecting() {
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
    for (number, (text, part)) in wrong.into_iter().enumerate() {
        let layout = Layout::of(&format!("wrong-{number}"), text);
        let output = zones(&["apply"], nowhere, &layout);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert!(stderr(&output).contains(layout.path()), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    let missing = Layout(PathBuf::from("no-such-layout.toml"));
    let output = zones(&["plan"], nowhere, &missing);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no-such-layout.toml: No such file"), "{}", stderr(&output));
    let output = steadfast(&["zones", "apply", "--uri", nowhere]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a layout is needed");
}

#[test]
fn contradictory_layout_is_rejected_without_changes() {
    let cluster = cluster("8.0");
    let unknown = Layout::of("unknown", &LAYOUT.replace("shard0001", "shard0009"));
    let output = zones(&["apply"], cluster.uri(), &unknown);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("there is no shard shard0009, which the layout has in bravo"), "{text}");
    assert!(text.contains("the cluster has shard0000, shard0001"), "{text}");
    let layout = Layout::of("contradiction", LAYOUT);
    let plan = json(&zones(&["plan", "--json"], cluster.uri(), &layout));
    assert_eq!(plan["steps"].as_array().unwrap().len(), 5, "nothing was done");
    json(&zones(&["apply", "--json"], cluster.uri(), &layout));
    let other = Layout::of("other-key", &LAYOUT.replace("userid", "message_id"));
    let output = zones(&["apply"], cluster.uri(), &other);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("sharded already, by { datacenter: 1, userid: 1 }"), "{text}");
}

#[test]
fn steps_before_an_error_are_reported() {
    let layout = Layout::of("midway", LAYOUT);
    let cluster = cluster("8.0");
    let run = |subcommand: &[&str]| zones(subcommand, cluster.uri(), &layout);
    let set_fail_point = |mode: &str, command: &str| {
        let data = doc! { "failCommands": [command], "errorCode": 13 };
        admin(
            cluster.uri(),
            doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data },
        );
    };
    set_fail_point("alwaysOn", "updateZoneKeyRange");
    let applied = run(&["apply", "--json"]);
    assert_eq!(applied.status.code(), Some(1), "{}", stderr(&applied));
    let document: Value = serde_json::from_slice(&applied.stdout).unwrap();
    assert!(
        document["error"].as_str().unwrap().starts_with("step 3 of 5 failed, to "),
        "{document}"
    );
    let done = document["applied"].as_array().unwrap();
    assert_eq!((done.len(), &document["steps"]), (2, &Value::from(5)), "{document}");
    assert_eq!(done[1]["command"]["addShardToZone"], "shard0001", "{document}");
    let again = run(&["apply"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(stdout(&again), "app.messages: 0 of 3 steps done.\n", "the others are done");
    set_fail_point("off", "updateZoneKeyRange");
    assert_eq!(run(&["apply"]).status.code(), Some(0));

    set_fail_point("alwaysOn", "removeShardFromZone");
    let removed = run(&["remove", "--json"]);
    assert_eq!(removed.status.code(), Some(1), "{}", stderr(&removed));
    let document: Value = serde_json::from_slice(&removed.stdout).unwrap();
    assert_eq!(document["removed"].as_array().unwrap().len(), 2, "{document}");
    assert_eq!(document["steps"], 4, "{document}");
}

#[test]
fn zones_require_a_sharded_cluster() {
    let set = Program::start(&["serve", "--replica-set", "1"]);
    let layout = Layout::of("set", LAYOUT);
    for subcommand in ["plan", "apply", "status", "remove"] {
        let output = zones(&[subcommand], set.uri(), &layout);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("connect to the mongos"), "{}", stderr(&output));
    }
}

#[test]
fn help_has_an_example_layout() {
    let output = steadfast(&["zones", "--help"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    assert!(help.contains("shard_key = [\"datacenter\", \"userid\"]"), "{help}");
    assert!(help.contains("Exit status:"), "{help}");
}
