//! Waits between the attempts of a command.

use std::time::Duration;

/// Longest wait before the first retry after an overload error, unless the server names another.
const OVERLOAD_BASE: Duration = Duration::from_millis(100);
/// Longest wait after an overload error.
const OVERLOAD_MAX: Duration = Duration::from_secs(10);
/// Longest wait before the second retry after an ordinary error. The first is made at once.
const ORDINARY_BASE: Duration = Duration::from_millis(10);
/// Longest wait after an ordinary error.
const ORDINARY_MAX: Duration = Duration::from_secs(1);

/// Wait before a retry that `earlier` waits came before: `jitter * min(10 s, base * 2^earlier)`.
///
/// `base` is the server's `baseBackoffMS`, if it is not zero.
pub(super) fn after_overload(earlier: u32, base: Option<Duration>, jitter: f64) -> Duration {
    let base = base.filter(|base| !base.is_zero()).unwrap_or(OVERLOAD_BASE);
    exponential(base, earlier, OVERLOAD_MAX, jitter)
}

/// Wait before an ordinary retry that `earlier` waits came before: `jitter * min(1 s, 10 ms * 2^earlier)`.
pub(super) fn between_ordinary_retries(earlier: u32, jitter: f64) -> Duration {
    exponential(ORDINARY_BASE, earlier, ORDINARY_MAX, jitter)
}

/// `jitter` is from 0 to 1: a value outside is taken for the nearer end, and NaN for 1.
fn exponential(base: Duration, earlier: u32, longest: Duration, jitter: f64) -> Duration {
    // pitfall 37: nothing overflows, however many retries an application allows.
    let longest = base.saturating_mul(2_u32.saturating_pow(earlier)).min(longest);
    let jitter = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
    longest.mul_f64(jitter)
}
