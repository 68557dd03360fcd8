//! Clocks and counters of a process: latencies, processor time, memory, allocations.

use std::{fs, time::Duration};

use crate::Result;

/// What a process has allocated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocations {
    /// How often, growing included.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// How much of it has not been freed.
    pub live: u64,
}

impl Allocations {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            count: self.count - before.count,
            bytes: self.bytes - before.bytes,
            live: self.live.saturating_sub(before.live),
        }
    }
}

/// How many buckets each doubling of the latency has: a figure is off by 1.6 % at most.
const STEPS_BITS: u32 = 5;
const STEPS: usize = 1 << STEPS_BITS;

/// How often which latency was met. Of a fixed size, so that counting allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; STEPS * 60], count: 0 }
    }

    pub(crate) fn add(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let index = bucket_of(nanos).min(self.buckets.len() - 1);
        self.buckets[index] += 1;
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The latency that this share of the operations did not exceed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among counted operations"
    )]
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(middle_of(index));
            }
        }
        Duration::ZERO
    }
}

/// Small values have a bucket each; beyond, each doubling is cut into equal steps.
fn bucket_of(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.leading_zeros();
    let doublings = bits.saturating_sub(STEPS_BITS + 1);
    let step = usize::try_from(nanos >> doublings).unwrap_or(usize::MAX);
    doublings as usize * STEPS + step
}

fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - doublings * STEPS) as u64;
    (step << doublings) + ((1_u64 << doublings) >> 1)
}

/// The processor time, user and system, of all threads of this process that still run.
pub(crate) fn processor_time() -> Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        // A thread may end while it is looked at.
        let Ok(times) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += times.split(' ').next().and_then(|on_cpu| on_cpu.parse().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

/// The most memory that this process ever had, in bytes.
pub(crate) fn peak_memory() -> Result<u64> {
    of_status("VmHWM:")
}

/// The memory that this process has now, in bytes.
pub(crate) fn resident_memory() -> Result<u64> {
    of_status("VmRSS:")
}

/// How many programs ran or wanted to, on average over the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn of_status(name: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kilobytes: u64 =
        kilobytes.ok_or(format!("no {name} in /proc/self/status"))?.trim().parse()?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_comes_out_nearly_as_it_went_in() {
        for nanos in [0, 1, 31, 32, 63, 64, 1_000, 123_456, 987_654_321, 60_000_000_000] {
            let told = middle_of(bucket_of(nanos));
            assert!(told.abs_diff(nanos) * 60 <= nanos, "{nanos} became {told}");
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let mut latencies = Latencies::new();
        for micros in 1..=1000 {
            latencies.add(Duration::from_micros(micros));
        }
        assert_eq!(latencies.count(), 1000);
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0)] {
            let micros = latencies.quantile(share).as_secs_f64() * 1e6;
            assert!((micros / expected - 1.0).abs() < 0.02, "{micros}");
        }
    }

    #[test]
    fn processor_time_grows_and_memory_is_known() {
        let before = processor_time().unwrap();
        let mut sum = 0_u64;
        while processor_time().unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(peak_memory().unwrap() > 100_000);
    }
}
