//! How a local writer is made.

use std::{borrow::Borrow, time::Duration};

use bson::{RawDocumentBuf, raw::CString};
use steadfast_core::concern::WriteConcern;

use super::{
    LocalWriter,
    shared::{Shared, Site},
};
use crate::{
    Collection,
    error::{Error, Result},
};

/// What a [`LocalWriter`] is made of. See [`LocalWriter::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LocalWriterBuilder {
    datacenters: Vec<(String, Collection<RawDocumentBuf>)>,
    field: String,
    acknowledged_within: Duration,
    probe_every: Duration,
    write_concern: WriteConcern,
}

impl Default for LocalWriterBuilder {
    fn default() -> Self {
        Self {
            datacenters: Vec::new(),
            field: "datacenter".to_owned(),
            acknowledged_within: Duration::from_secs(2),
            probe_every: Duration::from_secs(1),
            write_concern: WriteConcern::majority(),
        }
    }
}

impl LocalWriterBuilder {
    /// The datacenters of one sharded cluster, nearest first. They have the same collection, and the zones of
    /// its shards route each document by its datacenter [field](Self::datacenter_field).
    pub fn cluster<T: Send + Sync>(
        self,
        collection: impl Borrow<Collection<T>>,
        datacenters: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        datacenters
            .into_iter()
            .fold(self, |builder, name| builder.datacenter(name, collection.borrow()))
    }

    /// The next nearest datacenter, which has a deployment of its own: the collection's client routes. The
    /// datacenter field is set here, too, so that a document shows where it was written.
    pub fn datacenter<T: Send + Sync>(
        mut self,
        name: impl Into<String>,
        collection: impl Borrow<Collection<T>>,
    ) -> Self {
        self.datacenters.push((name.into(), collection.borrow().clone_with_type()));
        self
    }

    /// The field that holds the name of the datacenter: the first one of the shard key. By default
    /// `datacenter`.
    pub fn datacenter_field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// How long a datacenter has to acknowledge a write before the next one is tried; by default two seconds.
    /// All that the driver does falls into this time: finding a primary, waiting for a connection, trying
    /// again. A datacenter whose elections take longer is left for their duration; one that is far away
    /// needs more. A caller that waits less long itself, and drops the future, never sees a switch.
    ///
    /// In a sharded cluster, let `heartbeatFrequencyMS` and `connectTimeoutMS` together be less than this, so that a
    /// mongos that does not answer is found out, and writes are retried on another mongos, within this time.
    pub fn acknowledged_within(mut self, limit: Duration) -> Self {
        self.acknowledged_within = limit;
        self
    }

    /// How soon a datacenter that was marked down is asked whether it is back, and how soon again after it
    /// was not; by default one second. If it fails again soon after it came home, the first question comes
    /// later each time, up to thirty times this.
    pub fn probe_every(mut self, wait: Duration) -> Self {
        self.probe_every = wait;
        self
    }

    /// What an acknowledgement means; by default that a majority of the datacenter's members have the
    /// document, whatever its collection says. With less, a document may be lost in a failover although
    /// there is a receipt for it.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.write_concern = concern;
        self
    }

    /// The writer. Nothing is sent yet.
    pub fn build(self) -> Result<LocalWriter> {
        self.check().map_err(Error::invalid_argument)?;
        for (_, collection) in &self.datacenters {
            collection.handle.checked_name()?;
        }
        let field = CString::try_from(self.field)?;
        let sites = self.datacenters.into_iter();
        let sites =
            sites.map(|(name, collection)| Site { name: name.into(), collection }).collect();
        let shared = Shared::new(
            sites,
            field,
            self.acknowledged_within,
            self.write_concern,
            self.probe_every,
        );
        Ok(LocalWriter::over(shared))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.datacenters.is_empty() {
            return Err("a local writer needs a datacenter to write to".to_owned());
        }
        for (nth, (name, _)) in self.datacenters.iter().enumerate() {
            if name.is_empty() {
                return Err("the name of a datacenter is empty".to_owned());
            }
            if self.datacenters[..nth].iter().any(|(earlier, _)| earlier == name) {
                return Err(format!("there are two datacenters named {name:?}"));
            }
        }
        let field = &self.field;
        if field.is_empty()
            || field == "_id"
            || field.starts_with('$')
            || field.contains(['.', '\0'])
        {
            return Err(format!(
                "{field:?} cannot be the datacenter field: it must be a field of the document itself, \
                 and not its _id"
            ));
        }
        if self.acknowledged_within.is_zero() {
            return Err("acknowledged_within is zero: nothing is acknowledged that soon".to_owned());
        }
        if self.probe_every.is_zero() {
            return Err("probe_every is zero: a datacenter would be asked without end".to_owned());
        }
        if !self.write_concern.is_acknowledged() {
            return Err("the write concern asks for no acknowledgement (w: 0)".to_owned());
        }
        self.write_concern.validate().map_err(|error| error.to_string())
    }
}
