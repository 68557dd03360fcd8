//! The driver on real servers: one program, so that all tests share one replica set.

#![allow(missing_docs)]

mod dropped_futures;
mod reads;
mod secured;
mod tour;
mod writes;
