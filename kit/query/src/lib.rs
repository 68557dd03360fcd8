//! MongoDB's query language without a server: comparison, filters, updates, expressions,
//! aggregation pipelines, index keys.
//!
//! The crate does no I/O, reads no clock and uses no randomness; such inputs are in an
//! [`Environment`]. Unsupported and invalid input fails with a [`Fault`], the command error of a
//! server.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod collation;
pub mod environment;
pub mod expression;
pub mod fault;
pub mod filter;
pub mod index;
pub mod path;
pub mod pipeline;
pub mod projection;
pub mod sort;
mod text;
pub mod update;

pub use collation::Collation;
pub use environment::{Dialect, Environment};
pub use expression::Expression;
pub use fault::{Code, Fault};
pub use filter::Filter;
pub use index::Index;
pub use pipeline::{Collections, Pipeline};
pub use projection::Projection;
pub use sort::Sort;
pub use steadfast_value as value;
pub use update::Update;
