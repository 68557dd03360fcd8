//! Builder of local writers.

use std::{borrow::Borrow, time::Duration};

use bson::RawDocumentBuf;
use steadfast::options::WriteConcern;

use super::{
    LocalWriter,
    shared::{DatacenterTarget, Shared},
};
use steadfast::{
    Collection,
    error::{Error, Result},
};

/// Builder of a [`LocalWriter`]. Returned by [`LocalWriter::builder`].
///
/// ```no_run
/// # fn run(messages: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use std::time::Duration;
/// use steadfast_patterns::local_writes::LocalWriter;
///
/// let writer = LocalWriter::builder()
///     .cluster(&messages, ["alfa", "bravo"])
///     .acknowledged_within(Duration::from_millis(500))
///     .build()?;
/// # Ok(()) }
/// ```
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
    /// Adds the datacenters of one sharded cluster, nearest first. They share a collection, and the zones of
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

    /// Adds the next nearest datacenter, which has its own deployment: that of the collection's client. The
    /// datacenter field is set as well.
    pub fn datacenter<T: Send + Sync>(
        mut self,
        name: impl Into<String>,
        collection: impl Borrow<Collection<T>>,
    ) -> Self {
        self.datacenters.push((name.into(), collection.borrow().clone_with_type()));
        self
    }

    /// Sets the field with the name of the datacenter, the first one of the shard key. Defaults to
    /// `datacenter`.
    pub fn datacenter_field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// Sets the time limit (`timeoutMS`) for the acknowledgement of a datacenter, before the next one is tried.
    /// Defaults to two seconds. It covers server selection, connection checkout and the driver's retries. If an election
    /// takes longer, the write goes to the next datacenter. A remote datacenter needs a longer limit. A caller
    /// that drops the future earlier never reaches another datacenter.
    ///
    /// In a sharded cluster, `heartbeatFrequencyMS` plus `connectTimeoutMS` should be less than this, so that a
    /// mongos that does not reply is detected, and writes are retried on another mongos, within this time.
    pub fn acknowledged_within(mut self, limit: Duration) -> Self {
        self.acknowledged_within = limit;
        self
    }

    /// Sets the wait before a datacenter that was marked down is probed, and between its probes. Defaults to
    /// one second. If it fails again soon after it was up, the first probe comes later each time, up to thirty
    /// times this.
    pub fn probe_every(mut self, wait: Duration) -> Self {
        self.probe_every = wait;
        self
    }

    /// Sets the [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/) (`writeConcern`).
    /// Defaults to `majority`; that of the collection is ignored. With a weaker one, a
    /// failover may roll back a document for which there is a receipt.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.write_concern = concern;
        self
    }

    /// Builds the writer. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// An [invalid argument](Error::is_invalid_argument) if a datacenter, a name or a limit is missing or
    /// invalid.
    pub fn build(self) -> Result<LocalWriter> {
        self.check().map_err(Error::invalid_argument)?;
        for (_, collection) in &self.datacenters {
            collection.namespace().validate()?;
        }
        let field = bson::to_cstring(&self.field)?;
        let datacenters = self.datacenters.into_iter();
        let datacenters = datacenters
            .map(|(name, collection)| DatacenterTarget { name: name.into(), collection })
            .collect();
        let shared = Shared::new(
            datacenters,
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
                "{field:?} cannot be the datacenter field: use a top-level field other than _id"
            ));
        }
        if self.acknowledged_within.is_zero() {
            return Err("acknowledged_within must be longer than zero".to_owned());
        }
        if self.probe_every.is_zero() {
            return Err("probe_every must be longer than zero".to_owned());
        }
        if !self.write_concern.is_acknowledged() {
            return Err("an unacknowledged write concern (w: 0) is not supported".to_owned());
        }
        self.write_concern.validate().map_err(|error| error.to_string())
    }
}
