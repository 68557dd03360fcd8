//! How documents are inserted.

use bson::Bson;
use steadfast_core::concern::WriteConcern;

use super::options;
use crate::{
    action::{InsertMany, InsertOne},
    patterns::idempotent,
};

options! {
    /// How [`insert_one`](crate::Collection::insert_one) inserts.
    pub struct InsertOneOptions, InsertOneOptionsBuilder,
        for ['a] InsertOne<'a>,
        for [] idempotent::InsertOne,
        for [] idempotent::InsertMany
    {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// How durable the write must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}

options! {
    /// How [`insert_many`](crate::Collection::insert_many) inserts.
    pub struct InsertManyOptions, InsertManyOptionsBuilder, for ['a] InsertMany<'a> {
        /// Whether the collection's validator is passed over.
        bypass_document_validation: bool,
        /// Whether to stop at the first document that is refused, which is the default, or to go on
        /// with the others.
        ordered: bool,
        /// How durable the writes must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
    }
}
