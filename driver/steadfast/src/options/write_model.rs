//! Write models: the single writes of a bulk write.

mod builder;

use bson::{Array, Bson, Document};
use serde::Serialize;

pub use self::builder::{
    DeleteManyModelBuilder, DeleteOneModelBuilder, Given, InsertOneModelBuilder, Missing,
    ReplaceOneModelBuilder, UpdateManyModelBuilder, UpdateOneModelBuilder,
};
use super::UpdateModifications;
use crate::Namespace;

/// A single write in a bulk write of a [collection](crate::Collection::bulk_write) or a
/// [client](crate::Client::bulk_write). Models for a client must have a namespace.
///
/// Each variant has a struct that converts into it and has setters for its options.
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
/// With namespaces, for a client:
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum WriteModel<T = Document> {
    /// Inserts a document (`insertOne`).
    InsertOne(InsertOneModel<T>),
    /// Updates the first matching document (`updateOne`).
    UpdateOne(UpdateOneModel),
    /// Updates all matching documents (`updateMany`).
    UpdateMany(UpdateManyModel),
    /// Replaces the first matching document (`replaceOne`).
    ReplaceOne(ReplaceOneModel<T>),
    /// Deletes the first matching document (`deleteOne`).
    DeleteOne(DeleteOneModel),
    /// Deletes all matching documents (`deleteMany`).
    DeleteMany(DeleteManyModel),
}

