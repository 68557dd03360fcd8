//! Number of failed server selections, from the driver's log.
//!
//! Unlike durations, it does not depend on the load of the machine.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

const TARGET: &str = "steadfast::server_selection";
const FAILED: &str = "Server selection failed";

/// Counts failed server selections of this thread while it exists.
pub(super) struct FailedSelections {
    count: Arc<AtomicU64>,
    _until_dropped: DefaultGuard,
}

impl FailedSelections {
    pub(super) fn begin() -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let counting = Counting(Arc::clone(&count));
        Self { count, _until_dropped: tracing::subscriber::set_default(counting) }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

struct Counting(Arc<AtomicU64>);

impl Subscriber for Counting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = IsFailure(false);
        event.record(&mut message);
        self.0.fetch_add(u64::from(message.0), Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct IsFailure(bool);

impl Visit for IsFailure {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}") == FAILED;
    }
}
