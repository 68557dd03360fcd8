//! The same program with an allocator that counts. It is apart because counting costs time, and costs
//! most where most is allocated.

use std::{alloc::System, process::ExitCode};

use bench::Allocations;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    bench::main(Some(|| {
        let stats = ALLOCATOR.stats();
        Allocations {
            count: (stats.allocations + stats.reallocations) as u64,
            bytes: stats.bytes_allocated as u64,
            live: stats.bytes_allocated.saturating_sub(stats.bytes_deallocated) as u64,
        }
    }))
}
