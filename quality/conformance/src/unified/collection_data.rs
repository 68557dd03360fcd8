//! Initial data (`initialData`) and expected documents (`outcome`) of collections.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use steadfast::{
    Client, ClientSession, ClusterTime,
    options::{CollectionOptions, ReadConcern, SelectionCriteria, WriteConcern},
};

use super::{
    deployment::Deployment,
    schema::CollectionData,
    test_error::{TestError, TestResult},
};

/// Drops and fills the collections, and returns the cluster time after that.
///
/// All operations run in one session, with write concern `majority`.
pub(super) async fn prepare(
    client: &Client,
    data: &[CollectionData],
) -> TestResult<Option<ClusterTime>> {
    let mut session = client.start_session().await?;
    for collection in data {
        let CollectionData { collection_name, database_name, .. } = collection;
        fill(client, &mut session, collection)
            .await
            .map_err(|error| error.within(format!("filling {database_name}.{collection_name}")))?;
    }
    if data.is_empty() {
        client.database("admin").run_command(doc! { "ping": 1 }).session(&mut session).await?;
    }
    Ok(session.cluster_time().cloned())
}

async fn fill(
    client: &Client,
    session: &mut ClientSession,
    data: &CollectionData,
) -> TestResult<()> {
    let database = client.database(&data.database_name);
    let options = CollectionOptions::builder().write_concern(WriteConcern::majority()).build();
    let collection = database.collection_with_options::<Document>(&data.collection_name, options);
    collection.drop().session(&mut *session).await?;
    if data.create_options.is_some() || data.documents.is_empty() {
        let mut command = doc! { "create": &data.collection_name };
        command.extend(data.create_options.clone().unwrap_or_default());
        command.insert("writeConcern", doc! { "w": "majority" });
        database.run_command(command).session(&mut *session).await?;
    }
    if !data.documents.is_empty() {
        collection.insert_many(&data.documents).session(&mut *session).await?;
    }
    Ok(())
}

/// Runs a `distinct` on each collection through each mongos: "StaleDbVersion Errors on Sharded Clusters" in the
/// specification. A mongos that routes to a database for the first time in a transaction would fail the transaction.
pub(super) async fn refresh_routing(
    deployment: &Deployment,
    data: &[CollectionData],
) -> TestResult<()> {
    for mongos in &deployment.mongos {
        for CollectionData { database_name, collection_name, .. } in data {
            let database = mongos.client.database(database_name);
            let command = doc! { "distinct": collection_name, "key": "_id" };
            database.run_command(command).await?;
        }
    }
    Ok(())
}

/// Fails unless the collections contain exactly these documents. The order of fields is not compared.
pub(super) async fn check(client: &Client, data: &[CollectionData]) -> TestResult<()> {
    for expected in data {
        let CollectionData { collection_name, database_name, documents, .. } = expected;
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::default())
            .build();
        let collection = client
            .database(database_name)
            .collection_with_options::<Document>(collection_name, options);
        let mut cursor = collection.find(doc! {}).sort(doc! { "_id": 1 }).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        let unordered = |documents: &[Document]| -> Vec<UnorderedValue> {
            documents.iter().map(|document| UnorderedValue::of(&document.clone().into())).collect()
        };
        if unordered(&found) != unordered(documents) {
            let name = format!("{database_name}.{collection_name}");
            return Err(TestError::failed(format!("{name} contains {found:?}, not {documents:?}")));
        }
    }
    Ok(())
}

/// A value without the order of its fields.
#[derive(Debug, PartialEq)]
enum UnorderedValue {
    Document(BTreeMap<String, UnorderedValue>),
    Array(Vec<UnorderedValue>),
    Other(Bson),
}

impl UnorderedValue {
    fn of(value: &Bson) -> Self {
        match value {
            Bson::Document(document) => Self::Document(
                document.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect(),
            ),
            Bson::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            other => Self::Other(other.clone()),
        }
    }
}
