//! The patterns under the faults that they are made for, on embedded deployments
//! and on real servers.

#![allow(missing_docs)]

#[path = "../../../driver/steadfast/tests/common/clock.rs"]
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
#[path = "../../../driver/steadfast/tests/common/sharded_collection.rs"]
mod sharded_collection;
mod zones;
