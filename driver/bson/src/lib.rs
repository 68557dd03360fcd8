//! API of `bson` 3 on either version of the crate `bson`, so that the crates of Steadfast compile with both.
//!
//! The feature `bson-3` re-exports `bson` 3. The feature `bson-2` re-exports `bson` 2 and adds the names and
//! signatures of `bson` 3 that the crates of Steadfast use. `bson` 3 is used if both features are on. A build has one
//! version. Code for one version only is inside of [`only_bson_2`] or [`only_bson_3`], not behind a `cfg` of the crate
//! that uses it: another crate of the build may have selected the version.
//!
//! ```
//! use steadfast_bson::{Document, doc, error::Result, to_raw_document};
//!
//! fn size(document: &Document) -> Result<usize> {
//!     Ok(to_raw_document(document)?.as_bytes().len())
//! }
//!
//! assert_eq!(size(&doc! {})?, 5);
//! # Ok::<(), steadfast_bson::error::Error>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

#[cfg(not(any(feature = "bson-2", feature = "bson-3")))]
compile_error!(
    "no version of the crate `bson` is selected: add the feature \"bson-3\" (for `bson` 3) or \"bson-2\" (for `bson` \
     2) to the dependency on `steadfast`; \"bson-3\" is on by default"
);

#[cfg(all(feature = "bson-2", not(feature = "bson-3")))]
mod bson_2;
#[cfg(feature = "bson-3")]
mod bson_3;

#[cfg(all(feature = "bson-2", not(feature = "bson-3")))]
pub use bson_2::*;
#[cfg(feature = "bson-3")]
pub use bson_3::*;

/// Conversion of a key, whose type depends on the version, to `&str`.
pub trait ToStr {
    /// Returns the text.
    fn to_str(&self) -> &str;
}
