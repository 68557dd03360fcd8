//! Parts that the `steadfast` program, its libraries and the benchmarks share for repeatable runs and readable
//! results: seeded random numbers, quantiles, text tables, and durations and counts as text.
//!
//! The crate has no I/O, no clock and no dependencies.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod duration;
pub mod quantiles;
pub mod random;
pub mod table;
pub mod words;
