//! Setters of the actions of this crate, for the options of the driver's actions that they take.

/// Adds `with_options` and a setter for each field to actions with a field `options: Option<$options>`.
macro_rules! setters {
    ($options:ident { $($field:ident: $kind:ty),* $(,)? } for $([$($generics:tt)*] $action:ty),+ $(,)?) => {
        setters!(@each $options { $($field: $kind,)* } $(([$($generics)*] $action))+);
    };
    (@each $options:ident $fields:tt) => {};
    (@each $options:ident $fields:tt ([$($generics:tt)*] $action:ty) $($rest:tt)*) => {
        setters!(@one $options $fields [$($generics)*] $action);
        setters!(@each $options $fields $($rest)*);
    };
    (@one $options:ident { $($field:ident: $kind:ty,)* } [$($generics:tt)*] $action:ty) => {
        impl<$($generics)*> $action {
            #[doc = concat!(
                "Sets all options of [`", stringify!($options), "`](steadfast::options::", stringify!($options), ")."
            )]
            pub fn with_options(
                mut self,
                options: impl Into<Option<steadfast::options::$options>>,
            ) -> Self {
                self.options = options.into();
                self
            }

            $(
                #[doc = concat!(
                    "Sets [`", stringify!($field), "`](steadfast::options::", stringify!($options), "::",
                    stringify!($field), ")."
                )]
                pub fn $field(mut self, value: $kind) -> Self {
                    self.options.get_or_insert_default().$field = Some(value);
                    self
                }
            )*
        }
    };
}

use std::time::Duration;

use bson::{Bson, Document};
use serde::de::DeserializeOwned;
use steadfast::options::{Collation, Hint, ReadConcern, SelectionCriteria, WriteConcern};

use crate::{
    idempotent::{DeleteOne, FindOne, InsertMany, InsertOne, UpdateOne},
    many::{DeleteMany, UpdateMany},
};

setters!(InsertOneOptions {
    timeout: Duration,
    bypass_document_validation: bool,
    write_concern: WriteConcern,
    comment: Bson,
} for [] InsertOne, [] InsertMany);

setters!(UpdateOptions {
    timeout: Duration,
    array_filters: Vec<Document>,
    bypass_document_validation: bool,
    upsert: bool,
    collation: Collation,
    hint: Hint,
    write_concern: WriteConcern,
    let_vars: Document,
    comment: Bson,
    sort: Document,
} for [] UpdateOne, [] UpdateMany);

setters!(DeleteOptions {
    timeout: Duration,
    collation: Collation,
    write_concern: WriteConcern,
    hint: Hint,
    let_vars: Document,
    comment: Bson,
} for [] DeleteOne, [] DeleteMany);

setters!(FindOneOptions {
    timeout: Duration,
    allow_partial_results: bool,
    collation: Collation,
    comment: Bson,
    hint: Hint,
    max: Document,
    max_time: Duration,
    min: Document,
    projection: Document,
    read_concern: ReadConcern,
    return_key: bool,
    selection_criteria: SelectionCriteria,
    show_record_id: bool,
    skip: u64,
    sort: Document,
    let_vars: Document,
} for [T: DeserializeOwned + Send + Sync] FindOne<T>);
