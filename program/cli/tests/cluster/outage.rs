//! Distributed local writes from the first zone to the last trimmed copy, while a datacenter stops to acknowledge,
//! dies and comes back.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::steadfast::{
    Client, Collection,
    bson::{Document, doc},
    options::{ReadConcern, ReadPreference, ReadPreferenceOptions},
};
use serde_json::Value;
use steadfast_patterns::duplicates::Duplicates;

use crate::{
    application::{Application, Keys},
    datacenters::{Datacenters, LAYOUT, NAMES},
    doctor, out,
    recorded_writes::{RecordedWrite, RecordedWrites, StoredCopies},
    run, succeed, turn,
};

/// Half of the default, to wait less.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(1);
const SOME_WRITES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::await_holding_lock, reason = "nothing else runs on this runtime")]
async fn no_acknowledged_document_is_lost_with_a_datacenter_and_duplicates_are_resolved() {
    let Some(turn) = turn() else { return };
    let datacenters = &turn.datacenters;
    // A mongos that does not answer is found out sooner than by default.
    let uri =
        format!("{}?heartbeatFrequencyMS=500&connectTimeoutMS=2000", datacenters.cluster.uri());
    apply_zones(&uri);

    let keys = Keys::default();
    let start = |order| Application::start(&uri, order, ACKNOWLEDGED_WITHIN, &keys);
    let (alfa, bravo) =
        (start(["alfa", "bravo"]).await.unwrap(), start(["bravo", "alfa"]).await.unwrap());
    alfa.wait_for_writes("alfa", SOME_WRITES).await;
    bravo.wait_for_writes("bravo", SOME_WRITES).await;

    // A secondary that has served no read since it started needs its primary for the first one.
    read_all(&uri, members_of("bravo")).await;

    // Writes that are executed and not acknowledged are written to the other datacenter, too.
    datacenters.hold_acknowledgements("alfa").unwrap();
    alfa.wait_for_writes("bravo", SOME_WRITES).await;
    datacenters.release_acknowledgements("alfa").unwrap();
    alfa.wait_for_writes("alfa", SOME_WRITES).await;

    let before: Vec<i64> = [&alfa, &bravo].iter().flat_map(|it| it.acknowledged()).collect();
    act(datacenters, Datacenters::wait_until_complete).await;
    act(datacenters, |it| it.kill("alfa")).await;
    alfa.wait_for_writes("bravo", SOME_WRITES).await;
    bravo.wait_for_writes("bravo", SOME_WRITES).await;
    // Each shard has a member in the other datacenter, which can be read.
    let read = read_all(&uri, ReadPreference::nearest(None)).await;
    let missing: Vec<_> = before.iter().filter(|key| !read.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");

    diagnose_without_alfa(datacenters);

    act(datacenters, |it| it.restart("alfa")).await;
    alfa.wait_for_writes("alfa", SOME_WRITES).await;
    act(datacenters, Datacenters::wait_until_complete).await;

    // Connections stay open without replies, as during a network partition.
    act(datacenters, |it| it.freeze("bravo")).await;
    bravo.wait_for_writes("alfa", SOME_WRITES).await;
    act(datacenters, |it| it.thaw("bravo")).await;
    bravo.wait_for_writes("bravo", SOME_WRITES).await;
    act(datacenters, Datacenters::wait_until_complete).await;

    let mut recorded = RecordedWrites::default();
    for application in [alfa, bravo] {
        for write in application.stop().await {
            recorded.record(write.key, RecordedWrite::of(&write.answer));
        }
    }
    let stored = stored_copies(datacenters).await;
    assert_sound(&recorded, &stored);
    let read = read_all(&uri, ReadPreference::nearest(None)).await;
    assert!(recorded.acknowledged().all(|key| read.contains(&key)), "all that were acknowledged");
    assert_eq!(read.len(), stored.0.len(), "each is read once");
    trim(&uri, stored.surplus());
    let trimmed = self::stored_copies(datacenters).await;
    assert_eq!((trimmed.surplus(), trimmed.first_copies()), (0, stored.first_copies()));
    assert_eq!(read_all(&uri, ReadPreference::nearest(None)).await, read);
}

/// `doctor` names the mongos and the shard that are lost.
fn diagnose_without_alfa(datacenters: &Datacenters) {
    let hurt = doctor::diagnosis(&datacenters.cluster.uri(), 1);
    let mongos = datacenters.cluster.mongos()[0].address().to_string();
    let [unreachable] = doctor::findings(&hurt, "member_unreachable")[..] else { panic!("{hurt}") };
    assert!(unreachable["what"].as_str().unwrap().starts_with(&mongos), "{unreachable}");
    let [shard] = doctor::findings(&hurt, "shard_without_primary")[..] else { panic!("{hurt}") };
    assert_eq!(shard["what"], "the shard shard0 has no primary", "{shard}");
    assert_eq!(doctor::states(&hurt, 0), ["secondary", "unreachable", "unreachable"], "{hurt}");
    let [member] = doctor::findings(&hurt, "shard_member_unreachable")[..] else {
        panic!("{hurt}")
    };
    assert!(member["what"].as_str().unwrap().contains("of the shard shard1"), "{member}");
    assert_eq!(doctor::states(&hurt, 1), ["primary", "secondary", "unreachable"], "{hurt}");
}

/// Plans, applies and shows the zones.
fn apply_zones(uri: &str) {
    let layout = LayoutFile::new();
    let zones = |what: &str| run(uri, &["zones", what, layout.path()]);
    let before = zones("status");
    assert_eq!(before.status.code(), Some(1), "{}", out(&before));
    let plan = succeed(uri, &["zones", "plan", layout.path()]);
    for (datacenter, shard) in NAMES.into_iter().zip(["shard0", "shard1"]) {
        let reason = format!("// 2 of 3 voting members of {shard} are in {datacenter}\n");
        assert!(plan.contains(&reason), "{plan}");
    }
    assert!(!plan.contains("Warning"), "{plan}");
    let applied = succeed(uri, &["zones", "apply", "--wait", layout.path()]);
    assert!(applied.contains("Each datacenter's documents are on its shards."), "{applied}");
    let status = succeed(uri, &["zones", "status", layout.path()]);
    assert!(status.contains("Each datacenter's documents are on its shards."), "{status}");
    let again = succeed(uri, &["zones", "apply", layout.path()]);
    assert!(again.contains("nothing to do"), "{again}");
}

/// Every receipt is right, and there was something to be right about.
fn assert_sound(recorded: &RecordedWrites, stored: &StoredCopies) {
    let comparison = recorded.compare(stored);
    assert!(comparison.is_clean(), "{comparison:#?}");
    assert!(comparison.duplicated > 0, "without duplicates it shows nothing: {comparison}");
    // The comparison detects missing copies.
    let incomplete = recorded.clone().without_possible_copies().compare(stored);
    assert!(incomplete.unlisted.len() >= comparison.surplus, "{incomplete:#?}");
    assert_eq!(recorded.compare(&StoredCopies::default()).lost.len(), comparison.acknowledged);
}

/// Shows the surplus copies, then deletes them.
fn trim(uri: &str, surplus: u64) {
    let dedupe = |more: &[&str]| -> Value {
        let common =
            ["dedupe", "--collection", "app.messages", "--key", "message_id", "--older-than", "0s"];
        let output = succeed(uri, &[&common, more].concat());
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
    };
    let shown = dedupe(&["--json"]);
    assert_eq!((&shown["surplus"], &shown["deleted"]), (&surplus.into(), &0.into()), "{shown}");
    let deleted = dedupe(&["--json", "--delete"]);
    assert_eq!(deleted["deleted"], surplus, "{deleted}");
    let again = dedupe(&["--json", "--delete"]);
    assert_eq!((&again["surplus"], &again["deleted"]), (&0.into(), &0.into()), "{again}");
}

async fn messages_at(uri: &str) -> Collection<Document> {
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("app").collection("messages")
}

fn members_of(datacenter: &str) -> ReadPreference {
    let tags = [("datacenter".to_owned(), datacenter.to_owned())].into();
    ReadPreference::nearest(ReadPreferenceOptions::builder().tag_sets(vec![tags]).build())
}

/// Returns the keys of all messages, read by a broadcast to these members, each once.
async fn read_all(uri: &str, members: ReadPreference) -> BTreeSet<i64> {
    let messages = messages_at(uri).await;
    let reading = Duplicates::of(&messages).key(["message_id"]).selection_criteria(members);
    let mut found = reading.read(doc! {}).await.unwrap();
    let mut keys = BTreeSet::new();
    while found.advance().await.unwrap() {
        let key = found.deserialize_current().unwrap().get_i64("message_id").unwrap();
        assert!(keys.insert(key), "message {key} is read twice");
    }
    keys
}

/// Returns what the primary of each shard has, asked without a mongos.
async fn stored_copies(datacenters: &Datacenters) -> StoredCopies {
    let mut stored = StoredCopies::default();
    for name in NAMES {
        let messages = messages_at(&datacenters.shard(name).uri()).await;
        let majority = messages.find(doc! {}).read_concern(ReadConcern::majority());
        let mut cursor = majority.batch_size(5000).await.unwrap();
        let mut documents = Vec::new();
        while cursor.advance().await.unwrap() {
            documents.push(cursor.deserialize_current().unwrap());
        }
        stored.add(name, &documents);
    }
    stored
}

/// Does something with the servers, on a thread that may block.
async fn act(
    datacenters: &Arc<Datacenters>,
    act: impl FnOnce(&Datacenters) -> testbed::Result<()> + Send + 'static,
) {
    let datacenters = Arc::clone(datacenters);
    tokio::task::spawn_blocking(move || act(&datacenters)).await.unwrap().unwrap();
}

/// The layout in a file, which is removed with this value.
struct LayoutFile(PathBuf);

impl LayoutFile {
    fn new() -> Self {
        let name = format!("cluster-{}.toml", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, LAYOUT).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for LayoutFile {
    fn drop(&mut self) {
        // A failure affects no test.
        let _ = fs::remove_file(&self.0);
    }
}
