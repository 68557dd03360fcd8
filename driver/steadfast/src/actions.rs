//! What a user asks for, as builders that are awaited.
//!
//! Each method of [`Client`](crate::Client), [`Database`](crate::Database) and
//! [`Collection`](crate::Collection) that talks to a server returns one of these: call setters on
//! it, then `.await` it.

/// Makes an action awaitable: `.await` runs its `execute`.
macro_rules! awaitable {
    ([$($generics:tt)*] $action:ty => $output:ty) => {
        impl<$($generics)*> std::future::IntoFuture for $action {
            type Output = $crate::error::Result<$output>;
            type IntoFuture = $crate::actions::ActionFuture<'a, $output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.execute())
            }
        }
    };
}

/// Gives an action its `session` method, which says that it is to run in a session of the
/// application's.
///
/// An action with a plain result has a field `session: Option<&'a mut ClientSession>`. One that
/// gives a cursor becomes another type, whose cursor is to be read in the session: it has a field
/// `session: S`, and its other fields are listed here.
macro_rules! takes_session {
    ([$($generics:tt)*] $action:ty) => {
        impl<$($generics)*> $action {
            /// Runs in this session, which must be of the same client.
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
            /// Runs in this session, which must be of the same client. If what comes of it is a
            /// cursor, it is a [`SessionCursor`](crate::SessionCursor), to be read in the same
            /// session.
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

/// The future of an action.
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

/// Marks an action that lists things with all that is known of them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListSpecifications;

/// Marks an action that lists names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListNames;

/// Marks an action on one thing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Single;

/// Marks an action on several things.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Multiple;
