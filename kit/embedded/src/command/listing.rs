//! `listDatabases`, `listCollections`, `listIndexes`.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Filter};

use super::{
    super::{
        cursor::{Cursor, CursorOwner, CursorSource, FoundDocuments},
        namespace::Namespace,
        store::Collection,
    },
    ReadContext,
    arguments::{Arguments, only_on_admin},
    lock,
};

/// Runs `listDatabases`. Databases without collections are omitted.
pub(crate) fn databases(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    only_on_admin(reading.call)?;
    let fields = ["filter", "nameOnly", "authorizedDatabases"];
    let arguments = Arguments::of(reading.call, "listDatabases", &fields)?;
    let names_only = arguments.boolean("nameOnly")?;
    let filter = filter(&arguments, reading)?;
    let (mut databases, mut total) = (Vec::new(), 0);
    for name in reading.store.databases() {
        let size = size_of(reading, name);
        let database = match names_only {
            true => doc! { "name": name },
            false => doc! { "name": name, "sizeOnDisk": size, "empty": false },
        };
        if filter.matches(&database, reading.env)? {
            total += size;
            databases.push(Bson::Document(database));
        }
    }
    let mut reply = doc! { "databases": databases };
    if !names_only {
        reply.insert("totalSize", total);
        reply.insert("totalSizeMb", total / (1024 * 1024));
    }
    Ok(reply)
}

/// Size of a database's documents in bytes.
pub(super) fn size_of(reading: &ReadContext<'_>, database: &str) -> i64 {
    let bytes: u64 = reading.store.collections(database).map(|(_, it)| it.size()).sum();
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn filter(arguments: &Arguments<'_>, reading: &ReadContext<'_>) -> Result<Filter, Fault> {
    let empty = Document::new();
    Filter::parse(arguments.document("filter")?.unwrap_or(&empty), reading.env)
}

/// Runs `listCollections`.
pub(crate) fn collections(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let fields = ["filter", "nameOnly", "authorizedCollections", "cursor", "includePendingDrops"];
    let arguments = Arguments::of(reading.call, "listCollections", &fields)?;
    let names_only = arguments.boolean("nameOnly")?;
    let filter = filter(&arguments, reading)?;
    let mut listed = Vec::new();
    for (namespace, collection) in reading.store.collections(&reading.call.database) {
        let described = match names_only {
            true => doc! { "name": &namespace.collection, "type": kind(collection) },
            false => describe(namespace, collection),
        };
        if filter.matches(&described, reading.env)? {
            listed.push(Arc::new(described));
        }
    }
    let namespace = Namespace::new(&reading.call.database, "$cmd.listCollections");
    list(reading, namespace, listed, arguments.batch_size()?)
}

fn kind(collection: &Collection) -> &'static str {
    if collection.is_view() { "view" } else { "collection" }
}

fn describe(namespace: &Namespace, collection: &Collection) -> Document {
    let mut described = doc! {
        "name": &namespace.collection,
        "type": kind(collection),
        "options": collection.options().clone(),
    };
    if collection.is_view() {
        described.insert("info", doc! { "readOnly": true });
        return described;
    }
    described.insert("info", doc! { "readOnly": false, "uuid": collection.uuid() });
    if let (Some(index), false) =
        (collection.indexes().first(), collection.options().contains_key("clusteredIndex"))
    {
        described.insert("idIndex", index.specification().clone());
    }
    described
}

/// Runs `listIndexes`.
pub(crate) fn indexes(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let call = reading.call;
    let arguments = Arguments::of(call, "listIndexes", &["cursor", "includeBuildUUIDs"])?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let Some(collection) = reading.store.collection(&namespace) else {
        return Err(Fault::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("ns does not exist: {namespace}"),
        ));
    };
    if collection.is_view() {
        return Err(is_a_view(&namespace));
    }
    let batch_size = arguments.batch_size()?;
    let listed = shown_indexes(collection).into_iter().map(Arc::new).collect();
    list(reading, namespace, listed, batch_size)
}

/// Error of a command that does not support views.
pub(super) fn is_a_view(namespace: &Namespace) -> Fault {
    Fault::new(
        Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
        format!("Namespace {namespace} is a view, not a collection"),
    )
}

/// Index specifications as listed. A clustered collection shows its clustered index.
fn shown_indexes(collection: &Collection) -> Vec<Document> {
    let mut shown: Vec<Document> =
        collection.indexes().iter().map(|index| index.specification().clone()).collect();
    if let (Some(first), Ok(clustered)) =
        (shown.first_mut(), collection.options().get_document("clusteredIndex"))
    {
        *first = clustered.clone();
        first.insert("clustered", true);
    }
    shown
}

fn list(
    reading: &ReadContext<'_>,
    namespace: Namespace,
    listed: Vec<Arc<Document>>,
    batch_size: Option<usize>,
) -> Result<Document, Fault> {
    let source = CursorSource::FoundDocuments(FoundDocuments::with_known_end(listed));
    let cursor = Cursor::new(namespace, CursorOwner::of(reading.call), source);
    cursor.open(batch_size, &mut lock(reading.cursors), reading.env)
}
