//! On a deployment that is somebody's: nothing is left there, and nothing of theirs is touched.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use steadfast::{Client, bson::Document, bson::doc};
use steadfast_embedded::Deployment;

use crate::{
    all_zeros,
    support::{Said, chaos},
};

/// A deployment that goes on while the test waits for a program, and a client of it.
async fn deployment() -> (Deployment, Client) {
    let set = Deployment::replica_set(3).in_thread().start();
    let client = Client::with_uri_str(set.uri()).await.expect("a client");
    let orders = client.database("shop").collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 1 }).await.expect("it is written");
    (set, client)
}

fn short(uri: &str, more: &[&str]) -> Said {
    let arguments = ["--uri", uri, "--duration", "6s", "--rate", "100", "--json"];
    chaos(&[&arguments, more].concat()).said()
}

/// Databases that people have made.
async fn databases(client: &Client) -> Vec<String> {
    let mut names = client.list_database_names().await.expect("names");
    names.retain(|name| !["admin", "config", "local"].contains(&name.as_str()));
    names.sort();
    names
}

#[tokio::test]
async fn nothing_is_lost_or_made_twice_and_nothing_is_left_there() {
    let (set, client) = deployment().await;
    let said = short(&set.uri(), &[]);
    assert_eq!(said.status, Some(0), "{said}");
    let document = said.document();
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert_eq!(document["plan"]["servers"], "uri");
    let faults = document["plan"]["faults"].as_array().expect("names");
    assert_eq!(
        *faults,
        ["cuts", "slow", "overload", "drops"],
        "nothing is done to the servers themselves"
    );
    assert!(!said.out.contains("mongodb://"), "the connection string is not shown: {said}");
    assert_eq!(databases(&client).await, ["shop"]);
}

#[tokio::test]
async fn a_database_that_is_there_is_not_touched() {
    let (set, client) = deployment().await;
    let said = short(&set.uri(), &["--database", "shop"]);
    assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{said}");
    assert!(said.notes.contains("--database: shop is there already"), "{said}");
    let orders = client.database("shop").collection::<Document>("orders");
    assert_eq!(orders.count_documents(doc! {}).await.expect("a count"), 1);
}

#[test]
fn a_deployment_that_cannot_be_reached_is_explained() {
    let said = short("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", &[]);
    assert_eq!(said.status, Some(1), "{said}");
    let found = "no server that takes writes was found at 127.0.0.1:1 within 200ms";
    assert!(said.notes.contains(found) && said.notes.contains("next:"), "{said}");
}

#[tokio::test]
async fn the_database_stays_if_that_is_wanted() {
    let (set, client) = deployment().await;
    let said = short(&set.uri(), &["--keep", "--database", "evidence", "--faults", "cuts"]);
    assert_eq!(said.status, Some(0), "{said}");
    assert_eq!(databases(&client).await, ["evidence", "shop"]);
}

#[tokio::test]
async fn a_step_down_is_done_if_it_is_asked_for() {
    let (set, client) = deployment().await;
    let said = short(&set.uri(), &["--faults", "step-down,freeze"]);
    assert_eq!(said.status, Some(0), "{said}");
    let document = said.document();
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert!(!document["incidents"].as_array().expect("incidents").is_empty(), "{said}");
    assert_eq!(databases(&client).await, ["shop"]);
}

/// The marks of the documents that a run has inserted.
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
async fn the_same_seed_makes_the_same_writes_and_another_makes_others() {
    let (set, client) = deployment().await;
    let run = |database, seed| {
        let load = ["--duration", "10s", "--rate", "50", "--faults", "none", "--quiet"];
        let to = ["--uri", &set.uri(), "--keep", "--database", database, "--seed", seed];
        chaos(&[load, to].concat()).start()
    };
    for running in [run("one", "7"), run("again", "7"), run("other", "8")] {
        let said = running.said();
        assert_eq!(said.status, Some(0), "{said}");
    }
    // Most of them may have had no time.
    let first = |marks: BTreeSet<i64>| -> Vec<i64> { marks.into_iter().take(12).collect() };
    let one = first(inserted(&client, "one").await);
    assert_eq!(one.len(), 12);
    assert_eq!(one, first(inserted(&client, "again").await));
    assert_ne!(one, first(inserted(&client, "other").await));
}

#[tokio::test]
async fn a_second_ctrl_c_ends_it_at_once_and_says_what_is_left() {
    let (set, client) = deployment().await;
    let arguments =
        ["--uri", &set.uri(), "--duration", "10m", "--timeout", "1h", "--faults", "none"];
    let mut running = chaos(&arguments).start();
    running.awaits_work();
    (0..3).for_each(|member| set.faults().freeze(member));
    running.signal("-INT");
    running.awaits("once more to end at once");
    let began = Instant::now();
    running.signal("-TERM");
    let said = running.said();
    assert!(began.elapsed() < Duration::from_secs(300), "not when the hour is over: {said}");
    assert_eq!((said.status, said.out.as_str()), (Some(1), ""), "{said}");
    assert!(said.notes.contains("the database steadfast_chaos was left behind"), "{said}");
    assert!(said.notes.contains("ended at once; nothing was counted"), "{said}");
    (0..3).for_each(|member| set.faults().thaw(member));
    assert_eq!(databases(&client).await, ["shop", "steadfast_chaos"]);
}

#[tokio::test]
async fn ctrl_c_while_it_looks_for_servers_is_the_end() {
    // A socket that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!(
        "mongodb://{}/?serverSelectionTimeoutMS=600000",
        silent.local_addr().expect("an address")
    );
    let mut running = chaos(&["--uri", &uri]).start();
    running.awaits("connecting to ");
    running.signal("-INT");
    let said = running.said();
    assert_eq!((said.status, said.out.as_str()), (Some(1), ""), "{said}");
    assert!(said.notes.contains("interrupted before the load began; nothing was done"), "{said}");
}

#[test]
fn a_deployment_that_cannot_be_reached_is_explained_in_the_time_that_its_string_says() {
    // Nobody listens at port 1.
    let address = "127.0.0.1:1";
    let began = Instant::now();
    let said = short(&format!("mongodb://{address}/?serverSelectionTimeoutMS=300"), &[]);
    // Without that, it is thirty seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(said.status, Some(1), "{said}");
    let error = said.document()["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("was found at") && said.notes.contains(&error), "{said}");
    for word in [&format!("was found at {address} within 300ms"), "why: ", "next: "] {
        assert!(said.notes.contains(word), "{word} is missing: {said}");
    }
}
