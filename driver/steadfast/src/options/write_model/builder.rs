//! Builders of write models. The type of a builder states which required fields are set: `build`
//! exists only once all of them are.

use std::marker::PhantomData;

use bson::{Array, Bson, Document};

use super::{
    DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
    UpdateOneModel,
};
use crate::{Namespace, options::UpdateModifications};

/// Type state of a builder: the required field is set.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Given;

/// Type state of a builder: the required field is not set yet.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Missing;

/// Declares a builder: the required fields, each with the type state that its setter leads to, then
/// the options.
macro_rules! builder {
    (
        $model:ident, $builder:ident, $parts:ident [$($state:ident),+] {
            $( $(#[doc = $required_doc:expr])+ $required:ident : $required_kind:ty => [$($after:ty),+] ),+ ;
            $( $(#[doc = $field_doc:expr])+ $field:ident : $kind:ty ),* $(,)?
        }
    ) => {
        #[derive(Clone, Debug, Default)]
        struct $parts {
            $( $required: Option<$required_kind>, )+
            $( $field: Option<$kind>, )*
        }

        #[doc = concat!("Builder for [`", stringify!($model), "`].")]
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $builder<$($state),+> {
            parts: $parts,
            state: PhantomData<fn() -> ($($state,)+)>,
        }

        impl $model {
            #[doc = concat!("Returns a builder for [`", stringify!($model), "`].")]
            pub fn builder() -> $builder<$(builder!(@missing $state)),+> {
                $builder { parts: $parts::default(), state: PhantomData }
            }
        }

        impl<$($state),+> $builder<$($state),+> {
            $(
                $(#[doc = $required_doc])+
                pub fn $required(
                    mut self,
                    value: impl Into<$required_kind>,
                ) -> $builder<$($after),+> {
                    self.parts.$required = Some(value.into());
                    $builder { parts: self.parts, state: PhantomData }
                }
            )+

            $(
                $(#[doc = $field_doc])+
                pub fn $field(mut self, value: impl Into<Option<$kind>>) -> Self {
                    self.parts.$field = value.into();
                    self
                }
            )*
        }
    };
    (@missing $state:ident) => { Missing };
}

builder! {
    InsertOneModel, InsertOneModelBuilder, InsertOneParts [N, D] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, D],
        /// Sets the document to insert (`document`). Required.
        document: Document => [N, Given];
    }
}

builder! {
    UpdateOneModel, UpdateOneModelBuilder, UpdateOneParts [N, F, U] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, F, U],
        /// Sets the filter that selects the document (`filter`). Required.
        filter: Document => [N, Given, U],
        /// Sets the update to apply (`update`). Required.
        update: UpdateModifications => [N, F, Given];
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

builder! {
    UpdateManyModel, UpdateManyModelBuilder, UpdateManyParts [N, F, U] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, F, U],
        /// Sets the filter that selects the documents (`filter`). Required.
        filter: Document => [N, Given, U],
        /// Sets the update to apply (`update`). Required.
        update: UpdateModifications => [N, F, Given];
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

builder! {
    ReplaceOneModel, ReplaceOneModelBuilder, ReplaceOneParts [N, F, R] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, F, R],
        /// Sets the filter that selects the document (`filter`). Required.
        filter: Document => [N, Given, R],
        /// Sets the replacement document (`replacement`). Required.
        replacement: Document => [N, F, Given];
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

builder! {
    DeleteOneModel, DeleteOneModelBuilder, DeleteOneParts [N, F] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, F],
        /// Sets the filter that selects the document (`filter`). Required.
        filter: Document => [N, Given];
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Bson,
    }
}

builder! {
    DeleteManyModel, DeleteManyModelBuilder, DeleteManyParts [N, F] {
        /// Sets the namespace of the collection (`namespace`). Required.
        namespace: Namespace => [Given, F],
        /// Sets the filter that selects the documents (`filter`). Required.
        filter: Document => [N, Given];
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Document,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Bson,
    }
}

/// Implements `build` for the builder whose required fields are all set.
macro_rules! build {
    ($($builder:ty => $model:ident { $($required:ident),+ ; $($field:ident),* })+) => {
        $(
            impl $builder {
                /// Returns the model.
                pub fn build(self) -> $model {
                    let parts = self.parts;
                    $model {
                        namespace: parts.namespace,
                        $( $required: parts.$required.expect("the type state requires it"), )+
                        $( $field: parts.$field, )*
                    }
                }
            }
        )+
    };
}

build! {
    InsertOneModelBuilder<Given, Given> => InsertOneModel { document; }
    UpdateOneModelBuilder<Given, Given, Given> => UpdateOneModel {
        filter, update; array_filters, collation, hint, upsert, sort
    }
    UpdateManyModelBuilder<Given, Given, Given> => UpdateManyModel {
        filter, update; array_filters, collation, hint, upsert
    }
    ReplaceOneModelBuilder<Given, Given, Given> => ReplaceOneModel {
        filter, replacement; collation, hint, upsert, sort
    }
    DeleteOneModelBuilder<Given, Given> => DeleteOneModel { filter; collation, hint }
    DeleteManyModelBuilder<Given, Given> => DeleteManyModel { filter; collation, hint }
}
