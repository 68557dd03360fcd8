//! Distributed local writes, from the first zone to the last trimmed copy: a datacenter stops to acknowledge,
//! dies and comes back, and every message is read once.
//!
//! `cargo run -p steadfast-patterns --example local_writes` runs by itself, on the embedded cluster.

use std::{
    error::Error,
    io::{self, Write},
    time::{Duration, Instant},
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::{
    duplicates::Duplicates,
    local_writes::LocalWriter,
    zones::{self, Cluster, Layout},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Two members of each shard stand in its datacenter; the third, of priority 0, in the other.
    let cluster = Deployment::sharded(&["shard0000", "shard0001"]).priority_zero([2]).start();
    let client = Client::with_uri_str(cluster.uri()).await?;
    lay_out(&client).await?;
    let messages = client.database("app").collection::<Document>("messages");
    let writer = LocalWriter::builder().cluster(&messages, ["alfa", "bravo"]).build()?;
    let mut story = Story { began: Instant::now(), writer, messages: 0 };
    story.write().await?;

    story.tell("alfa executes what it is sent, and acknowledges nothing")?;
    let alfa = cluster.shard("shard0000").faults();
    (1..3).for_each(|member| alfa.hold_replication(member));
    story.write().await?;
    story.write().await?;
    (1..3).for_each(|member| alfa.release_replication(member));
    story.until_home().await?;
    story.write().await?;

    story.tell("alfa is gone")?;
    (0..2).for_each(|member| alfa.kill(member));
    cluster.shard("shard0001").faults().kill(2);
    story.write().await?;
    story.write().await?;
    (0..2).for_each(|member| alfa.restart(member));
    cluster.shard("shard0001").faults().restart(2);
    story.until_home().await?;
    story.write().await?;

    read_and_trim(&story, &messages).await
}

async fn lay_out(client: &Client) -> Result<(), Box<dyn Error>> {
    let datacenters = [("alfa", ["shard0000"]), ("bravo", ["shard0001"])];
    let layout = Layout::new("app.messages", ["datacenter", "userid"], datacenters)?;
    let found = Cluster::read(client, &layout).await?;
    zones::plan(&layout, &found)?.apply(client).await?;
    Ok(())
}

struct Story {
    began: Instant,
    writer: LocalWriter,
    messages: i32,
}

impl Story {
    fn tell(&self, what: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{:5.1} s  {what}", self.began.elapsed().as_secs_f32())
    }

    /// Writes a message, and tells what the receipt says.
    async fn write(&mut self) -> Result<(), Box<dyn Error>> {
        self.messages += 1;
        let message = doc! { "message_id": self.messages, "userid": 123 };
        let receipt = self.writer.insert(&message).await?;
        let mut told = format!("message {} is in {}", self.messages, receipt.datacenter());
        for attempt in receipt.failed() {
            told += &format!("; tried in {}: {}", attempt.datacenter, attempt.outcome);
        }
        Ok(self.tell(&told)?)
    }

    async fn until_home(&self) -> io::Result<()> {
        self.tell("alfa is well again")?;
        self.writer.until_all_up().await;
        self.tell("the writer has noticed")
    }
}

async fn read_and_trim(
    story: &Story,
    messages: &Collection<Document>,
) -> Result<(), Box<dyn Error>> {
    let documents = messages.count_documents(doc! {}).await?;
    let reading = Duplicates::of(messages).key(["message_id"]);
    let mut read = reading.read(doc! { "userid": 123 }).await?;
    let mut seen = 0;
    while read.advance().await? {
        seen += 1;
    }
    story.tell(&format!("{documents} documents are there, and {seen} messages are read"))?;
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await?;
    Ok(story.tell(&format!("surplus copies deleted: {}", report.deleted))?)
}
