//! Distributed local writes: zones, a datacenter with slow acknowledgements, an outage, reads and a trim. Every
//! message is read once.
//!
//! `cargo run -p steadfast-patterns --example local_writes` starts an embedded cluster and needs no server.

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
    // Two members of each shard are in its datacenter. The third, of priority 0, is in the other.
    let cluster = Deployment::sharded(&["shard0000", "shard0001"]).priority_zero([2]).start();
    let client = Client::with_uri_str(cluster.uri()).await?;
    apply_zones(&client).await?;
    let messages = client.database("app").collection::<Document>("messages");
    let writer = LocalWriter::builder().cluster(&messages, ["alfa", "bravo"]).build()?;
    let mut demo = Demo { began: Instant::now(), writer, messages: 0 };
    demo.write().await?;

    demo.print("alfa executes writes without acknowledging them")?;
    let alfa = cluster.shard("shard0000").faults();
    (1..3).for_each(|member| alfa.hold_replication(member));
    demo.write().await?;
    demo.write().await?;
    (1..3).for_each(|member| alfa.release_replication(member));
    demo.until_alfa_is_up().await?;
    demo.write().await?;

    demo.print("alfa is down")?;
    (0..2).for_each(|member| alfa.kill(member));
    cluster.shard("shard0001").faults().kill(2);
    demo.write().await?;
    demo.write().await?;
    (0..2).for_each(|member| alfa.restart(member));
    cluster.shard("shard0001").faults().restart(2);
    demo.until_alfa_is_up().await?;
    demo.write().await?;

    read_and_trim(&demo, &messages).await
}

async fn apply_zones(client: &Client) -> Result<(), Box<dyn Error>> {
    let datacenters = [("alfa", ["shard0000"]), ("bravo", ["shard0001"])];
    let layout = Layout::new("app.messages", ["datacenter", "userid"], datacenters)?;
    let found = Cluster::read(client, &layout).await?;
    zones::plan(&layout, &found)?.apply(client).await?;
    Ok(())
}

struct Demo {
    began: Instant,
    writer: LocalWriter,
    messages: i32,
}

impl Demo {
    fn print(&self, line: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{:5.1} s  {line}", self.began.elapsed().as_secs_f32())
    }

    /// Writes a message and prints its receipt.
    async fn write(&mut self) -> Result<(), Box<dyn Error>> {
        self.messages += 1;
        let message = doc! { "message_id": self.messages, "userid": 123 };
        let receipt = self.writer.insert(&message).await?;
        let mut line = format!("message {} is in {}", self.messages, receipt.datacenter());
        for attempt in receipt.failed() {
            line += &format!("; tried in {}: {}", attempt.datacenter, attempt.outcome);
        }
        Ok(self.print(&line)?)
    }

    async fn until_alfa_is_up(&self) -> io::Result<()> {
        self.print("alfa is running again")?;
        self.writer.until_all_up().await;
        self.print("the writer has marked alfa up")
    }
}

async fn read_and_trim(demo: &Demo, messages: &Collection<Document>) -> Result<(), Box<dyn Error>> {
    let documents = messages.count_documents(doc! {}).await?;
    let reading = Duplicates::of(messages).key(["message_id"]);
    let mut read = reading.read(doc! { "userid": 123 }).await?;
    let mut seen = 0;
    while read.advance().await? {
        seen += 1;
    }
    demo.print(&format!("{documents} documents are stored, and {seen} messages are read"))?;
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await?;
    Ok(demo.print(&format!("surplus copies deleted: {}", report.deleted))?)
}
