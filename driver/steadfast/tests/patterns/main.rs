//! The patterns of `steadfast::patterns` under the faults that they are made for, on embedded deployments
//! and on real servers.

#![allow(missing_docs)]

#[path = "../common/clock.rs"]
#[allow(unreachable_pub)]
mod clock;
mod counters;
mod counting;
mod dice;
mod distinct_reads;
mod idempotent;
mod local_writes;
mod local_writing;
mod many;
#[path = "../common/sharded_collection.rs"]
mod sharded_collection;
mod strategies;
mod zones;
