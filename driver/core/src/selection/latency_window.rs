//! Choice among suitable servers: latency window and operation count.

use std::time::Duration;

use crate::description::ServerDescription;

/// Keeps the servers whose average round trip time exceeds the fastest one's by at most
/// `local_threshold`.
///
/// A server without a round trip time counts as the slowest. If no server has one, all are kept.
pub fn in_latency_window(servers: &mut Vec<&ServerDescription>, local_threshold: Duration) {
    let times = servers.iter().filter_map(|server| server.average_round_trip_time);
    let Some(shortest) = times.min() else { return };
    let longest = shortest.saturating_add(local_threshold);
    servers.retain(|server| server.average_round_trip_time.is_some_and(|time| time <= longest));
}

/// Picks two random candidates and returns the one with fewer operations in progress.
///
/// If every client chose the least busy of all servers, all would send their next operations to the
/// same one. Two random choices distribute the load almost as evenly and avoid that.
pub fn pick<T: Copy>(
    candidates: &[T],
    operation_count: impl Fn(T) -> usize,
    random: [u64; 2],
) -> Option<T> {
    if let [only] = candidates {
        return Some(*only);
    }
    let first = below(candidates.len(), random[0])?;
    let second = below(candidates.len() - 1, random[1])?;
    // The second index is drawn from the candidates without the first.
    let second = if second >= first { second + 1 } else { second };
    let (first, second) = (candidates[first], candidates[second]);
    Some(if operation_count(second) < operation_count(first) { second } else { first })
}

/// Scales a uniformly distributed `u64` to `0..bound`.
fn below(bound: usize, random: u64) -> Option<usize> {
    if bound == 0 {
        return None;
    }
    usize::try_from((u128::from(random) * u128::try_from(bound).ok()?) >> 64).ok()
}
