//! Processor time that the server takes to serve a request, and to reject it.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use steadfast::{Client, Collection, options::WriteConcern};
use tokio::task::JoinSet;

use super::server::LimitedServer;
use crate::{Result, contender::DATABASE, document::Book, table::median};

const TASKS: usize = 16;
const ROUNDS: usize = 3;
const TURN: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(3);

/// Request whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// An insert with the server's default write concern, `majority`.
    Insert,
    /// An insert with the write concern `w: 1`.
    InsertW1,
    /// A find by `_id`.
    FindOne,
    /// A find that reads a collection of this many documents and returns none of them.
    Scan(i32),
}

impl RequestKind {
    const ALL: [Self; 5] =
        [Self::Insert, Self::InsertW1, Self::FindOne, Self::Scan(1000), Self::Scan(10_000)];

    fn name(self) -> String {
        match self {
            Self::Insert => "insert".to_owned(),
            Self::InsertW1 => "insert with `w: 1`".to_owned(),
            Self::FindOne => "find by `_id`".to_owned(),
            Self::Scan(documents) => format!("find that scans {documents} documents"),
        }
    }

    fn collection(self) -> String {
        match self {
            Self::Insert | Self::InsertW1 => "written".to_owned(),
            Self::FindOne => "scanned_1000".to_owned(),
            Self::Scan(documents) => format!("scanned_{documents}"),
        }
    }

    async fn prepare(self, client: &Client) -> Result<()> {
        let Self::Scan(documents) = self else { return Ok(()) };
        let scanned = client.database(DATABASE).collection::<Document>(&self.collection());
        scanned.drop().await?;
        scanned.insert_many((0..documents).map(|id| doc! { "_id": id, "v": id })).await?;
        Ok(())
    }

    /// Sends the request once. The server counts rejections.
    async fn send(self, client: &Client) -> Result<()> {
        let database = client.database(DATABASE);
        let sent = match self {
            Self::Insert | Self::InsertW1 => {
                let books: Collection<Book> = database.collection(&self.collection());
                let insert = books.insert_one(Book::new());
                let insert = match self {
                    Self::InsertW1 => insert.write_concern(WriteConcern::nodes(1)),
                    Self::Insert | Self::FindOne | Self::Scan(_) => insert,
                };
                insert.await.map(drop)
            }
            Self::FindOne | Self::Scan(_) => {
                let documents: Collection<Document> = database.collection(&self.collection());
                let filter = match self {
                    Self::Scan(_) => doc! { "v": -1 },
                    Self::Insert | Self::InsertW1 | Self::FindOne => doc! { "_id": 1 },
                };
                documents.find_one(filter).await.map(drop)
            }
        };
        match sent {
            Err(error) if !error.contains_label("SystemOverloadedError") => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Processor time of the server for one request, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) request: String,
    pub(super) served: f64,
    pub(super) rejected: f64,
}

impl Cost {
    /// Cost of rejecting as a part of that of serving.
    pub(super) fn ratio(&self) -> f64 {
        self.rejected / self.served
    }
}

/// Costs of requests.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Processor time of the idle server as a share of the time that passes.
    pub(super) idle: f64,
    pub(super) requests: Vec<Cost>,
}

/// Measures each request in turns of serving and rejecting.
pub(super) async fn measure(server: &LimitedServer, uri: &str) -> Result<Costs> {
    server.admit_all().await?;
    let client = Client::with_uri_str(format!("{uri}&maxAdaptiveRetries=0")).await?;
    for request in RequestKind::ALL {
        request.prepare(&client).await?;
    }
    eprintln!("processor time of the idle server ...");
    let before = server.processor_time()?;
    tokio::time::sleep(IDLE).await;
    let idle = (server.processor_time()? - before).as_secs_f64() / IDLE.as_secs_f64();
    let mut requests = Vec::new();
    for request in RequestKind::ALL {
        let (mut served, mut rejected) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            eprintln!("cost of {}, round {round} of {ROUNDS} ...", request.name());
            server.admit_all().await?;
            served.push(turn(server, &client, request, idle, false).await?);
            server.reject_all().await?;
            rejected.push(turn(server, &client, request, idle, true).await?);
        }
        server.admit_all().await?;
        let (served, rejected) = (median(served), median(rejected));
        requests.push(Cost { request: request.name(), served, rejected });
    }
    Ok(Costs { idle, requests })
}

/// Microseconds of processor time for each request, without those of an idle server.
async fn turn(
    server: &LimitedServer,
    client: &Client,
    request: RequestKind,
    idle: f64,
    rejected: bool,
) -> Result<f64> {
    let (counted, time, began) =
        (server.admissions().await?, server.processor_time()?, Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut sent = 0_u64;
            while began.elapsed() < TURN {
                request.send(&client).await?;
                sent += 1;
            }
            Result::Ok(sent)
        });
    }
    let mut sent = 0;
    while let Some(ended) = tasks.join_next().await {
        sent += ended??;
    }
    let took = began.elapsed().as_secs_f64();
    let time = (server.processor_time()? - time).as_secs_f64();
    // The counters do not change while the limiter is disabled.
    let counted = server.admissions().await?.since(counted);
    if rejected != (counted.rejected > 0) || counted.admitted > 0 {
        return Err(format!("unexpected admissions: {counted:?}").into());
    }
    Ok((time - idle * took) * 1e6 / sent as f64)
}
