//! The names of a counter's fields.

use crate::{
    error::{Error, Result},
    patterns::path::overlaps,
};

/// The names of a counter's fields; by default `counter`, `pending` and `done`.
///
/// A name with dots is a place further down: `stats.counter`.
///
/// ```
/// use steadfast::patterns::counter::Fields;
///
/// let mut fields = Fields::default();
/// fields.counter = "visits".to_owned();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fields {
    /// What is counted: a number.
    pub counter: String,
    /// The tokens that are yet to be counted: an array.
    pub pending: String,
    /// The tombstones, while there are any: an array.
    pub done: String,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            counter: "counter".to_owned(),
            pending: "pending".to_owned(),
            done: "done".to_owned(),
        }
    }
}

impl Fields {
    /// Refuses names that are none, and names that get into each other's way.
    pub(super) fn check(&self) -> Result<()> {
        let names = [&self.counter, &self.pending, &self.done];
        for name in names {
            let is_name = |part: &str| {
                !part.is_empty()
                    && !part.starts_with('$')
                    && !part.contains('\0')
                    && part.parse::<u32>().is_err()
            };
            if !name.split('.').all(is_name) || name.split('.').next() == Some("_id") {
                return Err(Error::invalid_argument(format!(
                    "a counter's field cannot be named {name:?}"
                )));
            }
        }
        for (one, another) in [(0, 1), (0, 2), (1, 2)] {
            let (one, another) = (names[one], names[another]);
            if overlaps(one, another) {
                return Err(Error::invalid_argument(format!(
                    "a counter's fields {one:?} and {another:?} are in each other's way"
                )));
            }
        }
        Ok(())
    }
}
