//! The defaults of a collection.

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::options;

options! {
    /// The defaults of a collection; what is not set is as in its database.
    pub struct CollectionOptions, CollectionOptionsBuilder {
        /// Which servers reads go to.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What reads may see.
        read_concern: ReadConcern,
        /// How durable writes must be.
        write_concern: WriteConcern,
    }
}
