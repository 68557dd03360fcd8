//! Types that actions return in the blocking API. [`sync`](crate::sync) exports them and adds the methods that create
//! actions.

mod change_stream;
mod client;
mod client_session;
mod cursor;

pub use self::{
    change_stream::{ChangeStream, SessionChangeStream},
    client::Client,
    client_session::ClientSession,
    cursor::{Cursor, SessionCursor, SessionCursorIter},
};
