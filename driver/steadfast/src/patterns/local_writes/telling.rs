//! What a local writer logs, by `tracing`.

use std::time::Duration;

use super::{Failed, LocalWriteError};

/// The target of all that is logged here.
const TARGET: &str = "steadfast::local_writes";

/// A datacenter was marked down.
pub(super) fn down(datacenter: &str, probe_in: Duration, reason: &str) {
    tracing::warn!(
        target: TARGET,
        datacenter,
        probeInMS = as_millis(probe_in),
        reason,
        "Datacenter is marked down"
    );
}

/// A datacenter answers again.
pub(super) fn home(datacenter: &str, after: Duration) {
    tracing::info!(target: TARGET, datacenter, downMS = as_millis(after), "Datacenter is up again");
}

/// A datacenter was asked in vain whether it is back.
pub(super) fn probe_failed(datacenter: &str, reason: &str) {
    tracing::debug!(target: TARGET, datacenter, reason, "Datacenter is still down");
}

/// Documents were written, and not to the datacenter that was tried first.
pub(super) fn switched(failed: &Failed, to: &str, documents: usize) {
    tracing::debug!(
        target: TARGET,
        from = failed.datacenter,
        to,
        documents,
        outcome = failed.outcome.to_string(),
        "Write was switched"
    );
}

/// No datacenter acknowledged documents.
pub(super) fn all_down(error: &LocalWriteError, documents: usize) {
    tracing::error!(target: TARGET, documents, reason = error.to_string(), "All datacenters are down");
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use tracing::Level;

    use super::*;
    use crate::{
        error::Error,
        trace::capture::{Captured, Value, capture_one},
    };

    fn heard(work: impl FnOnce()) -> Captured {
        let captured = capture_one(work);
        assert_eq!(captured.target, TARGET);
        captured
    }

    fn failed(datacenter: &str) -> Failed {
        Failed::new(datacenter, ObjectId::new(), Error::timed_out("no reply"))
    }

    #[test]
    fn a_datacenter_that_goes_down_is_a_warning_and_one_that_comes_home_is_none() {
        let told = heard(|| down("alfa", Duration::from_secs(2), "it was late"));
        assert_eq!((told.level, told.text("datacenter")), (Level::WARN, "alfa"));
        assert_eq!(told.text("reason"), "it was late");
        assert_eq!(told.fields["probeInMS"], Value::Integer(2000));

        let told = heard(|| home("alfa", Duration::from_millis(1500)));
        assert_eq!((told.level, told.text("datacenter")), (Level::INFO, "alfa"));
        assert_eq!(told.fields["downMS"], Value::Integer(1500));
    }

    #[test]
    fn what_happens_often_is_for_debugging() {
        let told = heard(|| switched(&failed("alfa"), "bravo", 3));
        assert_eq!(told.level, Level::DEBUG);
        assert_eq!((told.text("from"), told.text("to")), ("alfa", "bravo"));
        assert_eq!(told.text("outcome"), "not sent");
        assert_eq!(told.fields["documents"], Value::Integer(3));

        let told = heard(|| probe_failed("alfa", "no reply"));
        assert_eq!((told.level, told.text("reason")), (Level::DEBUG, "no reply"));
    }

    #[test]
    fn that_all_are_down_is_an_error_that_names_them() {
        let error = LocalWriteError::AllDown { attempts: vec![failed("alfa"), failed("bravo")] };
        let told = heard(|| all_down(&error, 1));
        assert_eq!(told.level, Level::ERROR);
        assert!(told.text("reason").contains("bravo (not sent: "), "{told:?}");
    }
}
