//! A MongoDB driver whose writes happen exactly once.

pub mod action;
mod auth;
mod client;
mod collection;
mod command;
mod connection;
mod cursor;
mod database;
#[cfg(feature = "dns")]
mod dns;
pub mod error;
pub mod event;
mod exec;
mod index;
mod operation;
pub mod options;
mod pool;
mod random;
mod refusal;
pub mod results;
mod search_index;
mod tls;
mod topology;
mod trace;

pub use bson;

pub use self::{
    client::Client,
    collection::{Collection, Namespace},
    cursor::Cursor,
    database::Database,
    index::{IndexModel, IndexModelBuilder},
    search_index::{SearchIndexModel, SearchIndexModelBuilder, SearchIndexType},
};
