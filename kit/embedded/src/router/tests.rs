//! Sharded clusters: the catalog alone, then clusters with commands.

mod cluster;
mod failures;
mod local_writes;
mod moving;
mod pure;
mod storm;
mod two_phase;
mod zones;
