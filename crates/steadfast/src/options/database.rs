//! The defaults of a database.

use std::time::Duration;

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::options;

options! {
    /// The defaults of a database; what is not set is as in the client.
    pub struct DatabaseOptions, DatabaseOptionsBuilder {
        /// Which servers reads go to.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// How long a call may take in all, unless the call itself says otherwise. Zero is without
        /// end.
        #[serde(rename = "timeoutMS", with = "crate::options::millis")]
        timeout: Duration,
        /// What reads may see.
        read_concern: ReadConcern,
        /// How durable writes must be.
        write_concern: WriteConcern,
    }
}
