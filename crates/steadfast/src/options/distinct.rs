//! How a field's distinct values are found.

use std::time::Duration;

use bson::Bson;
use steadfast_core::{concern::ReadConcern, selection::SelectionCriteria};

use super::{Collation, Hint, options};
use crate::action::Distinct;

options! {
    /// How [`distinct`](crate::Collection::distinct) finds values.
    pub struct DistinctOptions, DistinctOptionsBuilder, for ['a] Distinct<'a> {
        /// How long the server may work on it.
        #[serde(rename = "maxTimeMS", with = "crate::options::millis")]
        max_time: Duration,
        /// Which servers it may go to; by default what the collection says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What may be seen; by default what the collection says.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// How strings are compared.
        collation: Collation,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// The index to use. Servers know it from version 7.1 on.
        hint: Hint,
    }
}
