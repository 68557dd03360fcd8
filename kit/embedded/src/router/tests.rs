//! The catalog by itself: chunks, zones, targets, the balancer. Then clusters of replica sets.

mod cluster;
mod failures;
mod local_writes;
mod moving;
mod pure;
mod storm;
mod two_phase;
mod zones;
