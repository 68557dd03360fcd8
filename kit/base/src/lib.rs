//! Shared parts of MongoDB test servers.
//!
//! `blackpipe` (scripted server, fault proxy) and `steadfast-embedded` (replica sets and sharded
//! clusters in memory) are built on it:
//!
//! - [`message`]: whole messages on a socket, requests and replies.
//! - [`codes`]: server error codes, their names and their labels.
//! - [`number`]: numbers in commands, of any BSON type.
//! - [`address`]: addresses that stay reserved while a server is down.
//! - [`runtime`]: runtime or thread of a server's tasks.
//! - [`rng`]: random numbers from a seed.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod address;
pub mod codes;
pub mod message;
pub mod number;
pub mod rng;
pub mod runtime;
