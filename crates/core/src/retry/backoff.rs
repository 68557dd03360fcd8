//! How long a client waits before it tries a server again that sheds load.

use std::time::Duration;

/// The wait before the first retry, before jitter, unless the server names another.
const BASE: Duration = Duration::from_millis(100);
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(10);

/// The wait before the retry that `earlier` waits came before: `jitter * min(10 s, base * 2^earlier)`.
///
/// `base` is the server's, if it named one that is not zero. `jitter` is from 0 to 1; what lies
/// outside is taken for the nearer end, and what is no number for 1.
pub(super) fn wait(earlier: u32, base: Option<Duration>, jitter: f64) -> Duration {
    let base = base.filter(|base| !base.is_zero()).unwrap_or(BASE);
    // pitfall 37: nothing overflows, however many retries an application allows.
    let longest = base.saturating_mul(2_u32.saturating_pow(earlier)).min(LONGEST);
    let jitter = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
    longest.mul_f64(jitter)
}
