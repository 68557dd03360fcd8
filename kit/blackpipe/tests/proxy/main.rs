//! Tests of the fault proxy between a test client and a fake or real server.
#![allow(missing_docs)]

mod admin;
mod client;
mod cuts;
mod delays;
mod discovery;
mod fake_server;
mod malformed_input;
mod real_servers;
mod shutdown;
