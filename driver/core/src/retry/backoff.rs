//! Backoff between the attempts of a command.

use std::time::Duration;

/// Maximum backoff before the first retry after an overload error, unless the reply has
/// `baseBackoffMS`.
const OVERLOAD_BASE: Duration = Duration::from_millis(100);
/// Maximum backoff after an overload error.
const OVERLOAD_MAX: Duration = Duration::from_secs(10);
/// Maximum backoff before the second ordinary retry. The first one is immediate.
const ORDINARY_BASE: Duration = Duration::from_millis(10);
/// Maximum backoff after an ordinary error.
const ORDINARY_MAX: Duration = Duration::from_secs(1);

/// Returns the backoff after an overload error: `jitter * min(10 s, base * 2^earlier)`. `earlier`
/// is the number of backoffs before.
///
/// `base` is the server's `baseBackoffMS`, unless that is zero.
pub(super) fn after_overload(earlier: u32, base: Option<Duration>, jitter: f64) -> Duration {
    let base = base.filter(|base| !base.is_zero()).unwrap_or(OVERLOAD_BASE);
    exponential(base, earlier, OVERLOAD_MAX, jitter)
}

/// Returns the backoff before an ordinary retry: `jitter * min(1 s, 10 ms * 2^earlier)`. `earlier`
/// is the number of backoffs before.
pub(super) fn before_ordinary_retry(earlier: u32, jitter: f64) -> Duration {
    exponential(ORDINARY_BASE, earlier, ORDINARY_MAX, jitter)
}

/// Returns an exponential backoff. `jitter` is clamped to 0 to 1; NaN counts as 1.
fn exponential(base: Duration, earlier: u32, longest: Duration, jitter: f64) -> Duration {
    // pitfall 37: no overflow, even with a very large `maxAdaptiveRetries`.
    let longest = base.saturating_mul(2_u32.saturating_pow(earlier)).min(longest);
    let jitter = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
    longest.mul_f64(jitter)
}
