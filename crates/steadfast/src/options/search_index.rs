//! How search indexes are handled. None of it has options yet; the structs keep their place.

use super::options;
use crate::action::{CreateSearchIndex, DropSearchIndex, ListSearchIndexes, UpdateSearchIndex};

options! {
    /// How [`create_search_index`](crate::Collection::create_search_index) works.
    pub struct CreateSearchIndexOptions, CreateSearchIndexOptionsBuilder,
        for ['a, M] CreateSearchIndex<'a, M> {}
}

options! {
    /// How [`update_search_index`](crate::Collection::update_search_index) works.
    pub struct UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder,
        for ['a] UpdateSearchIndex<'a> {}
}

options! {
    /// How [`list_search_indexes`](crate::Collection::list_search_indexes) works.
    pub struct ListSearchIndexOptions, ListSearchIndexOptionsBuilder,
        for ['a, S] ListSearchIndexes<'a, S> {}
}

options! {
    /// How [`drop_search_index`](crate::Collection::drop_search_index) works.
    pub struct DropSearchIndexOptions, DropSearchIndexOptionsBuilder,
        for ['a] DropSearchIndex<'a> {}
}
