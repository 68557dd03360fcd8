//! Data of a member: collections, indexes, session records, prepared transactions.
//!
//! A store is a persistent value. Cloning is cheap and shares the contents. Snapshots for reads,
//! transactions and rollbacks are clones.

mod collection;
mod index;
mod prepared;
mod prior_state;
mod session;
mod size;

use std::{ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;
use steadfast_query::{Code, Fault};

use super::{
    change::Change,
    namespace::Namespace,
    oplog::{OplogEntry, PriorState, SessionId, SessionUpdate, TransactionId},
};

pub(crate) use collection::Collection;
pub(crate) use index::Index;
pub(crate) use prepared::Prepared;
pub(crate) use session::SessionRecord;
pub(crate) use size::size_of_document;

/// Data of a member at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    collections: RedBlackTreeMapSync<Arc<Namespace>, Collection>,
    sessions: RedBlackTreeMapSync<SessionId, SessionRecord>,
    prepared: RedBlackTreeMapSync<TransactionId, Prepared>,
}

impl Store {
    /// A collection or view.
    pub(crate) fn collection(&self, namespace: &Namespace) -> Option<&Collection> {
        self.collections.get(namespace)
    }

    /// Collections and views of a database, by name.
    pub(crate) fn collections<'a>(
        &'a self,
        database: &'a str,
    ) -> impl Iterator<Item = (&'a Namespace, &'a Collection)> {
        let first = Namespace::new(database, "");
        self.from(first).take_while(move |(namespace, _)| namespace.database == database)
    }

    /// Names of databases with collections, in order.
    pub(crate) fn databases(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.collections.keys().map(|namespace| namespace.database.as_str()).collect();
        names.dedup();
        names
    }

    /// Record of a session.
    pub(crate) fn session(&self, session: &SessionId) -> Option<&SessionRecord> {
        self.sessions.get(session)
    }

    /// All session records.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&SessionId, &SessionRecord)> {
        self.sessions.iter()
    }

    /// Removes the record of an expired session.
    pub(crate) fn remove_session(&mut self, session: &SessionId) {
        self.sessions.remove_mut(session);
    }

    /// Applies changes, all or none, and returns the prior state of each.
    pub(crate) fn write(&mut self, changes: &[Change]) -> Result<Vec<PriorState>, Fault> {
        if let [change] = changes {
            let before = self.before(change);
            self.check_and_apply(change)?;
            return Ok(vec![before]);
        }
        let mut changed = self.clone();
        let mut all = Vec::with_capacity(changes.len());
        for change in changes {
            all.push(changed.before(change));
            changed.check_and_apply(change)?;
        }
        *self = changed;
        Ok(all)
    }

    /// Applies a whole entry, or nothing.
    pub(crate) fn apply(&mut self, entry: &OplogEntry) -> Result<(), Fault> {
        match entry.changes.as_slice() {
            [] => {}
            [change] => self.check_and_apply(change)?,
            changes => {
                let mut changed = self.clone();
                changes.iter().try_for_each(|change| changed.check_and_apply(change))?;
                *self = changed;
            }
        }
        self.apply_metadata(entry);
        Ok(())
    }

    /// Stores the other parts of an entry: session record, step of a two-phase commit.
    pub(crate) fn apply_metadata(&mut self, entry: &OplogEntry) {
        if let Some(record) = &entry.record {
            self.record(record, entry.wall);
        }
        if let Some(step) = &entry.step {
            self.apply_step(step, entry.at);
        }
    }

    /// Applies a change if it is valid: no duplicate key, and the changed document exists.
    pub(crate) fn check_and_apply(&mut self, change: &Change) -> Result<(), Fault> {
        match change {
            Change::Insert { namespace, document } => {
                self.existing(namespace)?.insert(namespace, document)
            }
            Change::Replace { namespace, document, by: _ } => {
                self.existing(namespace)?.replace(namespace, document)
            }
            Change::Delete { namespace, id } => self.existing(namespace)?.delete(namespace, id),
            Change::CreateCollection { namespace, uuid, options } => {
                if self.collections.contains_key(namespace) {
                    return Err(exists(namespace));
                }
                let collection = Collection::new(*uuid, options.clone())?;
                self.collections.insert_mut(Arc::new(namespace.clone()), collection);
                Ok(())
            }
            Change::ModifyCollection { namespace, options } => {
                self.existing(namespace)?.modify(options.clone());
                Ok(())
            }
            Change::DropCollection { namespace } => {
                if self.collections.remove_mut(namespace) {
                    Ok(())
                } else {
                    Err(missing(namespace))
                }
            }
            Change::RenameCollection { from, to } => {
                let collection = self.existing(from)?.clone();
                self.collections.remove_mut(from);
                self.collections.insert_mut(Arc::new(to.clone()), collection);
                Ok(())
            }
            Change::CreateIndex { namespace, specification } => {
                self.existing(namespace)?.create_index(namespace, specification)
            }
            Change::ModifyIndex { namespace, name, specification } => {
                let collection = self.existing(namespace)?;
                let mut changed = collection.clone();
                changed.drop_index(name)?;
                changed.create_index(namespace, specification)?;
                *collection = changed;
                Ok(())
            }
            Change::DropIndex { namespace, name } => self.existing(namespace)?.drop_index(name),
            Change::DropDatabase { database } => {
                let views: Vec<Namespace> =
                    self.collections(database).map(|(namespace, _)| namespace.clone()).collect();
                for view in &views {
                    self.collections.remove_mut(view);
                }
                Ok(())
            }
            Change::Noop(_) => Ok(()),
        }
    }

    /// Stores the result of a statement or transaction of a session.
    pub(crate) fn record(&mut self, record: &SessionUpdate, at: bson::DateTime) {
        if self.sessions.get(&record.session).is_none() {
            self.sessions.insert_mut(record.session.clone(), SessionRecord::new(record.number, at));
        }
        if let Some(known) = self.sessions.get_mut(&record.session) {
            known.add(record.number, &record.what, at);
        }
    }

    fn existing(&mut self, namespace: &Namespace) -> Result<&mut Collection, Fault> {
        self.collections.get_mut(namespace).ok_or_else(|| missing(namespace))
    }

    fn from(&self, first: Namespace) -> impl Iterator<Item = (&Namespace, &Collection)> {
        self.collections
            .range::<Namespace, _>((Bound::Included(first), Bound::Unbounded))
            .map(|(namespace, collection)| (&**namespace, collection))
    }
}

fn missing(namespace: &Namespace) -> Fault {
    Fault::new(Code::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}"))
}

fn exists(namespace: &Namespace) -> Fault {
    Fault::new(Code::NAMESPACE_EXISTS, format!("Collection {namespace} already exists."))
}

#[cfg(test)]
mod tests;
