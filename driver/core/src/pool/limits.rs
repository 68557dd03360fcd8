//! Limits of a pool, with the defaults of the specification.

use std::time::{Duration, Instant};

use crate::event::cmap::ConnectionPoolOptions;

/// Default of `maxPoolSize`.
pub const DEFAULT_MAX_POOL_SIZE: u32 = 100;
const DEFAULT_MAX_CONNECTING: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    pub(super) max_size: usize,
    pub(super) min_size: usize,
    pub(super) max_connecting: usize,
    pub(super) max_idle_time: Option<Duration>,
}

impl PoolLimits {
    pub(super) fn of(options: &ConnectionPoolOptions) -> Self {
        let max_size = match options.max_pool_size.unwrap_or(DEFAULT_MAX_POOL_SIZE) {
            0 => usize::MAX,
            size => count(size),
        };
        Self {
            max_size,
            min_size: count(options.min_pool_size.unwrap_or(0)).min(max_size),
            // With zero, no connection could be established.
            max_connecting: count(options.max_connecting.unwrap_or(DEFAULT_MAX_CONNECTING)).max(1),
            max_idle_time: options.max_idle_time.filter(|time| !time.is_zero()),
        }
    }

    pub(super) fn idled_too_long(&self, since: Instant, now: Instant) -> bool {
        self.max_idle_time.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
