//! Change events of an oplog entry.

use std::sync::Arc;

use bson::{Binary, Bson, Document, Timestamp, Uuid, doc, spec::BinarySubtype};
use steadfast_query::{Code, Fault, value::format_document};

use super::{
    ChangeStreamOptions, ImageMode,
    description::{DescriptionFields, description},
    difference::difference,
    resume_token::{EventPoint, StreamPosition},
};
use crate::{
    change::Change,
    namespace::Namespace,
    oplog::{CommitStep, OplogEntry, PriorState, SessionUpdateKind, StreamHistory, TransactionId},
};

/// Target of a change stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamTarget {
    Collection(Namespace),
    Database(String),
    /// All databases except `admin`, `config` and `local`.
    Cluster,
}

impl StreamTarget {
    fn is(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Collection(watched) => watched == namespace,
            Self::Database(database) => {
                namespace.database == *database && !namespace.collection.starts_with("system.")
            }
            Self::Cluster => {
                !is_internal(&namespace.database) && !namespace.collection.starts_with("system.")
            }
        }
    }

    fn is_database(&self, database: &str) -> bool {
        match self {
            Self::Collection(_) => false,
            Self::Database(watched) => watched == database,
            Self::Cluster => !is_internal(database),
        }
    }
}

/// Returns `true` for internal databases.
pub(crate) fn is_internal(database: &str) -> bool {
    matches!(database, "admin" | "config" | "local")
}

/// A change that a stream shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    entry: &'a OplogEntry,
    change: &'a Change,
    before: &'a PriorState,
    pub(super) position: StreamPosition,
}

/// Events of an entry in order. An `invalidate` follows its event.
pub(super) fn events<'a>(
    entry: &'a OplogEntry,
    shard: u32,
    options: &ChangeStreamOptions,
) -> Vec<Event<'a>> {
    let mut all = Vec::new();
    if entry.is_migration() {
        return all;
    }
    for (number, (change, before)) in entry.changes.iter().zip(&entry.before).enumerate() {
        if !is_shown(change, before, options) {
            continue;
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let event = |point| {
            let position = StreamPosition { at: entry.at.timestamp, point, shard };
            Event { entry, change, before, position }
        };
        all.push(event(EventPoint::Event(number)));
        if invalidates_target(change, &options.target) {
            all.push(event(EventPoint::Invalidate(number)));
        }
    }
    all
}

fn is_shown(change: &Change, before: &PriorState, options: &ChangeStreamOptions) -> bool {
    let target = &options.target;
    match change {
        Change::Insert { namespace, .. }
        | Change::Replace { namespace, .. }
        | Change::Delete { namespace, .. } => target.is(namespace),
        Change::DropCollection { namespace } if !before.is_view => target.is(namespace),
        Change::RenameCollection { from, to } => target.is(from) || target.is(to),
        Change::DropDatabase { database } => target.is_database(database),
        Change::CreateCollection { namespace, .. }
        | Change::ModifyCollection { namespace, .. }
        | Change::DropCollection { namespace }
        | Change::CreateIndex { namespace, .. }
        | Change::ModifyIndex { namespace, .. }
        | Change::DropIndex { namespace, .. } => {
            // Change streams do not support views.
            let watched = !(before.is_view && matches!(target, StreamTarget::Collection(_)));
            options.expanded && watched && target.is(namespace)
        }
        Change::Noop(note) => {
            options.expanded && sharded(note).is_some_and(|namespace| target.is(&namespace))
        }
    }
}

/// Collection of a `shardCollection` no-op entry.
fn sharded(note: &Document) -> Option<Namespace> {
    let (database, collection) = note.get_str(SHARD_COLLECTION).ok()?.split_once('.')?;
    Some(Namespace::new(database, collection))
}

/// Field of a no-op entry that names a newly sharded collection. The entry also has `uuid` and
/// `description`.
pub(crate) const SHARD_COLLECTION: &str = "shardCollection";

