//! The servers of a comparison, started when the first case needs them.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, Stdio},
};

use bson::{Bson, doc};
use testbed::{Options, ReplicaSet};

use crate::{
    Result, canned,
    case::ServerKind,
    contender::DATABASE,
    document::{Book, Numbered, Scan},
    workload::{MANY, NUMBERED, Workload},
};

/// What runs already.
#[derive(Default)]
pub(crate) struct Servers {
    mongod: Option<ReplicaSet>,
    canned: Option<Canned>,
}

/// A process of ours that ends when its standard input does.
struct Canned {
    address: SocketAddr,
    _stdin: ChildStdin,
    _process: Child,
}

/// Where a server is, and what its replica set is called.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) set: String,
}

impl Servers {
    /// The server for a case, with the documents that the workload needs and none that others left.
    pub(crate) fn prepare(&mut self, kind: ServerKind, workload: Workload) -> Result<Place> {
        match kind {
            ServerKind::Canned => {
                let canned = match &mut self.canned {
                    Some(canned) => canned,
                    none => none.insert(start_canned()?),
                };
                Ok(Place { address: canned.address, set: canned::SET.to_owned() })
            }
            ServerKind::Mongod => {
                let set = match &mut self.mongod {
                    Some(set) => set,
                    none => none.insert(start_mongod()?),
                };
                forget_written(set, workload)?;
                Ok(Place { address: set.addresses()[0], set: set.name().to_owned() })
            }
        }
    }
}

fn start_canned() -> Result<Canned> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = process.stdin.take().ok_or("no standard input")?;
    let mut line = String::new();
    BufReader::new(process.stdout.take().ok_or("no standard output")?).read_line(&mut line)?;
    Ok(Canned { address: line.trim().parse()?, _stdin: stdin, _process: process })
}

fn start_mongod() -> Result<ReplicaSet> {
    eprintln!("starting mongod and filling it ...");
    let set = ReplicaSet::start(1, Options::new())?;
    let book = Book::new();
    let numbered = (0..NUMBERED)
        .map(|id| Ok(bson::serialize_to_bson(&Numbered { id, book: &book })?))
        .collect::<Result<Vec<_>>>()?;
    insert(&set, Workload::FindOne, numbered)?;
    for _ in 0..MANY / 1000 {
        insert(&set, Workload::DrainRaw, vec![bson::serialize_to_bson(&book)?; 1000])?;
    }
    let mut scan = doc! { "_id": 1 };
    scan.extend(bson::serialize_to_document(&Scan::new())?);
    insert(&set, Workload::FindLarge, vec![scan.into()])?;
    for workload in [Workload::InsertOne, Workload::InsertMany] {
        set.run_command(0, DATABASE, doc! { "create": workload.collection() })?;
    }
    Ok(set)
}

fn insert(set: &ReplicaSet, workload: Workload, documents: Vec<Bson>) -> Result<()> {
    let command = doc! { "insert": workload.collection(), "documents": documents };
    set.run_command(0, DATABASE, command)?;
    Ok(())
}

fn forget_written(set: &ReplicaSet, workload: Workload) -> Result<()> {
    let name = workload.collection();
    if name.starts_with("written") {
        set.run_command(0, DATABASE, doc! { "drop": name })?;
        set.run_command(0, DATABASE, doc! { "create": name })?;
    }
    Ok(())
}
