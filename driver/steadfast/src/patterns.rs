//! Patterns: what an application does itself, so that each of its events counts once.
//!
//! The driver's retryable writes see to it that a write is applied at most once, however often it is sent,
//! and that one lost reply or one failover goes unnoticed. What is left is for the application: an outage
//! that outlasts a retry, a server without retryable writes, an operation on many documents, a program that
//! dies between two steps, a datacenter that is gone. For each there is a known way, and these are they.
//!
//! | you want to | take | it rests on |
//! |---|---|---|
//! | know how your code should react to errors at all | [`strategy`] | a table: which strategy over- or undercounts when |
//! | insert, find, update or delete one document, through whatever happens | [`idempotent`] | operations that do no more when they are sent again |
//! | know whether an update can be sent again | [`idempotent::update`] | a check of its operators and its filter, without a server |
//! | update or delete many documents, through a lost reply | [`many`] | the same check; counts that say *at least* |
//! | count events, each once, through crashes | [`counter`] | two steps, each idempotent, and a sweep that finishes what was left |
//! | place data in the datacenter where it is written | [`zones`] | a sharded cluster's zones: planned, applied, checked |
//! | write to the nearest datacenter, and to the next if it is down | [`local_writes`] | inserts only, each copy with its own `_id` |
//! | read what was perhaps written in two datacenters | [`duplicates`] | a key of your own, by which copies are told |
//!
//! If a plain call will do, make that: [`Collection::insert_one`](crate::Collection::insert_one) with
//! retryable writes is once already, and an error's [`outcome`](crate::error::Error::outcome) says what became
//! of the write. A pattern is worth its price (a second round trip, an `_id` of your own, a count that is a
//! least) where that is not enough.
//!
//! # Sending again
//!
//! The patterns send an operation again only after a failure that may pass by itself: the network broke, or
//! the server was stopping or losing its office. Not after a refusal, which would be repeated; not after a
//! search for a server that found none; not after the call's time (`timeout`) is over; and not to a server
//! that sheds load: that is for the driver, which does it with pauses and within a budget.

mod again;
pub mod counter;
pub mod duplicates;
mod hello;
pub mod idempotent;
pub mod local_writes;
pub mod many;
mod path;
pub mod strategy;
pub mod zones;
