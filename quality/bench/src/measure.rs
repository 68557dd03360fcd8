//! Clocks and counters of a process: processor time, memory, allocations.

use std::{fs, time::Duration};

use crate::Result;

/// Allocations of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocations {
    /// Number of allocations and reallocations.
    pub count: u64,
    /// Bytes allocated.
    pub bytes: u64,
    /// Bytes allocated and not freed.
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

/// Returns the processor time, user and system, of all running threads of this process.
pub(crate) fn processor_time() -> Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        // The thread may have ended since the directory was listed.
        let Ok(times) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += times.split(' ').next().and_then(|on_cpu| on_cpu.parse().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

/// Returns the peak memory of this process in bytes.
pub(crate) fn peak_memory() -> Result<u64> {
    of_status("VmHWM:")
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident_memory() -> Result<u64> {
    of_status("VmRSS:")
}

/// Returns the system's load average over the last minute.
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
    fn processor_time_grows_and_peak_memory_is_read() {
        let before = processor_time().unwrap();
        let mut sum = 0_u64;
        while processor_time().unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(peak_memory().unwrap() > 100_000);
    }
}
