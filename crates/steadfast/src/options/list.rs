//! How databases and collections are listed.

use bson::{Bson, Document};

use super::{TimeoutMode, options};
use crate::action::{ListCollections, ListDatabases};

options! {
    /// How [`list_databases`](crate::Client::list_databases) lists.
    pub struct ListDatabasesOptions, ListDatabasesOptionsBuilder, for ['a, M] ListDatabases<'a, M> {
        /// Whether only databases are listed that the user may see.
        authorized_databases: bool,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Which databases to list.
        filter: Document,
    }
}

options! {
    /// How [`list_collections`](crate::Database::list_collections) lists.
    pub struct ListCollectionsOptions, ListCollectionsOptionsBuilder,
        for ['a, M, S] ListCollections<'a, M, S>
    {
        /// How many come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Which collections to list.
        filter: Document,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Whether only collections are listed that the user may use; for users who may not list
        /// them all.
        authorized_collections: bool,
    }
}
