//! What the driver tells an application about its inside while it works.

pub mod cmap;
pub mod sdam;
