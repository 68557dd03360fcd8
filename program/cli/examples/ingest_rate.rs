//! Rate of `steadfast ingest`, of a loop around `insert_many` and, if it is installed, of `mongoimport`: with the same
//! file, batches, parallelism and write concern, in turn, on real servers.
//!
//! ```sh
//! cargo build --release -p steadfast-cli --bins --examples
//! target/release/examples/ingest_rate [RECORDS] [ROUNDS] [MONGOIMPORT]
//! ```
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc},
    options::{CollectionOptions, WriteConcern},
};
use steadfast_report::quantiles::quantile;
use testbed::{Mongod, Options, ReplicaSet};
use tokio::sync::{Mutex, mpsc};

const BATCH: usize = 1000;

type Failure = Box<dyn Error + Send + Sync>;

/// Program that writes, and its number of parallel batches.
#[derive(Clone, Copy)]
enum Contender {
    Loop(usize),
    Ingest(usize),
    /// With a short `_id`, which is in the record.
    IngestById(usize),
    Mongoimport(usize),
}

const CONTENDERS: [fn(usize) -> Contender; 4] =
    [Contender::Loop, Contender::Ingest, Contender::IngestById, Contender::Mongoimport];

struct Race {
    uri: String,
    file: PathBuf,
    records: u64,
    mongoimport: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let records = arguments.next().map_or(Ok(200_000), |it| it.parse())?;
    let rounds = arguments.next().map_or(Ok(3), |it| it.parse())?;
    let file = env::temp_dir().join(format!("ingest-rate-{}.ndjson", std::process::id()));
    fs::write(&file, content(records))?;
    let mut race = Race { uri: String::new(), file, records, mongoimport: arguments.next() };
    let alone = Mongod::standalone(Options::new())?;
    race.uri = alone.uri();
    race.run("a standalone server", rounds).await?;
    drop(alone);
    let set = ReplicaSet::start(3, Options::new())?;
    race.uri = set.uri();
    race.run("a replica set of three", rounds).await?;
    Ok(fs::remove_file(&race.file)?)
}

/// Small documents, of 125 bytes each as JSON.
fn content(records: u64) -> String {
    let mut text = String::new();
    for n in 0..records {
        let (day, hour, minute, user) = (n % 28 + 1, n % 24, n % 60, n * 7919 % 1_000_000);
        let at = format!("2026-01-{day:02}T{hour:02}:{minute:02}:00.000Z");
        let price = (n % 10_000) as f64 / 100.0;
        // To a string, this does not fail.
        let _ = writeln!(
            text,
            r#"{{"n": {n}, "user": "user{user:06}", "kind": "click", "at": {{"$date": "{at}"}}, "ok": {}, "price": {price:.2}}}"#,
            n % 3 > 0
        );
    }
    text
}

impl Race {
    async fn run(&self, place: &str, rounds: usize) -> Result<(), Failure> {
        let contenders = [1, 4].map(|parallel| CONTENDERS.map(|it| it(parallel))).concat();
        let mut rates = vec![Vec::new(); contenders.len()];
        for _ in 0..rounds {
            for (&contender, rates) in contenders.iter().zip(&mut rates) {
                rates.extend(self.rate(contender).await?);
            }
        }
        println!("| on {place} | batches at once | records/s | of the loop |\n|---|--:|--:|--:|");
        let mut of_loop = 0.0;
        for (contender, mut rates) in contenders.into_iter().zip(rates) {
            rates.sort_by(f64::total_cmp);
            let Some(median) = quantile(&rates, 500) else { continue };
            let (name, parallel) = match contender {
                Contender::Loop(parallel) => {
                    of_loop = median;
                    ("a loop", parallel)
                }
                Contender::Ingest(parallel) => ("`steadfast ingest`", parallel),
                Contender::IngestById(parallel) => ("`steadfast ingest --id n`", parallel),
                Contender::Mongoimport(parallel) => ("`mongoimport`", parallel),
            };
            println!("| {name} | {parallel} | {median:.0} | {:.2} |", median / of_loop);
        }
        println!();
        Ok(())
    }

    fn ingest(&self, parallel: usize, more: &[&str]) -> Result<(), Failure> {
        let mut ingest = Command::new(env::current_exe()?.with_file_name("../steadfast"));
        ingest.args(["ingest", "--collection", "rate.records", "--uri", &self.uri]).args(more);
        run(ingest.args(["--parallel", &parallel.to_string()]).arg(&self.file))
    }

    /// Measures the records per second once. Returns `None` if the program is not installed.
    async fn rate(&self, contender: Contender) -> Result<Option<f64>, Failure> {
        let client = Client::with_uri_str(&self.uri).await?;
        let mut options = CollectionOptions::default();
        let mut concern = WriteConcern::majority();
        concern.journal = Some(true);
        options.write_concern = Some(concern);
        let records = client.database("rate").collection_with_options("records", options);
        records.drop().await?;
        let began = Instant::now();
        match (contender, &self.mongoimport) {
            (Contender::Loop(tasks), _) => plain(&records, &self.file, tasks).await?,
            (Contender::Ingest(parallel), _) => self.ingest(parallel, &[])?,
            (Contender::IngestById(parallel), _) => self.ingest(parallel, &["--id", "n"])?,
            (Contender::Mongoimport(_), None) => return Ok(None),
            (Contender::Mongoimport(workers), Some(program)) => {
                let mut import = Command::new(program);
                import.args(["--db", "rate", "--collection", "records", "--uri", &self.uri]);
                import.args(["--writeConcern", "{w: 'majority', j: true}", "--quiet"]);
                import.args(["--batchSize", &BATCH.to_string()]);
                import.args(["--numInsertionWorkers", &workers.to_string(), "--file"]);
                run(import.arg(&self.file))?;
            }
        }
        let rate = self.records as f64 / began.elapsed().as_secs_f64();
        let there = records.count_documents(doc! {}).await?;
        if there == self.records {
            Ok(Some(rate))
        } else {
            Err(format!("expected {} documents, found {there}", self.records).into())
        }
    }
}

fn run(program: &mut Command) -> Result<(), Failure> {
    let output = program.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}

/// A loop without `ingest`: tasks read lines as documents and insert them.
async fn plain(records: &Collection<Document>, file: &Path, tasks: usize) -> Result<(), Failure> {
    let (send, receive) = mpsc::channel::<Vec<String>>(1);
    let receive = Arc::new(Mutex::new(receive));
    let mut lines = BufReader::new(File::open(file)?).lines();
    let reading = tokio::task::spawn_blocking(move || -> Result<(), Failure> {
        loop {
            let batch: Vec<String> = lines.by_ref().take(BATCH).collect::<Result<_, _>>()?;
            if batch.is_empty() {
                return Ok(());
            }
            send.blocking_send(batch)?;
        }
    });
    let writing: Vec<_> = (0..tasks)
        .map(|_| {
            let (records, receive) = (records.clone(), Arc::clone(&receive));
            tokio::spawn(async move {
                loop {
                    let Some(batch) = receive.lock().await.recv().await else { return Ok(()) };
                    let mut documents: Vec<Document> = Vec::with_capacity(batch.len());
                    for line in batch {
                        match serde_json::from_str(&line)? {
                            Bson::Document(document) => documents.push(document),
                            other => return Err::<(), Failure>(other.to_string().into()),
                        }
                    }
                    records.insert_many(documents).await?;
                }
            })
        })
        .collect();
    for task in writing {
        task.await??;
    }
    reading.await?
}
