//! Statistics: `collStats`, `dbStats`, `dataSize`, `validate`, `dbHash`.

mod digest;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    super::{namespace::Namespace, store::Collection},
    ReadContext,
    arguments::Arguments,
    count::number,
    listing::is_a_view,
};
use digest::Digest;

/// Runs `collStats`.
pub(crate) fn collection(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let call = reading.call;
    let fields = ["scale", "verbose", "waitForLock", "numericOnly"];
    let arguments = Arguments::of(call, "collStats", &fields)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let scale = arguments.integer("scale")?.unwrap_or(1);
    if scale < 1 {
        return Err(Fault::location(
            51024,
            format!("BSON field 'scale' value must be >= 1, actual value '{scale}'"),
        ));
    }
    let collection = reading.store.collection(&namespace);
    if collection.is_some_and(Collection::is_view) {
        return Err(is_a_view(&namespace));
    }
    let mut reply = doc! { "ns": namespace.to_string() };
    reply.extend(of_collection(collection, scale));
    Ok(reply)
}

/// Statistics of a collection, or of a missing one.
pub(super) fn of_collection(collection: Option<&Collection>, scale: i64) -> Document {
    let Some(collection) = collection else {
        return doc! {
            "size": 0,
            "count": 0,
            "numOrphanDocs": 0,
            "storageSize": 0,
            "totalSize": 0,
            "nindexes": 0,
            "totalIndexSize": 0,
            "indexDetails": {},
            "indexSizes": {},
            "scaleFactor": whole(scale),
        };
    };
    let bytes = i64::try_from(collection.size()).unwrap_or(i64::MAX);
    let count = i64::try_from(collection.len()).unwrap_or(i64::MAX);
    let mut statistics = doc! { "size": whole(bytes / scale), "count": whole(count) };
    if count > 0 {
        statistics.insert("avgObjSize", whole(bytes / count));
    }
    // Only documents are counted. The size of indexes is unknown.
    let sizes: Document =
        collection.indexes().iter().map(|it| (it.name().to_owned(), Bson::Int32(0))).collect();
    statistics.extend(doc! {
        "numOrphanDocs": 0,
        "storageSize": whole(bytes / scale),
        "freeStorageSize": 0,
        "capped": collection.is_capped(),
        "nindexes": number(collection.indexes().len()),
        "indexDetails": {},
        "indexBuilds": [],
        "totalIndexSize": 0,
        "totalSize": whole(bytes / scale),
        "indexSizes": sizes,
        "scaleFactor": whole(scale),
    });
    if collection.is_capped() {
        for (field, option) in [("max", "max"), ("maxSize", "size")] {
            if let Some(value) = collection.options().get(option) {
                statistics.insert(field, value.clone());
            }
        }
    }
    statistics
}

fn whole(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// Runs `dbStats`.
pub(crate) fn database(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let arguments = Arguments::of(reading.call, "dbStats", &["scale", "freeStorage"])?;
    let scale = arguments.integer("scale")?.unwrap_or(1);
    if scale < 1 {
        return Err(Fault::bad_value("scale has to be > 0"));
    }
    let (mut collections, mut views, mut objects, mut bytes, mut indexes) = (0, 0, 0, 0_u64, 0);
    for (_, collection) in reading.store.collections(&reading.call.database) {
        if collection.is_view() {
            views += 1;
            continue;
        }
        collections += 1;
        objects += collection.len();
        bytes += collection.size();
        indexes += collection.indexes().len();
    }
    #[allow(clippy::cast_precision_loss)] // servers report doubles
    let (bytes, count, scale) = (bytes as f64, objects as f64, scale as f64);
    let average = if objects == 0 { 0.0 } else { bytes / count };
    Ok(doc! {
        "db": &reading.call.database,
        "collections": collections,
        "views": views,
        "objects": number(objects),
        "avgObjSize": average,
        "dataSize": bytes / scale,
        "storageSize": bytes / scale,
        "indexes": number(indexes),
        "indexSize": 0.0,
        "totalSize": bytes / scale,
        "scaleFactor": scale,
    })
}

/// Runs `dataSize`, which names a collection with its database.
pub(crate) fn data_size(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let fields = ["keyPattern", "min", "max", "estimate"];
    let arguments = Arguments::of(reading.call, "dataSize", &fields)?;
    let name = arguments.required("dataSize", arguments.text("dataSize")?)?;
    let Some((database, collection)) = name.split_once('.') else {
        return Err(Fault::new(
            Code::INVALID_NAMESPACE,
            format!("Invalid namespace specified '{name}'"),
        ));
    };
    if arguments.value("min").is_some() || arguments.value("max").is_some() {
        return Err(Fault::new(Code::NOT_IMPLEMENTED, "dataSize of a part is not implemented"));
    }
    let namespace = Namespace::named(database, collection)?;
    let collection = reading.store.collection(&namespace);
    let size = collection.map_or(0, Collection::size);
    Ok(doc! {
        "estimate": false,
        "size": whole(i64::try_from(size).unwrap_or(i64::MAX)),
        "numObjects": number(collection.map_or(0, Collection::len)),
        "millis": 0,
    })
}

/// Runs `validate`: compares each index with the keys of all documents.
pub(crate) fn validate(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let call = reading.call;
    let fields = ["full", "repair", "metadata", "checkBSONConformance", "background", "scandata"];
    Arguments::of(call, "validate", &fields)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let Some(collection) = reading.store.collection(&namespace) else {
        return Err(Fault::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("Collection '{namespace}' does not exist to validate."),
        ));
    };
    if collection.is_view() {
        return Err(is_a_view(&namespace));
    }
    let (mut keys, mut details, mut valid) = (Document::new(), Document::new(), true);
    for index in collection.indexes() {
        let is_consistent = collection.is_consistent(index)?;
        valid &= is_consistent;
        keys.insert(index.name(), number(index.len()));
        details.insert(index.name(), doc! { "valid": is_consistent });
    }
    Ok(doc! {
        "ns": namespace.to_string(),
        "uuid": collection.uuid(),
        "nInvalidDocuments": 0,
        "nNonCompliantDocuments": 0,
        "nrecords": number(collection.len()),
        "nIndexes": number(collection.indexes().len()),
        "keysPerIndex": keys,
        "indexDetails": details,
        "valid": valid,
        "repaired": false,
        "warnings": [],
        "errors": [],
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    })
}

/// Runs `dbHash`. Equal data has equal digests, independent of the insertion order.
pub(crate) fn hash(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let fields = ["collections", "skipTempCollections"];
    let arguments = Arguments::of(reading.call, "dbHash", &fields)?;
    let expected = arguments.array("collections")?.filter(|it| !it.is_empty());
    let (mut digests, mut uuids, mut capped) = (Document::new(), Document::new(), Vec::new());
    let mut all = Digest::new();
    for (namespace, collection) in reading.store.collections(&reading.call.database) {
        let name = &namespace.collection;
        let is_wanted = expected.is_none_or(|names| names.contains(&Bson::String(name.clone())));
        if collection.is_view() || !is_wanted {
            continue;
        }
        let digest = Digest::of_collection(collection)?;
        all.add(name.as_bytes());
        all.add(digest.as_bytes());
        digests.insert(name, digest);
        uuids.insert(name, collection.uuid());
        if collection.is_capped() {
            capped.push(Bson::String(name.clone()));
        }
    }
    Ok(doc! {
        "host": &reading.server_info.address,
        "collections": digests,
        "capped": capped,
        "uuids": uuids,
        "md5": all.text(),
        "timeMillis": 0,
    })
}
