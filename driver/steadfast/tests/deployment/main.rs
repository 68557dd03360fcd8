//! Tests of the driver on real servers. They are one program, so that all share one replica set.

#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/every_action.rs"]
mod every_action;

mod change_streams;
mod dropped_futures;
mod gridfs;
mod outcomes;
mod prose;
mod rate_limiters;
mod reads;
mod sessions;
mod sharded;
#[path = "../common/sharded_collection.rs"]
mod sharded_collection;
mod tls_and_auth;
mod tour;
mod transactions;
mod writes;

/// Lock of the fail point of commands on the shared replica set: a server has only one for all clients.
static FAIL_POINT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
