//! How databases and collections are dropped.

use steadfast_core::concern::WriteConcern;

use super::options;
use crate::action::{DropCollection, DropDatabase};

options! {
    /// How a collection is [dropped](crate::Collection::drop).
    pub struct DropCollectionOptions, DropCollectionOptionsBuilder, for ['a] DropCollection<'a> {
        /// How durable it must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}

options! {
    /// How a database is [dropped](crate::Database::drop).
    pub struct DropDatabaseOptions, DropDatabaseOptionsBuilder, for ['a] DropDatabase<'a> {
        /// How durable it must be; by default what the database says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}
