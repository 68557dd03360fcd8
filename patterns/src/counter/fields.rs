//! Names of a counter's fields.

use crate::path::overlaps;
use steadfast::error::{Error, Result};

/// Names of a counter's fields. Default to `counter`, `pending` and `done`.
///
/// A name with dots is a path: `stats.counter`.
///
/// ```
/// use steadfast_patterns::counter::Fields;
///
/// let mut fields = Fields::default();
/// fields.counter = "visits".to_owned();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fields {
    /// Field of the count, a number.
    pub counter: String,
    /// Field of the pending tokens, an array.
    pub pending: String,
    /// Field of the tombstones, an array; missing if there are none.
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
    /// Rejects invalid names, and names of which one contains another.
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
                    "a counter's fields {one:?} and {another:?} overlap"
                )));
            }
        }
        Ok(())
    }
}
