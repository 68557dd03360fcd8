//! Prior state of a change, for change streams.

use std::sync::Arc;

use bson::{Bson, Document};

use super::{Collection, Index, Store};
use crate::{change::Change, namespace::Namespace, oplog::PriorState};

impl Store {
    /// State before this change.
    pub(super) fn before(&self, change: &Change) -> PriorState {
        match change {
            Change::Insert { namespace, .. } | Change::CreateIndex { namespace, .. } => {
                self.found(namespace, |_| None)
            }
            Change::Replace { namespace, document, .. } => {
                let id = document.get("_id").unwrap_or(&Bson::Null);
                self.found(namespace, |collection| collection.by_id(id).cloned())
            }
            Change::Delete { namespace, id } => {
                self.found(namespace, |collection| collection.by_id(id).cloned())
            }
            Change::ModifyCollection { namespace, .. } | Change::DropCollection { namespace } => {
                self.found(namespace, |collection| Some(Arc::new(collection.options().clone())))
            }
            Change::RenameCollection { from, to } => PriorState {
                replaced: self.collection(to).map(Collection::uuid),
                ..self.found(from, |_| None)
            },
            Change::ModifyIndex { namespace, name, .. } | Change::DropIndex { namespace, name } => {
                self.found(namespace, |collection| {
                    let specification = collection.index(name).map(Index::specification);
                    specification.map(|it: &Document| Arc::new(it.clone()))
                })
            }
            Change::CreateCollection { uuid, options, .. } => PriorState {
                collection: (!options.contains_key("viewOn")).then_some(*uuid),
                is_view: options.contains_key("viewOn"),
                ..PriorState::default()
            },
            Change::DropDatabase { .. } | Change::Noop(_) => PriorState::default(),
        }
    }

    fn found(
        &self,
        namespace: &Namespace,
        document: impl FnOnce(&Collection) -> Option<Arc<Document>>,
    ) -> PriorState {
        let Some(collection) = self.collection(namespace) else { return PriorState::default() };
        let is_view = collection.is_view();
        PriorState {
            collection: (!is_view).then_some(collection.uuid()),
            is_view,
            document: document(collection),
            has_images: collection.options().contains_key("changeStreamPreAndPostImages"),
            replaced: None,
        }
    }
}
