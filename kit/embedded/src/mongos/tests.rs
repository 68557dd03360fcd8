//! Sharded clusters: the catalog alone, then clusters with commands.

mod catalog;
mod chunk_migrations;
mod cluster;
mod concurrent_faults;
mod local_writes;
mod shard_failovers;
mod two_phase;
mod zones;
