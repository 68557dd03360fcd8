//! A whole MongoDB deployment inside a test: a standalone server, a replica set or a sharded cluster,
//! on ports of this machine, with its data in memory.
//!
//! It is there in a few milliseconds, any driver of any language connects to it, and whatever happens
//! to deployments happens to it when the test says so: members die, freeze, lose each other, are
//! elected, lag behind, shed load. Nothing is written to disk; when it is dropped, all of it is gone.
//!
//! ```
//! use steadfast_embedded::Deployment;
//!
//! # /// Inserts a document, wherever that is possible, as soon as it is.
//! # fn the_application(uri: &str, id: i32) {
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
//! the_application(&set.uri(), 1);
//!
//! // The primary dies, as by `kill -9`, and another member takes over.
//! set.faults().kill(0);
//! the_application(&set.uri(), 2);
//!
//! // Nothing that must be executed once was executed twice.
//! assert!(set.faults().executions().iter().all(|execution| execution.times == 1));
//! ```
//!
//! # What it is, and what it is not
//!
//! Servers that speak MongoDB's wire protocol and understand its commands, its query language, its
//! sessions, transactions and elections. What is not known is refused with the error that a server
//! has for it, and never pretended. How members come to agree is simplified: they share a process,
//! and what one writes the others have at once, unless the test [holds them](Faults::hold_replication)
//! or [slows them down](Faults::replication_latency). It is for tests; it keeps no data.
//!
//! Fail points are on: `configureFailPoint` works as on a server that was started with test commands
//! enabled. [`Faults::fail_point`] sets them without a client.
//!
//! # Sharded clusters
//!
//! [`Deployment::sharded`] starts shards and routers before them. Zones, `shardCollection`, `split`,
//! `moveChunk` and the database `config` are what they are on a real cluster, and so is what routers
//! do with writes: those to a document without its shard key, those that change it, those whose chunk
//! moved before they were repeated, and transactions over several shards. Chunks move on their own as
//! soon as zones say so, [unless it is told otherwise](Builder::without_balancer);
//! [`Deployment::balance`] has them moved when it returns.
//!
//! Simplified is how this comes about: routers share one catalog, so none is ever behind, and what
//! happens on several shards happens at one moment. Refused are shards that come and go, resharding,
//! renaming a sharded collection, `$out` and `$merge` into one, and change streams through routers.
//!
//! # Where it runs
//!
//! In an asynchronous test its tasks run in the test's own runtime, so that a clock which the test has
//! paused is the deployment's as well: an election that is due in ten seconds takes none. Without a
//! runtime, or if [it is told so](Builder::in_thread), it has a thread of its own.
//!
//! There is nothing to sleep for: [`Deployment::until_primary`] and [`Deployment::until_replicated`]
//! wait for what happens.
//!
//! # By chance
//!
//! All that happens by chance comes from a [seed](Builder::seed), which is the same each time unless a
//! test chooses another.

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
pub(crate) mod era;
mod fail_point;
mod faults;
mod host;
mod limiter;
pub(crate) mod log;
pub(crate) mod namespace;
mod net;
pub(crate) mod node;
mod parameters;
pub(crate) mod router;
mod search;
mod server;
pub(crate) mod session;
pub(crate) mod set;
mod sharding;
pub(crate) mod store;
mod stream;
pub(crate) mod transaction;
pub(crate) mod ttl;

pub use self::{
    builder::{Builder, StartError},
    deployment::{Deployment, Member, Shard},
    faults::{Execution, Faults, Refused},
    sharding::{Chunk, ZoneRange},
};
