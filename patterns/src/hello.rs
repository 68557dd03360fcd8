//! The command `hello`.

use bson::{Document, doc};

use steadfast::{Client, error::Result};

/// Code of `CommandNotFound`.
pub(super) const COMMAND_NOT_FOUND: i32 = 59;

/// Runs `hello`, or `isMaster` on servers before MongoDB 5.0 that do not have it.
pub(super) async fn hello(client: &Client) -> Result<Document> {
    let admin = client.database("admin");
    match admin.run_command(doc! { "hello": 1 }).await {
        Err(error) if error.code() == Some(COMMAND_NOT_FOUND) => {
            admin.run_command(doc! { "isMaster": 1 }).await
        }
        reply => reply,
    }
}
