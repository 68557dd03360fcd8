//! One server out of several suitable ones: near, and not the busiest.

use std::time::Duration;

use crate::description::ServerDescription;

/// Keeps the servers whose round trips take at most `local_threshold` longer than the fastest's.
///
/// A server that was not measured counts as the slowest; if none was, all stay.
pub fn in_latency_window(servers: &mut Vec<&ServerDescription>, local_threshold: Duration) {
    let times = servers.iter().filter_map(|server| server.average_round_trip_time);
    let Some(shortest) = times.min() else { return };
    let longest = shortest.saturating_add(local_threshold);
    servers.retain(|server| server.average_round_trip_time.is_some_and(|time| time <= longest));
}

/// Two of the candidates at random, and of these the one with fewer operations under way.
///
/// Always taking the least busy of all would send every client's next operations to the same
/// server; two random choices spread the load nearly as evenly, without the stampede.
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
    // The second is drawn from the others, which leave a gap where the first one is.
    let second = if second >= first { second + 1 } else { second };
    let (first, second) = (candidates[first], candidates[second]);
    Some(if operation_count(second) < operation_count(first) { second } else { first })
}

/// Scales a number drawn evenly from all of `u64` to one in `0..bound`.
fn below(bound: usize, random: u64) -> Option<usize> {
    if bound == 0 {
        return None;
    }
    usize::try_from((u128::from(random) * u128::try_from(bound).ok()?) >> 64).ok()
}