/// Returns `true` if the change removes the target of the stream.
fn invalidates_target(change: &Change, target: &StreamTarget) -> bool {
    match (change, target) {
        (
            Change::DropCollection { .. } | Change::RenameCollection { .. },
            StreamTarget::Collection(_),
        )
        | (Change::DropDatabase { .. }, StreamTarget::Database(_)) => true,
        (_, StreamTarget::Collection(_) | StreamTarget::Database(_) | StreamTarget::Cluster) => {
            false
        }
    }
}

impl Event<'_> {
    /// Returns `true` for an `invalidate` event.
    pub(super) fn invalidates(&self) -> bool {
        matches!(self.position.point, EventPoint::Invalidate(_))
    }

    /// The event document. `seen` provides the current document for lookups.
    pub(super) fn document(
        &self,
        options: &ChangeStreamOptions,
        seen: &StreamHistory,
    ) -> Result<Document, Fault> {
        let mut event = Document::new();
        if self.invalidates() {
            self.head(&mut event, "invalidate", options);
            return Ok(event);
        }
        if let Some(TransactionId { session, number }) = self.transaction() {
            let binary = |subtype, bytes: Vec<u8>| Binary { subtype, bytes };
            let id = binary(BinarySubtype::Uuid, session.id);
            let user = binary(BinarySubtype::Generic, session.user);
            event.insert("txnNumber", number);
            event.insert("lsid", doc! { "id": id, "uid": user });
        }
        if let Change::RenameCollection { to, .. } = self.change {
            event.insert("to", name(to));
        }
        match self.change {
            Change::Insert { .. } | Change::Replace { .. } | Change::Delete { .. } => {
                self.of_document(event, options, seen)
            }
            _ => Ok(self.of_collection(event, options)),
        }
    }

    /// Client transaction of the change.
    fn transaction(&self) -> Option<TransactionId> {
        if let Some(CommitStep::Committed { id, .. }) = &self.entry.step {
            return Some(id.of_client());
        }
        let record =
            self.entry.record.as_ref().filter(|it| it.what == SessionUpdateKind::Committed)?;
        Some(TransactionId { session: record.session.clone(), number: record.number })
    }

    /// Adds the fields that all events have.
    fn head(&self, event: &mut Document, kind: &str, options: &ChangeStreamOptions) {
        event.insert("_id", self.position.token());
        event.insert("operationType", kind);
        event.insert("clusterTime", Timestamp::from(self.entry.at.timestamp));
        if let Some(CommitStep::Committed { visible, .. }) = &self.entry.step
            && options.version.has_default_expanded_fields()
        {
            event.insert("commitTimestamp", Timestamp::from(*visible));
        }
        if let Some(uuid) = self.collection()
            && (options.expanded || options.version.has_default_expanded_fields())
            && !self.invalidates()
        {
            event.insert("collectionUUID", uuid);
        }
        if options.version.has_wall_time() {
            event.insert("wallTime", self.entry.wall);
        }
    }

    /// UUID of the collection.
    fn collection(&self) -> Option<Uuid> {
        match self.change {
            Change::Noop(note) => match note.get("uuid") {
                Some(Bson::Binary(uuid)) => uuid.to_uuid().ok(),
                _ => None,
            },
            _ => self.before.collection,
        }
    }

    fn of_document(
        &self,
        mut event: Document,
        options: &ChangeStreamOptions,
        seen: &StreamHistory,
    ) -> Result<Document, Fault> {
        let mut full = None;
        let mut details = None;
        let before = self.before.document.as_deref();
        let key = |document: Option<&Document>, id: Option<&Bson>| {
            let id = id.unwrap_or(&Bson::Null);
            seen.document_key(self.before.collection, self.entry.at.timestamp, document, id)
        };
        let (kind, namespace, key) = match self.change {
            Change::Insert { namespace, document } => {
                full = Some(Bson::Document((**document).clone()));
                ("insert", namespace, key(Some(document), document.get("_id")))
            }
            Change::Replace { namespace, document, .. } => {
                let key = key(before, document.get("_id"));
                details = self.update(options);
                full = match &details {
                    None => Some(Bson::Document((**document).clone())),
                    Some(_) => self.after(namespace, document, &key, options, seen)?,
                };
                (if details.is_some() { "update" } else { "replace" }, namespace, key)
            }
            Change::Delete { namespace, id } => ("delete", namespace, key(before, Some(id))),
            _ => return Ok(event),
        };
        self.head(&mut event, kind, options);
        if let Some(full) = full {
            event.insert("fullDocument", full);
        }
        event.insert("ns", name(namespace));
        event.insert("documentKey", key);
        if let Some(details) = details {
            event.insert("updateDescription", details);
        }
        if kind != "insert" {
            self.add_before(&mut event, kind, namespace, options)?;
        }
        Ok(event)
    }

    /// `updateDescription`, unless the entry stores a whole document.
    fn update(&self, options: &ChangeStreamOptions) -> Option<Document> {
        let (Change::Replace { document, by, .. }, Some(before)) =
            (self.change, &self.before.document)
        else {
            return None;
        };
        if *by == crate::change::UpdateForm::Pipeline && !options.version.stores_differences() {
            return None;
        }
        let found = difference(before, document, by)?;
        let details = DescriptionFields {
            truncated: options.version.stores_differences(),
            disambiguated: options.version.has_disambiguated_paths() && options.expanded
                || options.version.has_default_expanded_fields(),
        };
        Some(description(&found, details))
    }

    /// `fullDocument` of an update.
    fn after(
        &self,
        namespace: &Namespace,
        document: &Arc<Document>,
        key: &Document,
        options: &ChangeStreamOptions,
        seen: &StreamHistory,
    ) -> Result<Option<Bson>, Fault> {
        let image = || self.before.has_images.then(|| Bson::Document((**document).clone()));
        Ok(match options.full {
            ImageMode::Off => None,
            ImageMode::Lookup => {
                let now = seen.lookup(namespace, self.before.collection, key);
                Some(now.map_or(Bson::Null, |it| Bson::Document((**it).clone())))
            }
            ImageMode::WhenAvailable => Some(image().unwrap_or(Bson::Null)),
            ImageMode::Required => Some(image().ok_or_else(|| {
                self.missing(
                    "post-image for all update events, but the post-image",
                    "update",
                    namespace,
                )
            })?),
        })
    }

    fn add_before(
        &self,
        event: &mut Document,
        kind: &str,
        namespace: &Namespace,
        options: &ChangeStreamOptions,
    ) -> Result<(), Fault> {
        let image = self.before.document.as_ref().filter(|_| self.before.has_images);
        let image = match (options.before, image) {
            (ImageMode::Off | ImageMode::Lookup, _) => return Ok(()),
            (_, Some(image)) => Bson::Document((**image).clone()),
            (ImageMode::WhenAvailable, None) => Bson::Null,
            (ImageMode::Required, None) => {
                let what = "pre-image for all update, delete and replace events, but the pre-image";
                return Err(self.missing(what, kind, namespace));
            }
        };
        event.insert("fullDocumentBeforeChange", image);
        Ok(())
    }

    fn missing(&self, what: &str, kind: &str, namespace: &Namespace) -> Fault {
        let event = doc! {
            "operationType": kind,
            "ns": name(namespace),
            "clusterTime": Timestamp::from(self.entry.at.timestamp),
        };
        Fault::new(
            Code::named(47, "NoMatchingDocument"),
            format!(
                "Change stream was configured to require a {what} was not found for event: {}",
                format_document(&event)
            ),
        )
    }

    fn of_collection(&self, mut event: Document, options: &ChangeStreamOptions) -> Document {
        let (kind, ns, description) = match self.change {
            Change::DropCollection { namespace } => ("drop", name(namespace), None),
            Change::DropDatabase { database } => ("dropDatabase", doc! { "db": database }, None),
            Change::RenameCollection { from, to } => {
                let mut description = doc! { "to": name(to) };
                if let Some(uuid) = self.before.replaced {
                    description.insert("dropTarget", uuid);
                }
                (
                    "rename",
                    name(from),
                    Some(description).filter(|_| {
                        options.expanded || options.version.has_default_expanded_fields()
                    }),
                )
            }
            Change::CreateCollection { namespace, options, .. } => {
                let mut description = options.clone();
                if !self.before.is_view {
                    let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
                    description.insert("idIndex", index);
                }
                ("create", name(namespace), Some(description))
            }
            Change::ModifyCollection { namespace, options } => {
                let description = match self.before.is_view {
                    true => options.clone(),
                    false => self.modified(options),
                };
                ("modify", name(namespace), Some(description))
            }
            Change::ModifyIndex { namespace, name: index, specification } => {
                let mut description = doc! { "name": index };
                description.extend(self.modified(specification));
                ("modify", name(namespace), Some(doc! { "index": description }))
            }
            Change::CreateIndex { namespace, specification } => {
                let description = doc! { "indexes": [specification.clone()] };
                ("createIndexes", name(namespace), Some(description))
            }
            Change::DropIndex { namespace, .. } => {
                let gone = self.before.document.as_deref().cloned().unwrap_or_default();
                ("dropIndexes", name(namespace), Some(doc! { "indexes": [gone] }))
            }
            Change::Noop(note) => {
                let Some(namespace) = sharded(note) else { return event };
                let description = note.get_document("description").cloned().unwrap_or_default();
                (SHARD_COLLECTION, name(&namespace), Some(description))
            }
            // Handled elsewhere.
            Change::Insert { .. } | Change::Replace { .. } | Change::Delete { .. } => return event,
        };
        self.head(&mut event, kind, options);
        event.insert("ns", ns);
        if let Some(description) = description {
            event.insert("operationDescription", description);
        }
        if kind == "create" && options.version.has_ns_type() {
            event.insert("nsType", if self.before.is_view { "view" } else { "collection" });
        }
        if let Some(state) = self.state_before() {
            event.insert("stateBeforeChange", state);
        }
        event
    }

    /// State before a `collMod` (`stateBeforeChange`).
    fn state_before(&self) -> Option<Document> {
        let uuid = self.before.collection?;
        let found = self.before.document.as_deref()?;
        match self.change {
            Change::ModifyCollection { .. } => {
                let mut before = doc! { "uuid": uuid };
                before.extend(found.clone());
                Some(doc! { "collectionOptions": before })
            }
            Change::ModifyIndex { specification, .. } => {
                let changed = self.modified(specification);
                let before = |field: &String| {
                    let value = found.get(field).cloned().unwrap_or(Bson::Boolean(false));
                    (field.clone(), value)
                };
                let before: Document = changed.keys().map(before).collect();
                let collection = doc! { "uuid": uuid };
                Some(doc! { "collectionOptions": collection, "indexOptions": before })
            }
            _ => None,
        }
    }

    /// Changed options of a collection or an index.
    fn modified(&self, options: &Document) -> Document {
        let before = self.before.document.as_deref().cloned().unwrap_or_default();
        let new = options.iter().filter(|(name, value)| before.get(name) != Some(value));
        let gone = before.keys().filter(|name| !options.contains_key(name));
        let gone = gone.map(|name| (name.clone(), Bson::Document(Document::new())));
        new.map(|(name, value)| (name.clone(), value.clone())).chain(gone).collect()
    }
}

fn name(namespace: &Namespace) -> Document {
    doc! { "db": &namespace.database, "coll": &namespace.collection }
}
