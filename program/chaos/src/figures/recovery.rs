//! Time to recover from each failover.

use std::time::Duration;

use crate::account::{Account, ResultClass};

/// A silence that begins later is not caused by the failover: an election takes less, even with the default
/// `electionTimeoutMillis` of ten seconds.
const LATEST_SILENCE: Duration = Duration::from_secs(15);

/// Recovery from an incident that left the set without a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// Index of the incident in the history.
    pub(crate) incident: usize,
    /// Time until an operation that began after the incident was acknowledged. `None` if there was none.
    pub(crate) took: Option<Duration>,
    /// Longest time without an acknowledged operation that includes the incident or begins soon after it, and
    /// before the next failover.
    pub(crate) silence: Duration,
}

/// An acknowledged operation, ordered by its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Acknowledged {
    ended: Duration,
    began: Duration,
}

impl Recovery {
    pub(super) fn of(account: &Account) -> Vec<Self> {
        let acknowledged = acknowledged(account);
        let last = acknowledged.last().map_or(Duration::ZERO, |it| it.ended).max(account.lasted);
        let failovers: Vec<(usize, Duration)> = (account.incidents.iter().enumerate())
            .filter(|(_, incident)| incident.is_failover)
            .map(|(nth, incident)| (nth, incident.began))
            .collect();
        let of = |(nth, (incident, began)): (usize, &(usize, Duration))| {
            let until = failovers.get(nth + 1).map_or(last, |(_, next)| *next);
            Self {
                incident: *incident,
                took: first_after(&acknowledged, *began),
                silence: silence(&acknowledged, *began, until),
            }
        };
        failovers.iter().enumerate().map(of).collect()
    }
}

fn acknowledged(account: &Account) -> Vec<Acknowledged> {
    let mut acknowledged: Vec<_> = (account.records.iter())
        .filter(|record| record.answer.class() == ResultClass::Acknowledged)
        .map(|record| Acknowledged { ended: record.began + record.took, began: record.began })
        .collect();
    acknowledged.sort_unstable();
    acknowledged
}

fn first_after(acknowledged: &[Acknowledged], began: Duration) -> Option<Duration> {
    let later = acknowledged.partition_point(|it| it.ended < began);
    let first = acknowledged[later..].iter().find(|it| it.began >= began);
    first.map(|first| first.ended - began)
}

/// Returns the longest time between two acknowledgements that overlaps the time from `began` to `until`, cut at
/// `until`. The beginning of the load counts as an acknowledgement.
fn silence(acknowledged: &[Acknowledged], began: Duration, until: Duration) -> Duration {
    let later = acknowledged.partition_point(|it| it.ended <= began);
    let mut before = later.checked_sub(1).map_or(Duration::ZERO, |nth| acknowledged[nth].ended);
    let mut longest = Duration::ZERO;
    for ended in acknowledged[later..].iter().map(|it| it.ended.min(until)).chain([until]) {
        longest = longest.max(ended.saturating_sub(before));
        before = ended;
        if before >= until.min(began + LATEST_SILENCE) {
            break;
        }
    }
    longest
}
