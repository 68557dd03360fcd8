//! Actions: builders that are awaited. Methods of [`Client`](crate::Client),
//! [`Database`](crate::Database) and [`Collection`](crate::Collection) return them.

/// Implements `IntoFuture` and [`Action`]: `.await` runs `execute` of the action. With the feature `sync`, adds the
/// method `run`, which blocks.
///
/// An action whose output has another type in the blocking API names it: `=> Cursor<T>, sync crate::blocking::Cursor<T>`.
/// That type has a function `new`.
macro_rules! awaitable {
    ([$($generics:tt)*] $action:ty => $output:ty) => {
        awaitable!(@future [$($generics)*] $action => $output);
        awaitable!(@run [$($generics)*] $action => $output, Ok);
    };
    ([$($generics:tt)*] $action:ty => $output:ty, sync $sync:ty) => {
        awaitable!(@future [$($generics)*] $action => $output);
        awaitable!(@run [$($generics)*] $action => $sync, |output| Ok(<$sync>::new(output)));
    };
    (@future [$($generics:tt)*] $action:ty => $output:ty) => {
        impl<$($generics)*> std::future::IntoFuture for $action {
            type Output = $crate::error::Result<$output>;
            type IntoFuture = $crate::actions::ActionFuture<'a, $output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.execute())
            }
        }

        impl<$($generics)*> $crate::actions::sealed::Sealed for $action {}
        impl<$($generics)*> $crate::actions::Action for $action {}
    };
    (@run [$($generics:tt)*] $action:ty => $output:ty, $convert:expr) => {
        #[cfg(feature = "sync")]
        impl<$($generics)*> $action {
            /// Runs the action and blocks the thread until its result is there. See
            /// [`sync`](crate::sync#blocking), also for the error in a task of a current-thread runtime.
            pub fn run(self) -> $crate::error::Result<$output> {
                $crate::runtime::block_on(self.execute())?.and_then($convert)
            }
        }
    };
}

/// Implements the setter `session`, which runs an action in an explicit session.
///
/// An action with a plain result has a field `session: Option<&'a mut ClientSession>`. An action
/// that returns a cursor changes its type, because that cursor must be read with the session: it
/// has a field `session: S`, and the macro lists its other fields.
macro_rules! takes_session {
    ([$($generics:tt)*] $action:ty) => {
        impl<$($generics)*> $action {
            /// Runs the operation in this session. It must belong to the same client.
            pub fn session(
                mut self,
                value: impl Into<&'a mut $crate::ClientSession>,
            ) -> Self {
                self.session = Some(value.into());
                self
            }
        }
    };
    ([$($generics:tt)*] $action:ident { $($field:ident),* }: $from:ty => $to:ty) => {
        impl<$($generics)*> $from {
            /// Runs the operation in this session. It must belong to the same client. A returned cursor is a
            /// [`SessionCursor`](crate::SessionCursor), read with the same session.
            pub fn session(
                self,
                value: impl Into<&'a mut $crate::ClientSession>,
            ) -> $to {
                let session = $crate::actions::ExplicitSession::new(value.into());
                $action { $($field: self.$field,)* session }
            }
        }
    };
}

/// Operation that can be configured by its setters and is then awaited, or run if the feature `sync` is enabled.
///
/// The trait is sealed: only actions of this crate implement it.
pub trait Action: IntoFuture + sealed::Sealed {
    /// Calls `f` with the action and the value, if there is one. For options that are set only under a condition.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{action::Action, bson::doc};
    ///
    /// let limit = std::env::args().nth(1).and_then(|limit| limit.parse::<i64>().ok());
    /// let cursor = books.find(doc! {}).optional(limit, |find, limit| find.limit(limit)).await?;
    /// # Ok(()) }
    /// ```
    fn optional<V>(self, value: Option<V>, f: impl FnOnce(Self, V) -> Self) -> Self
    where
        Self: Sized,
    {
        match value {
            Some(value) => f(self, value),
            None => self,
        }
    }
}

/// Closes [`Action`] for types of other crates.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Implements [`Action`] for types of lower layers.
macro_rules! actions_below {
    ($($action:ty),*) => {
        $(
            impl sealed::Sealed for $action {}
            impl Action for $action {}
        )*
    };
}

actions_below!(crate::options::ParseClientOptions, Shutdown, WarmConnectionPool<'_>);

/// Implements `batch` for an action with a cursor, with the method `open_batches` of the action:
/// once for an implicit session, and once for an explicit one.
macro_rules! returns_batches {
    ([$($generics:tt)*] $action:ty, $action_in_session:ty) => {
        returns_batches! { @of [$($generics)*] $action => $crate::raw_batch_cursor::RawBatchCursor }
        returns_batches! {
            @of [$($generics)*] $action_in_session =>
            $crate::raw_batch_cursor::SessionRawBatchCursor
        }
    };
    (@of [$($generics:tt)*] $action:ty => $cursor:ty) => {
        impl<$($generics)*> $action {
            /// Runs the command and returns a cursor over whole batches, which are not copied or
            /// decoded. See [`raw_batch_cursor`](crate::raw_batch_cursor).
            ///
            /// # Errors
            ///
            /// Those of the action.
            pub async fn batch(self) -> $crate::error::Result<$cursor> {
                self.open_batches().await
            }
        }
    };
}

/// Future of an action.
pub type ActionFuture<'a, T> =
    std::pin::Pin<Box<dyn Future<Output = crate::error::Result<T>> + Send + 'a>>;

mod aggregate;
mod bulk_write;
mod client_bulk_write;
mod count;
mod create_collection;
mod create_index;
mod delete;
mod distinct;
mod drop;
mod drop_index;
mod find;
mod find_one_and;
mod insert_many;
mod insert_one;
mod list_collections;
mod list_databases;
mod list_indexes;
mod replace_one;
mod run_command;
mod search_index;
mod session;
mod start_session;
mod transaction;
mod update;
mod watch;
mod write;

pub use crate::client::{Shutdown, WarmConnectionPool};

pub use self::{
    aggregate::Aggregate,
    bulk_write::CollectionBulkWrite,
    client_bulk_write::BulkWrite,
    count::{CountDocuments, EstimatedDocumentCount},
    create_collection::CreateCollection,
    create_index::CreateIndex,
    delete::Delete,
    distinct::Distinct,
    drop::{DropCollection, DropDatabase},
    drop_index::DropIndex,
    find::{Find, FindOne},
    find_one_and::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate},
    insert_many::InsertMany,
    insert_one::InsertOne,
    list_collections::ListCollections,
    list_databases::ListDatabases,
    list_indexes::ListIndexes,
    replace_one::ReplaceOne,
    run_command::{RunCommand, RunCursorCommand},
    search_index::{CreateSearchIndex, DropSearchIndex, ListSearchIndexes, UpdateSearchIndex},
    session::{ExplicitSession, ImplicitSession},
    start_session::StartSession,
    transaction::{AbortTransaction, CommitTransaction, StartTransaction},
    update::Update,
    watch::Watch,
};

/// Type parameter of actions that list full specifications.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListSpecifications;

/// Type parameter of actions that list names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListNames;

/// Type parameter of actions on a single item.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Single;

/// Type parameter of actions on several items.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Multiple;
