//! Tests of the patterns under faults, on embedded deployments and on real servers.

#![allow(missing_docs)]

#[path = "../../../driver/steadfast/tests/common/clock.rs"]
#[allow(unreachable_pub)]
mod clock;
mod counter;
mod counter_stress;
mod duplicates;
mod idempotent;
mod local_writes;
mod local_writes_stress;
mod many;
mod rng;
#[path = "../../../driver/steadfast/tests/common/sharded_collection.rs"]
mod sharded_collection;
mod zones;