impl<T> WriteModel<T> {
    /// Returns the namespace of the model, if set.
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

/// Declares a model: its required fields with the types that `new` accepts, then its options, each
/// with a setter.
macro_rules! model {
    (
        $(#[doc = $doc:expr])+
        $variant:ident, $name:ident $(<$document:ident>)? {
            $(
                $(#[doc = $required_doc:expr])+
                $(#[serde($($serde:tt)*)])?
                $required:ident : $required_kind:ty = $given:ty
            ),+ ;
            $( $(#[doc = $field_doc:expr])+ $field:ident : $kind:ty ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name $(<$document = Document>)? {
            /// Namespace of the collection (`namespace`). Required for
            /// [`Client::bulk_write`](crate::Client::bulk_write). For a collection, it must be that
            /// of the collection if set.
            #[serde(skip_serializing)]
            pub namespace: Option<Namespace>,
            $(
                $(#[doc = $required_doc])+
                $(#[serde($($serde)*)])?
                pub $required: $required_kind,
            )+
            $(
                $(#[doc = $field_doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$kind>,
            )*
        }

        impl $(<$document>)? $name $(<$document>)? {
            /// Creates the model without options.
            pub fn new($($required: $given),+) -> Self {
                Self { namespace: None, $($required: $required.into(),)+ $($field: None,)* }
            }

            /// Sets the namespace of the collection (`namespace`).
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
    /// Inserts a document (`insertOne`). A document without an `_id` gets a new `ObjectId`.
    ///
    /// ```
    /// use steadfast::{bson::doc, options::InsertOneModel};
    ///
    /// let model = InsertOneModel::new(doc! { "title": "1984" });
    /// ```
    InsertOne, InsertOneModel<T> {
        /// Document to insert (`document`).
        document: T = T;
    }
}

model! {
    /// Updates the first matching document (`updateOne`).
    ///
    /// ```
    /// use steadfast::{bson::doc, options::UpdateOneModel};
    ///
    /// let model = UpdateOneModel::new(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).upsert(true);
    /// ```
    UpdateOne, UpdateOneModel {
        /// Filter that selects the document (`filter`).
        filter: Document = Document,
        /// Update to apply (`updateMods`).
        #[serde(rename = "updateMods")]
        update: UpdateModifications = impl Into<UpdateModifications>;
        /// Filters for array elements (`arrayFilters`): each names the elements that a `$[name]` in
        /// the update modifies. See
        /// [`$[<identifier>]`](https://www.mongodb.com/docs/manual/reference/operator/update/positional-filtered/).
        array_filters: Array,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Bson,
        /// Inserts a document if no document matches (`upsert`) and this is `true`. Defaults to
        /// `false`.
        upsert: bool,
        /// Sort order (`sort`). The first matching document in this order is updated. Requires
        /// MongoDB 8.0 or later.
        sort: Document,
    }
}

model! {
    /// Updates all matching documents (`updateMany`).
    ///
    /// ```
    /// use steadfast::{bson::doc, options::UpdateManyModel};
    ///
    /// let model = UpdateManyModel::new(doc! { "year": 1949 }, doc! { "$set": { "old": true } });
    /// ```
    UpdateMany, UpdateManyModel {
        /// Filter that selects the documents (`filter`).
        filter: Document = Document,
        /// Update to apply (`updateMods`).
        #[serde(rename = "updateMods")]
        update: UpdateModifications = impl Into<UpdateModifications>;
        /// Filters for array elements (`arrayFilters`): each names the elements that a `$[name]` in
        /// the update modifies. See
        /// [`$[<identifier>]`](https://www.mongodb.com/docs/manual/reference/operator/update/positional-filtered/).
        array_filters: Array,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Bson,
        /// Inserts a document if no document matches (`upsert`) and this is `true`. Defaults to
        /// `false`.
        upsert: bool,
    }
}

model! {
    /// Replaces the first matching document (`replaceOne`).
    ///
    /// ```
    /// use steadfast::{bson::doc, options::ReplaceOneModel};
    ///
    /// let model = ReplaceOneModel::new(doc! { "_id": 1 }, doc! { "title": "1984" }).upsert(true);
    /// ```
    ReplaceOne, ReplaceOneModel<T> {
        /// Filter that selects the document (`filter`).
        filter: Document = Document,
        /// Replacement document (`updateMods`).
        #[serde(rename = "updateMods")]
        replacement: T = T;
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Bson,
        /// Inserts the replacement if no document matches (`upsert`) and this is `true`. Defaults
        /// to `false`.
        upsert: bool,
        /// Sort order (`sort`). The first matching document in this order is replaced. Requires
        /// MongoDB 8.0 or later.
        sort: Document,
    }
}

model! {
    /// Deletes the first matching document (`deleteOne`).
    ///
    /// ```
    /// use steadfast::{bson::doc, options::DeleteOneModel};
    ///
    /// let model = DeleteOneModel::new(doc! { "_id": 1 });
    /// ```
    DeleteOne, DeleteOneModel {
        /// Filter that selects the document (`filter`).
        filter: Document = Document;
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Bson,
    }
}

model! {
    /// Deletes all matching documents (`deleteMany`).
    ///
    /// ```
    /// use steadfast::{bson::doc, options::DeleteManyModel};
    ///
    /// let model = DeleteManyModel::new(doc! { "year": { "$lt": 1900 } });
    /// ```
    DeleteMany, DeleteManyModel {
        /// Filter that selects the documents (`filter`).
        filter: Document = Document;
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Bson,
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;
    use crate::options::{Collation, Hint};

    #[test]
    fn models_serialize_without_their_namespace() {
        let namespace = Namespace::new("library", "books");
        let insert: WriteModel = InsertOneModel::builder()
            .namespace(namespace.clone())
            .document(doc! { "_id": 1 })
            .build()
            .into();
        let update: WriteModel = UpdateOneModel::builder()
            .namespace(namespace)
            .filter(doc! { "_id": 1 })
            .update(doc! { "$inc": { "n": 1 } })
            .array_filters(vec![bson!({ "a": 1 })])
            .collation(Collation::builder().locale("en").build())
            .hint(Hint::Name("_id_".to_owned()))
            .upsert(true)
            .build()
            .into();
        let replace: WriteModel = ReplaceOneModel::new(doc! {}, doc! { "n": 1 }).into();
        let delete: WriteModel = DeleteManyModel::new(doc! {}).hint(doc_hint()).into();
        for (model, expected) in [
            (insert, doc! { "document": { "_id": 1 } }),
            (
                update,
                doc! {
                    "filter": { "_id": 1 }, "updateMods": { "$inc": { "n": 1 } },
                    "arrayFilters": [{ "a": 1 }], "collation": { "locale": "en" },
                    "hint": "_id_", "upsert": true,
                },
            ),
            (replace, doc! { "filter": {}, "updateMods": { "n": 1 } }),
            (delete, doc! { "filter": {}, "hint": { "_id": 1 } }),
        ] {
            assert_eq!(bson::serialize_to_document(&model).unwrap(), expected);
        }
    }

    fn doc_hint() -> Bson {
        Bson::Document(doc! { "_id": 1 })
    }
}
