//! The writes of a client's bulk write, put together piece by piece: what one cannot be without must
//! be given before it can be built, or it does not compile.

use std::marker::PhantomData;

use bson::Document;

use super::{
    DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
    UpdateOneModel,
};
use crate::{
    Namespace,
    options::{Collation, Hint, UpdateModifications},
};

/// Marks what a write cannot be without and was given.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Given;

/// Marks what a write cannot be without and was not given yet.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Missing;

/// Declares a builder: what must be given, each with the state it leads to, and what may be.
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

        #[doc = concat!("Builds [`", stringify!($model), "`].")]
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $builder<$($state),+> {
            parts: $parts,
            state: PhantomData<fn() -> ($($state,)+)>,
        }

        impl $model {
            #[doc = concat!("Begins to build [`", stringify!($model), "`].")]
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
        /// Which collection it is about.
        namespace: Namespace => [Given, D],
        /// The document.
        document: Document => [N, Given];
    }
}

builder! {
    UpdateOneModel, UpdateOneModelBuilder, UpdateOneParts [N, F, U] {
        /// Which collection it is about.
        namespace: Namespace => [Given, F, U],
        /// Which document.
        filter: Document => [N, Given, U],
        /// What to do to it.
        update: UpdateModifications => [N, F, Given];
        /// Which elements of arrays `$[name]` stands for.
        array_filters: Vec<Document>,
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// Whether to insert a document if none matches.
        upsert: bool,
        /// Of several documents that match, the first in this order is updated.
        sort: Document,
    }
}

builder! {
    UpdateManyModel, UpdateManyModelBuilder, UpdateManyParts [N, F, U] {
        /// Which collection it is about.
        namespace: Namespace => [Given, F, U],
        /// Which documents.
        filter: Document => [N, Given, U],
        /// What to do to them.
        update: UpdateModifications => [N, F, Given];
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

builder! {
    ReplaceOneModel, ReplaceOneModelBuilder, ReplaceOneParts [N, F, R] {
        /// Which collection it is about.
        namespace: Namespace => [Given, F, R],
        /// Which document.
        filter: Document => [N, Given, R],
        /// What is there in its place then.
        replacement: Document => [N, F, Given];
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
        /// Whether to insert the document if none matches.
        upsert: bool,
        /// Of several documents that match, the first in this order is replaced.
        sort: Document,
    }
}

builder! {
    DeleteOneModel, DeleteOneModelBuilder, DeleteOneParts [N, F] {
        /// Which collection it is about.
        namespace: Namespace => [Given, F],
        /// Which document.
        filter: Document => [N, Given];
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
    }
}

builder! {
    DeleteManyModel, DeleteManyModelBuilder, DeleteManyParts [N, F] {
        /// Which collection it is about.
        namespace: Namespace => [Given, F],
        /// Which documents.
        filter: Document => [N, Given];
        /// How strings are compared.
        collation: Collation,
        /// The index to use.
        hint: Hint,
    }
}

/// Gives a builder its end: the model, of what was given.
macro_rules! build {
    ($($builder:ty => $model:ident { $($required:ident),+ ; $($field:ident),* })+) => {
        $(
            impl $builder {
                /// The write as it was put together.
                pub fn build(self) -> $model {
                    let parts = self.parts;
                    $model {
                        namespace: parts.namespace,
                        $( $required: parts.$required.expect("its state says that it was given"), )+
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
