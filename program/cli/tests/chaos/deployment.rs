//! Runs on an existing deployment, which leave nothing behind and touch no other database.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use steadfast::{Client, bson::Document, bson::doc};
use steadfast_embedded::Deployment;

use crate::{
    all_zeros,
    support::{ProgramOutput, chaos},
};

/// Starts a deployment on its own thread, with a database, and returns a client.
async fn deployment() -> (Deployment, Client) {
    let set = Deployment::replica_set(3).in_thread().start();
    let client = Client::with_uri_str(set.uri()).await.expect("a client");
    let orders = client.database("shop").collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 1 }).await.expect("it is written");
    (set, client)
}

fn short(uri: &str, more: &[&str]) -> ProgramOutput {
    let arguments = ["--uri", uri, "--duration", "6s", "--rate", "100", "--json"];
    chaos(&[&arguments, more].concat()).output()
}

/// Returns the names of the databases of users.
async fn databases(client: &Client) -> Vec<String> {
    let mut names = client.list_database_names().await.expect("names");
    names.retain(|name| !["admin", "config", "local"].contains(&name.as_str()));
    names.sort();
    names
}

#[tokio::test]
async fn run_on_a_deployment_is_clean_and_leaves_no_database() {
    let (set, client) = deployment().await;
    let output = short(&set.uri(), &[]);
    assert_eq!(output.status, Some(0), "{output}");
    let document = output.document();
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert_eq!(document["plan"]["servers"], "uri");
    let faults = document["plan"]["faults"].as_array().expect("names");
    assert_eq!(*faults, ["cuts", "slow", "overload", "drops"], "no fault affects the servers");
    assert!(!output.stdout.contains("mongodb://"), "the connection string is not shown: {output}");
    assert_eq!(databases(&client).await, ["shop"]);
}

#[tokio::test]
async fn existing_database_is_an_error() {
    let (set, client) = deployment().await;
    let output = short(&set.uri(), &["--database", "shop"]);
    assert_eq!((output.status, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("--database: shop already exists"), "{output}");
    let orders = client.database("shop").collection::<Document>("orders");
    assert_eq!(orders.count_documents(doc! {}).await.expect("a count"), 1);
}

#[test]
fn unreachable_deployment_is_explained() {
    let output = short("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", &[]);
    assert_eq!(output.status, Some(1), "{output}");
    let found = "no writable server was found at 127.0.0.1:1 within 200ms";
    assert!(output.stderr.contains(found) && output.stderr.contains("next:"), "{output}");
}

#[tokio::test]
async fn keep_option_keeps_the_database() {
    let (set, client) = deployment().await;
    let output = short(&set.uri(), &["--keep", "--database", "evidence", "--faults", "cuts"]);
    assert_eq!(output.status, Some(0), "{output}");
    assert_eq!(databases(&client).await, ["evidence", "shop"]);
}

#[tokio::test]
async fn primary_steps_down_if_requested() {
    let (set, client) = deployment().await;
    let output = short(&set.uri(), &["--faults", "step-down,freeze"]);
    assert_eq!(output.status, Some(0), "{output}");
    let document = output.document();
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert!(!document["incidents"].as_array().expect("incidents").is_empty(), "{output}");
    assert_eq!(databases(&client).await, ["shop"]);
}

/// Returns the marks of the documents that a run has inserted.
async fn inserted(client: &Client, database: &str) -> BTreeSet<i64> {
    let entries = client.database(database).collection::<Document>("entries");
    let mut found = entries.find(doc! {}).await.expect("a cursor");
    let mut marks = BTreeSet::new();
    while found.advance().await.expect("a batch") {
        let entry = found.deserialize_current().expect("a document");
        marks.insert(entry.get_i64("mark").expect("its mark"));
    }
    marks
}

#[tokio::test]
async fn seed_determines_the_writes() {
    let (set, client) = deployment().await;
    let run = |database, seed| {
        let load = ["--duration", "10s", "--rate", "50", "--faults", "none", "--quiet"];
        let to = ["--uri", &set.uri(), "--keep", "--database", database, "--seed", seed];
        chaos(&[load, to].concat()).start()
    };
    for running in [run("one", "7"), run("again", "7"), run("other", "8")] {
        let output = running.output();
        assert_eq!(output.status, Some(0), "{output}");
    }
    // The others may not have run in time.
    let first = |marks: BTreeSet<i64>| -> Vec<i64> { marks.into_iter().take(12).collect() };
    let one = first(inserted(&client, "one").await);
    assert_eq!(one.len(), 12);
    assert_eq!(one, first(inserted(&client, "again").await));
    assert_ne!(one, first(inserted(&client, "other").await));
}

#[tokio::test]
async fn second_ctrl_c_ends_the_run_and_names_the_remaining_database() {
    let (set, client) = deployment().await;
    let arguments =
        ["--uri", &set.uri(), "--duration", "10m", "--timeout", "1h", "--faults", "none"];
    let mut running = chaos(&arguments).start();
    running.wait_for_operations();
    (0..3).for_each(|member| set.faults().freeze(member));
    running.signal("-INT");
    running.wait_for_note("interrupt again to end at once");
    let began = Instant::now();
    running.signal("-TERM");
    let output = running.output();
    assert!(began.elapsed() < Duration::from_secs(300), "before the time-out: {output}");
    assert_eq!((output.status, output.stdout.as_str()), (Some(1), ""), "{output}");
    assert!(output.stderr.contains("the database steadfast_chaos was not dropped"), "{output}");
    assert!(output.stderr.contains("interrupted twice; the writes were not counted"), "{output}");
    (0..3).for_each(|member| set.faults().thaw(member));
    assert_eq!(databases(&client).await, ["shop", "steadfast_chaos"]);
}

#[tokio::test]
async fn ctrl_c_ends_server_selection() {
    // A socket that accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!(
        "mongodb://{}/?serverSelectionTimeoutMS=600000",
        silent.local_addr().expect("an address")
    );
    let mut running = chaos(&["--uri", &uri]).start();
    running.wait_for_note("connecting to ");
    running.signal("-INT");
    let output = running.output();
    assert_eq!((output.status, output.stdout.as_str()), (Some(1), ""), "{output}");
    assert!(
        output.stderr.contains("interrupted before the load began; nothing was done"),
        "{output}"
    );
}

#[test]
fn server_selection_timeout_of_the_connection_string_applies() {
    // Nothing listens on port 1.
    let address = "127.0.0.1:1";
    let began = Instant::now();
    let output = short(&format!("mongodb://{address}/?serverSelectionTimeoutMS=300"), &[]);
    // The default is ten seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(output.status, Some(1), "{output}");
    let error = output.document()["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("was found at") && output.stderr.contains(&error), "{output}");
    for word in [&format!("was found at {address} within 300ms"), "why: ", "next: "] {
        assert!(output.stderr.contains(word), "{word} is missing: {output}");
    }
}
