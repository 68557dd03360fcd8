//! MongoDB deployments in memory for tests: a standalone server, a replica set or a sharded cluster
//! on ports of the loopback interface.
//!
//! A deployment starts in a few milliseconds and accepts connections of any driver in any language.
//! The test injects faults: members crash, freeze, are partitioned, step down, lag or shed load.
//! Nothing is written to disk. Dropping the deployment discards its data.
//!
//! ```
//! use steadfast_embedded::Deployment;
//!
//! # /// Inserts a document through the first server that accepts the write.
//! # fn insert(uri: &str, id: i32) {
//! #     use std::{io::{Read, Write}, net::TcpStream};
//! #     let command = bson::rawdoc! { "insert": "things", "documents": [{ "_id": id }], "$db": "db" };
//! #     let command = steadfast_wire::DocumentBytes::try_from(command).unwrap();
//! #     let mut bytes = Vec::new();
//! #     steadfast_wire::OpMsg::new(command).encode(1, 0, &mut bytes).unwrap();
//! #     let hosts = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
//! #     for host in hosts.split(',').cycle() {
//! #         let Ok(mut stream) = TcpStream::connect(host) else { continue };
//! #         stream.write_all(&bytes).unwrap();
//! #         let mut reply = vec![0; 4000];
//! #         let length = stream.read(&mut reply).unwrap_or(0);
//! #         reply.truncate(length);
//! #         let reply = blackpipe_base::message::reply_document(reply.into()).unwrap().0;
//! #         if reply.get_f64("ok").unwrap() == 1.0 { return; }
//! #     }
//! # }
//! let set = Deployment::replica_set(3).start();
//! insert(&set.uri(), 1);
//!
//! // The primary is killed, as by `kill -9`, and another member is elected.
//! set.faults().kill(0);
//! insert(&set.uri(), 2);
//!
//! // No retryable write was executed twice.
//! assert!(set.faults().executions().iter().all(|execution| execution.count == 1));
//! ```
//!
//! # Scope
//!
//! Servers speak MongoDB's wire protocol and implement its commands, query language, sessions,
//! transactions and elections. Unsupported commands and options are rejected with the error of a
//! server, never ignored. Replication is simplified: members share a process and replicate each
//! write at once, unless the test [holds](Faults::hold_replication) or
//! [delays](Faults::replication_latency) it. The deployment is for tests and keeps no data.
//!
//! Test commands are enabled, so clients can use `configureFailPoint`.
//! [`Faults::configure_fail_point`] does the same without a client.
//!
//! # Sharded clusters
//!
//! [`Deployment::sharded`] starts shards and mongos. Zones, `shardCollection`, `split`, `moveChunk`
//! and the database `config` work as on a real cluster. So do writes without the shard key, updates
//! of the shard key, retries after a chunk migration, and transactions over several shards. The
//! balancer moves chunks as soon as zones require it, [unless it is
//! off](Builder::without_balancer). [`Deployment::balance`] moves all such chunks before it
//! returns.
//!
//! The implementation is simplified: all mongos share one catalog, so none is ever stale, and
//! changes on several shards happen at one moment. Adding and removing shards, resharding, renaming
//! a sharded collection, and `$out` or `$merge` into one are rejected.
//!
//! # Runtime
//!
//! In an asynchronous test the tasks of the deployment run in the test's runtime. A clock that the
//! test has paused is also the deployment's clock: an election that is due in ten seconds takes no
//! real time. Without a runtime, or with [`Builder::in_thread`], the deployment runs in a thread of
//! its own.
//!
//! Tests need no sleeps: [`Deployment::wait_for_primary`] and [`Deployment::wait_for_replication`]
//! wait for the event.
//!
//! # Random decisions
//!
//! All random decisions come from a [seed](Builder::seed), which is the same in each run unless the
//! test sets another.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod auth;
mod builder;
pub(crate) mod call;
pub(crate) mod change;
pub(crate) mod clock;
mod codes;
pub(crate) mod command;
pub(crate) mod cursor;
mod deployment;
mod fail_point;
mod faults;
mod host;
mod limiter;
pub(crate) mod mongos;
pub(crate) mod namespace;
mod net;
pub(crate) mod node;
pub(crate) mod oplog;
mod parameters;
mod search_indexes;
mod server;
pub(crate) mod session;
pub(crate) mod set;
mod sharding;
pub(crate) mod store;
mod stream;
pub(crate) mod transaction;
pub(crate) mod ttl;
pub(crate) mod version_gate;

pub use self::{
    builder::{Builder, StartError},
    deployment::{Deployment, Member, Shard},
    faults::{DeploymentError, Execution, Faults},
    sharding::{Chunk, ZoneRange},
};
