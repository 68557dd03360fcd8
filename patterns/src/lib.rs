//! Patterns for MongoDB applications on the driver [`steadfast`], so that each event counts once.
//!
//! The driver's [retryable writes](https://www.mongodb.com/docs/manual/core/retryable-writes/) apply a write at
//! most once, despite a lost reply or a failover. The application handles the rest: an outage that lasts longer than a retry, a server without retryable
//! writes, an operation on many documents, a process that crashes between two steps, a datacenter that is
//! down. This crate has a known solution for each, on the public API of the driver alone.
//!
//! | task | module | principle |
//! |---|---|---|
//! | insert, find, update or delete one document despite any failure | [`idempotent`] | operations whose second execution changes nothing |
//! | check whether an update can be retried | [`idempotent::update`] | a check of operators and filter, without a server |
//! | update or delete many documents despite a lost reply | [`many`] | the same check; counts that are lower bounds |
//! | retry an idempotent operation of the application | [`retry`] | the errors after which a retry at once can succeed |
//! | count each event once, also after crashes | [`counter`] | two idempotent steps, and a sweep that completes them |
//! | keep data in the datacenter that writes it | [`zones`] | zones of a sharded cluster: planned, applied, checked |
//! | write to the nearest datacenter, and to the next if it is down | [`local_writes`] | inserts only; each copy has its own `_id` |
//! | read documents that may exist in two datacenters | [`duplicates`] | a key of the application that copies share |
//!
//! Where a plain call is enough, use it: [`Collection::insert_one`](steadfast::Collection::insert_one) with
//! retryable writes is applied at most once, and [`Error::outcome`](steadfast::error::Error::outcome)
//! reports what became of the write. A pattern costs a second round trip, an `_id` of your own or an exact
//! count.
//!
//! # Errors
//!
//! Most calls return the driver's [`Error`](steadfast::error::Error). After retries, its outcome is the
//! least certain of all attempts. A module whose errors carry more than one outcome has a type of its own,
//! such as [`CounterError`](counter::CounterError) or [`LocalWriteError`](local_writes::LocalWriteError),
//! with the driver's error as its source.
//!
//! # Cancellation
//!
//! Every future can be dropped at any `.await`. Whether a write in progress is applied is then unknown.
//! Repeat the operation to find out: that is what the patterns are for.
//!
//! # Features
//!
//! `tls` and `dns`, both by default, are those of `steadfast`.

pub mod counter;
pub mod duplicates;
mod hello;
pub mod idempotent;
pub mod local_writes;
pub mod many;
mod path;
pub mod retry;
mod setters;
pub mod zones;

/// Programs of the READMEs and of the guides with patterns, compiled.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../../README.md")]
    struct ReadmeOfTheWorkspace;

    #[doc = include_str!("../../docs/resilience.md")]
    struct Resilience;

    #[doc = include_str!("../../docs/local-writes.md")]
    struct LocalWrites;
}
