//! Log messages of local writers (`tracing`).

use std::time::Duration;

use super::{FailedAttempt, LocalWriteError};

/// Target of all messages.
const TARGET: &str = "steadfast::local_writes";

/// Logs that a datacenter was marked down.
pub(super) fn down(datacenter: &str, probe_in: Duration, reason: &str) {
    tracing::warn!(
        target: TARGET,
        datacenter,
        probeInMS = as_millis(probe_in),
        reason,
        "Datacenter is marked down"
    );
}

/// Logs that a datacenter is up again.
pub(super) fn up(datacenter: &str, after: Duration) {
    tracing::info!(target: TARGET, datacenter, downMS = as_millis(after), "Datacenter is up again");
}

/// Logs a failed probe.
pub(super) fn probe_failed(datacenter: &str, reason: &str) {
    tracing::debug!(target: TARGET, datacenter, reason, "Datacenter is still down");
}

/// Logs documents that another datacenter than the first one acknowledged.
pub(super) fn switched(failed: &FailedAttempt, to: &str, documents: usize) {
    tracing::debug!(
        target: TARGET,
        from = failed.datacenter,
        to,
        documents,
        outcome = failed.outcome.to_string(),
        "Write was switched"
    );
}

/// Logs documents that no datacenter acknowledged.
pub(super) fn all_down(error: &LocalWriteError, documents: usize) {
    tracing::error!(target: TARGET, documents, reason = error.to_string(), "All datacenters are down");
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        fmt, io,
        sync::{Arc, Mutex},
    };

    use bson::oid::ObjectId;
    use tracing::{
        Event, Level, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// One log message.
    #[derive(Debug)]
    struct Logged {
        level: Level,
        fields: BTreeMap<&'static str, String>,
    }

    impl Visit for Logged {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.fields.insert(field.name(), value.to_owned());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.fields.insert(field.name(), format!("{value:?}"));
        }
    }

    #[derive(Clone, Default)]
    struct Capture(Arc<Mutex<Vec<Logged>>>);

    impl Subscriber for Capture {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            let metadata = event.metadata();
            assert_eq!(metadata.target(), TARGET);
            let mut logged = Logged { level: *metadata.level(), fields: BTreeMap::new() };
            event.record(&mut logged);
            self.0.lock().unwrap().push(logged);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Returns the one message that `work` logs.
    fn logged(work: impl FnOnce()) -> Logged {
        let capture = Capture::default();
        tracing::subscriber::with_default(capture.clone(), work);
        let mut messages = capture.0.lock().unwrap();
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    fn failed(datacenter: &str) -> FailedAttempt {
        FailedAttempt::new(
            datacenter,
            ObjectId::new(),
            io::Error::new(io::ErrorKind::TimedOut, "no reply").into(),
        )
    }

    #[test]
    fn marked_down_is_logged_at_warn_and_marked_up_at_info() {
        let message = logged(|| down("alfa", Duration::from_secs(2), "it was late"));
        assert_eq!((message.level, &*message.fields["datacenter"]), (Level::WARN, "alfa"));
        assert_eq!(&*message.fields["reason"], "it was late");
        assert_eq!(message.fields["probeInMS"], "2000");

        let message = logged(|| up("alfa", Duration::from_millis(1500)));
        assert_eq!((message.level, &*message.fields["datacenter"]), (Level::INFO, "alfa"));
        assert_eq!(message.fields["downMS"], "1500");
    }

    #[test]
    fn switched_writes_and_failed_probes_are_logged_at_debug() {
        let message = logged(|| switched(&failed("alfa"), "bravo", 3));
        assert_eq!(message.level, Level::DEBUG);
        assert_eq!((&*message.fields["from"], &*message.fields["to"]), ("alfa", "bravo"));
        assert_eq!(&*message.fields["outcome"], "not sent");
        assert_eq!(message.fields["documents"], "3");

        let message = logged(|| probe_failed("alfa", "no reply"));
        assert_eq!((message.level, &*message.fields["reason"]), (Level::DEBUG, "no reply"));
    }

    #[test]
    fn all_down_is_logged_at_error_with_the_datacenters() {
        let error = LocalWriteError::AllDown { attempts: vec![failed("alfa"), failed("bravo")] };
        let message = logged(|| all_down(&error, 1));
        assert_eq!(message.level, Level::ERROR);
        assert!(message.fields["reason"].contains("bravo (not sent: "), "{message:?}");
    }
}
