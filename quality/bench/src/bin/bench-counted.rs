//! The same program with a counting allocator. It is a separate binary because counting takes time for each
//! allocation.

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
