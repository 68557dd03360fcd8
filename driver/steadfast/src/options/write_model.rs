//! The writes that a bulk write is made of.

mod builder;

use bson::Document;

pub use self::builder::{
    DeleteManyModelBuilder, DeleteOneModelBuilder, Given, InsertOneModelBuilder, Missing,
    ReplaceOneModelBuilder, UpdateManyModelBuilder, UpdateOneModelBuilder,
};
use super::{Collation, Hint, UpdateModifications};
use crate::Namespace;

/// One write of a bulk write: of a [collection](crate::Collection::bulk_write), or of a
/// [client](crate::Client::bulk_write), which needs to know each write's collection, too.
///
/// Each kind has a struct of its own that turns into this, and that takes its options.
///
/// ```
/// use steadfast::{
///     bson::{Document, doc},
///     options::{DeleteManyModel, InsertOneModel, UpdateOneModel, WriteModel},
/// };
///
/// let models: Vec<WriteModel<Document>> = vec![
///     InsertOneModel::new(doc! { "_id": 1 }).into(),
///     UpdateOneModel::new(doc! { "_id": 2 }, doc! { "$inc": { "n": 1 } }).upsert(true).into(),
///     DeleteManyModel::new(doc! { "n": { "$gt": 9 } }).into(),
/// ];
/// # drop(models);
/// ```
///
/// For a client, each says which collection it is about:
///
/// ```
/// use steadfast::{
///     Namespace,
///     bson::doc,
///     options::{DeleteOneModel, InsertOneModel, WriteModel},
/// };
///
/// let books = Namespace::new("library", "books");
/// let models: Vec<WriteModel> = vec![
///     InsertOneModel::new(doc! { "_id": 1 }).namespace(books.clone()).into(),
///     DeleteOneModel::builder().namespace(books).filter(doc! { "_id": 2 }).build().into(),
/// ];
/// # drop(models);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WriteModel<T = Document> {
    /// Inserts a document.
    InsertOne(InsertOneModel<T>),
    /// Updates the first document that matches.
    UpdateOne(UpdateOneModel),
    /// Updates every document that matches.
    UpdateMany(UpdateManyModel),
    /// Replaces the first document that matches.
    ReplaceOne(ReplaceOneModel<T>),
    /// Deletes the first document that matches.
    DeleteOne(DeleteOneModel),
    /// Deletes every document that matches.
    DeleteMany(DeleteManyModel),
}

impl<T> WriteModel<T> {
    /// Which collection it is about, if it says so.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::InsertOne(model) => model.namespace.as_ref(),
            Self::UpdateOne(model) => model.namespace.as_ref(),
            Self::UpdateMany(model) => model.namespace.as_ref(),
            Self::ReplaceOne(model) => model.namespace.as_ref(),
            Self::DeleteOne(model) => model.namespace.as_ref(),
            Self::DeleteMany(model) => model.namespace.as_ref(),
        }
    }
}

/// Declares a model: what it cannot be without and what that is made from, then its options, each
/// with a setter.
macro_rules! model {
    (
        $(#[doc = $doc:expr])+
        $variant:ident, $name:ident $(<$document:ident>)? {
            $( $(#[doc = $required_doc:expr])+ $required:ident : $required_kind:ty = $given:ty ),+ ;
            $( $(#[doc = $field_doc:expr])+ $field:ident : $kind:ty ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name $(<$document = Document>)? {
            /// Which collection it is about. Needed in the bulk write of a client; in that of a
            /// collection it can only be that one.
            pub namespace: Option<Namespace>,
            $( $(#[doc = $required_doc])+ pub $required: $required_kind, )+
            $( $(#[doc = $field_doc])+ pub $field: Option<$kind>, )*
        }

        impl $(<$document>)? $name $(<$document>)? {
            /// The write with none of its options set.
            pub fn new($($required: $given),+) -> Self {
                Self { namespace: None, $($required: $required.into(),)+ $($field: None,)* }
            }

            /// Which collection it is about.
            #[must_use]
            pub fn namespace(mut self, value: impl Into<Option<Namespace>>) -> Self {
                self.namespace = value.into();
                self
            }

            $(
                $(#[doc = $field_doc])+
                #[must_use]
                pub fn $field(mut self, value: impl Into<Option<$kind>>) -> Self {
                    self.$field = value.into();
                    self
                }
            )*
        }

        impl<T> From<model!(@of T $name $(<$document>)?)> for WriteModel<T> {
            fn from(model: model!(@of T $name $(<$document>)?)) -> Self {
                Self::$variant(model)
            }
        }
    };
    (@of $of:ident $name:ident) => { $name };
    (@of $of:ident $name:ident <$document:ident>) => { $name<$of> };
}

model! {
    /// Inserts a document, which gets an `_id` if it has none.
    InsertOne, InsertOneModel<T> {
        /// The document.
        document: T = T;
    }
}

model! {
    /// Updates the first document that matches.
    UpdateOne, UpdateOneModel {
        /// Which document.
        filter: Document = Document,
        /// What to do to it.
        update: UpdateModifications = impl Into<UpdateModifications>;
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// Of several documents that match, the first in this order is updated. On servers from
        /// 8.0 only.
        sort: Document,
    }
}

model! {
    /// Updates every document that matches.
    UpdateMany, UpdateManyModel {
        /// Which documents.
        filter: Document = Document,
        /// What to do to them.
        update: UpdateModifications = impl Into<UpdateModifications>;
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// Whether to insert a document if none matches.
        upsert: bool,
    }
}

model! {
    /// Replaces the first document that matches.
    ReplaceOne, ReplaceOneModel<T> {
        /// Which document.
        filter: Document = Document,
        /// What is there in its place then.
        replacement: T = T;
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// Whether to insert the document if none matches.
        upsert: bool,
        /// Of several documents that match, the first in this order is replaced. On servers from
        /// 8.0 only.
        sort: Document,
    }
}

model! {
    /// Deletes the first document that matches.
    DeleteOne, DeleteOneModel {
        /// Which document.
        filter: Document = Document;
        /// How strings are compared.
        collation: Collation,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
    }
}

model! {
    /// Deletes every document that matches.
    DeleteMany, DeleteManyModel {
        /// Which documents.
        filter: Document = Document;
        /// How strings are compared.
        collation: Collation,
        /// The index to use. On servers from 4.4 only.
        hint: Hint,
    }
}
