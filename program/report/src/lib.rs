//! Parts that the `steadfast` program, its libraries and the benchmarks share for repeatable runs and readable
//! results: seeded random numbers, and durations and counts as text.
//!
//! There is no I/O and no clock in it, and it depends on nothing.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod duration;
pub mod random;
pub mod words;
