//! What MongoDB's query language means: how values compare, which documents a filter matches, what an
//! update makes of a document, what a pipeline makes of many.
//!
//! Nothing here does I/O, reads a clock or rolls a die: what depends on them comes in an
//! [`Environment`]. What is not known is refused with the [`Fault`] that a server would answer with.
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
