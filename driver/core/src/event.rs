//! Events of connection pools (CMAP) and of server discovery and monitoring (SDAM).

pub mod cmap;
pub mod sdam;
