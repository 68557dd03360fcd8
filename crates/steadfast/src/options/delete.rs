//! How documents are deleted.

use bson::{Bson, Document};
use steadfast_core::concern::WriteConcern;

use super::{Collation, Hint, options};
use crate::{
    action::Delete,
    patterns::{idempotent, many},
};

options! {
    /// How [`delete_one`](crate::Collection::delete_one) and
    /// [`delete_many`](crate::Collection::delete_many) delete.
    pub struct DeleteOptions, DeleteOptionsBuilder,
        for ['a] Delete<'a>,
        for [] idempotent::DeleteOne,
        for [] many::DeleteMany
    {
        /// How strings are compared.
        collation: Collation,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
        /// Variables that the filter may use as `$$name`.
        #[serde(rename = "let")]
        let_vars: Document,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}
