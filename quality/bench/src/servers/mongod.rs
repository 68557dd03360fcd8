//! A real server: a replica set of one member, with the documents of the cases.

use bson::{Bson, doc};
use testbed::{Options, ReplicaSet};

use super::ServerAddress;
use crate::{
    Result,
    contender::DATABASE,
    document::{Book, Numbered, Scan},
    workload::{MANY_DOCUMENTS, NUMBERED_DOCUMENTS, Workload},
};

/// A running server; it ends when this is dropped.
pub(super) struct Mongod(ReplicaSet);

impl Mongod {
    pub(super) fn start() -> Result<Self> {
        eprintln!("starting mongod and inserting its documents ...");
        let set = ReplicaSet::start(1, Options::new())?;
        let book = Book::new();
        let numbered = (0..NUMBERED_DOCUMENTS)
            .map(|id| Ok(bson::serialize_to_bson(&Numbered { id, book: &book })?))
            .collect::<Result<Vec<_>>>()?;
        insert(&set, Workload::FindOne, numbered)?;
        for _ in 0..MANY_DOCUMENTS / 1000 {
            insert(&set, Workload::DrainRaw, vec![bson::serialize_to_bson(&book)?; 1000])?;
        }
        let mut scan = doc! { "_id": 1 };
        scan.extend(bson::serialize_to_document(&Scan::new())?);
        insert(&set, Workload::FindLarge, vec![scan.into()])?;
        for workload in [Workload::InsertOne, Workload::InsertMany] {
            set.run_command(0, DATABASE, doc! { "create": workload.collection() })?;
        }
        Ok(Self(set))
    }

    /// Empties the collection of a workload that writes.
    pub(super) fn prepare(&self, workload: Workload) -> Result<ServerAddress> {
        let Self(set) = self;
        let name = workload.collection();
        if name.starts_with("written") {
            set.run_command(0, DATABASE, doc! { "drop": name })?;
            set.run_command(0, DATABASE, doc! { "create": name })?;
        }
        Ok(ServerAddress { address: set.addresses()[0], set: set.name().to_owned() })
    }
}

fn insert(set: &ReplicaSet, workload: Workload, documents: Vec<Bson>) -> Result<()> {
    let command = doc! { "insert": workload.collection(), "documents": documents };
    set.run_command(0, DATABASE, command)?;
    Ok(())
}
