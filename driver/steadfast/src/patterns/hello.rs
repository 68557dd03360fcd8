//! What a server says of itself.

use bson::{Document, doc};

use crate::{Client, error::Result};

/// What a server answers to a command that it does not know.
pub(super) const COMMAND_NOT_FOUND: i32 = 59;

/// What the server says of itself; before MongoDB 5.0, it may not know the word.
pub(super) async fn hello(client: &Client) -> Result<Document> {
    let admin = client.database("admin");
    match admin.run_command(doc! { "hello": 1 }).await {
        Err(error) if error.code() == Some(COMMAND_NOT_FOUND) => {
            admin.run_command(doc! { "isMaster": 1 }).await
        }
        answer => answer,
    }
}
