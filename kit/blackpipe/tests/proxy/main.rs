//! The fault proxy, seen from both of its ends: a client of the test's own before it, and a server
//! of the test's own, or a real one, behind it.
#![allow(missing_docs)]

mod admin;
mod bad_clients;
mod client;
mod cuts;
mod discovery;
mod ending;
mod real_servers;
mod slowness;
mod upstream;
