//! Load shedding: token buckets that limit requests and new connections per second.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Configuration of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateLimit {
    pub(crate) is_on: bool,
    pub(crate) per_second: f64,
    /// Capacity of the bucket, in seconds of the rate.
    pub(crate) burst_seconds: f64,
    /// Maximum queue depth.
    pub(crate) queue: u64,
}

impl Default for RateLimit {
    /// A server's default: no limit.
    fn default() -> Self {
        Self {
            is_on: false,
            per_second: f64::from(i32::MAX),
            burst_seconds: f64::MAX,
            queue: u64::MAX,
        }
    }
}

impl RateLimit {
    /// A limit with a rate per second and a burst capacity.
    pub(crate) fn new(per_second: f64, burst: f64) -> Self {
        let burst_seconds = if per_second > 0.0 { burst / per_second } else { 0.0 };
        Self { is_on: true, per_second, burst_seconds, queue: 0 }
    }

    fn capacity(&self) -> f64 {
        (self.per_second * self.burst_seconds).min(f64::MAX)
    }
}

/// Counters of `serverStatus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdmissionCounts {
    pub(crate) admitted: i64,
    pub(crate) rejected: i64,
    pub(crate) exempted: i64,
}

/// A token bucket that can be reconfigured at any time.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// Copy of the limit's flag, readable without a lock.
    is_on: AtomicBool,
    bucket: Mutex<TokenBucket>,
}

#[derive(Debug)]
struct TokenBucket {
    limit: RateLimit,
    tokens: f64,
    at: Instant,
    waiting: u64,
    counts: AdmissionCounts,
}

impl RateLimiter {
    pub(crate) fn new(limit: RateLimit) -> Self {
        let bucket = TokenBucket {
            tokens: limit.capacity(),
            limit,
            at: Instant::now(),
            waiting: 0,
            counts: AdmissionCounts::default(),
        };
        Self { is_on: AtomicBool::new(limit.is_on), bucket: Mutex::new(bucket) }
    }

    /// Returns `true` if the limit is enabled.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> RateLimit {
        self.bucket().limit
    }

    pub(crate) fn counts(&self) -> AdmissionCounts {
        self.bucket().counts
    }

    /// Replaces the limit. The bucket is full afterwards.
    pub(crate) fn set(&self, limit: RateLimit) {
        let mut bucket = self.bucket();
        bucket.limit = limit;
        bucket.tokens = limit.capacity();
        bucket.at = Instant::now();
        self.is_on.store(limit.is_on, Ordering::Relaxed);
    }

    /// Takes a token. Returns `false` if there is none.
    pub(crate) fn admit(&self) -> bool {
        let mut bucket = self.bucket();
        let admitted = bucket.take(Instant::now());
        match admitted {
            true => bucket.counts.admitted += 1,
            false => bucket.counts.rejected += 1,
        }
        admitted
    }

    /// Counts an exempt request.
    pub(crate) fn exempt(&self) {
        self.bucket().counts.exempted += 1;
    }

    /// Waits for a token. Returns `false` if the queue is full.
    pub(crate) async fn wait_for_token(&self) -> bool {
        let waiting = match self.join_queue() {
            QueueOutcome::Admitted => return true,
            QueueOutcome::Rejected => return false,
            QueueOutcome::Waits => QueueGuard(self),
        };
        loop {
            let pause = {
                let mut bucket = self.bucket();
                if !bucket.limit.is_on || bucket.take(Instant::now()) {
                    bucket.counts.admitted += 1;
                    break;
                }
                bucket.until_next()
            };
            tokio::time::sleep(pause).await;
        }
        drop(waiting);
        true
    }

    fn join_queue(&self) -> QueueOutcome {
        let mut bucket = self.bucket();
        if bucket.waiting == 0 && bucket.take(Instant::now()) {
            bucket.counts.admitted += 1;
            QueueOutcome::Admitted
        } else if bucket.waiting >= bucket.limit.queue {
            bucket.counts.rejected += 1;
            QueueOutcome::Rejected
        } else {
            bucket.waiting += 1;
            QueueOutcome::Waits
        }
    }

    fn bucket(&self) -> MutexGuard<'_, TokenBucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum QueueOutcome {
    Admitted,
    Rejected,
    Waits,
}

/// Guard of a queued request. Dropping it leaves the queue.
struct QueueGuard<'a>(&'a RateLimiter);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.bucket().waiting -= 1;
    }
}

impl TokenBucket {
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.limit.per_second;
        self.tokens = (self.tokens + earned).min(self.limit.capacity());
        self.at = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }

    /// Time until the next token. An hour if the rate is 0.
    fn until_next(&self) -> Duration {
        const LONG: f64 = 3600.0;
        let seconds = (1.0 - self.tokens) / self.limit.per_second;
        Duration::from_secs_f64(if seconds.is_finite() { seconds.clamp(1e-4, LONG) } else { LONG })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_is_admitted_then_rate_applies() {
        let limiter = RateLimiter::new(RateLimit::new(10.0, 3.0));
        let admitted = (0..5).filter(|_| limiter.admit()).count();
        assert_eq!(admitted, 3);
        tokio::time::advance(Duration::from_millis(101)).await;
        assert!(limiter.admit());
        assert!(!limiter.admit());
        assert_eq!(limiter.counts(), AdmissionCounts { admitted: 4, rejected: 3, exempted: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_capped_at_burst_capacity() {
        let limiter = RateLimiter::new(RateLimit::new(10.0, 2.0));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!((0..5).filter(|_| limiter.admit()).count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_capacity_admits_nothing() {
        let limiter = RateLimiter::new(RateLimit::new(0.0, 0.0));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!limiter.admit());
        limiter.set(RateLimit::default());
        assert!(!limiter.is_on());
        assert!(limiter.admit());
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_rejects_requests() {
        let limiter = RateLimiter::new(RateLimit { queue: 1, ..RateLimit::new(1.0, 1.0) });
        assert!(limiter.wait_for_token().await);
        let began = Instant::now();
        let (second, third) = tokio::join!(limiter.wait_for_token(), limiter.wait_for_token());
        assert_eq!((second, third), (true, false));
        assert!(began.elapsed() >= Duration::from_secs(1));
    }
}
