//! Default replies, used without a script.

use bson::{Bson, Document, doc};

use blackpipe_base::message::Request;

/// Returns the default reply to commands that drivers send on their own: `ping`, `endSessions`,
/// `killCursors`, `buildInfo` and others. `hello` is separate.
pub(super) fn to_driver_command(request: &Request) -> Option<Document> {
    Some(match request.name.as_str() {
        "ping" | "endSessions" | "killSessions" => doc! { "ok": 1 },
        "killCursors" => {
            let killed = request.body.get_array("cursors").cloned().unwrap_or_default();
            let none = || Bson::Array(Vec::new());
            doc! {
                "cursorsKilled": killed, "cursorsNotFound": none(), "cursorsAlive": none(),
                "cursorsUnknown": none(), "ok": 1,
            }
        }
        "buildInfo" | "buildinfo" => doc! {
            "version": "7.0.0", "versionArray": [7, 0, 0, 0], "gitVersion": "blackpipe",
            "modules": [], "bits": 64, "maxBsonObjectSize": 16 * 1024 * 1024, "ok": 1,
        },
        _ => return None,
    })
}

/// Returns the default reply: writes succeed, reads find nothing.
pub(super) fn to_command(request: &Request) -> Document {
    let length = |field: &str| {
        let documents = request.body.get_array(field).map_or(0, Vec::len);
        i32::try_from(documents).unwrap_or(i32::MAX)
    };
    match request.name.as_str() {
        "insert" => doc! { "n": length("documents"), "ok": 1 },
        "update" => {
            let n = length("updates");
            doc! { "n": n, "nModified": n, "ok": 1 }
        }
        "delete" => doc! { "n": length("deletes"), "ok": 1 },
        "findAndModify" | "findandmodify" => {
            let done = doc! { "n": 0, "updatedExisting": false };
            doc! { "lastErrorObject": done, "value": Bson::Null, "ok": 1 }
        }
        "count" => doc! { "n": 0, "ok": 1 },
        "distinct" => doc! { "values": [], "ok": 1 },
        "listDatabases" => doc! { "databases": [], "totalSize": 0, "ok": 1 },
        "find" | "aggregate" | "listCollections" | "listIndexes" => {
            let cursor = doc! { "id": 0_i64, "ns": namespace(request), "firstBatch": [] };
            doc! { "cursor": cursor, "ok": 1 }
        }
        "getMore" => {
            let cursor = doc! { "id": 0_i64, "ns": namespace(request), "nextBatch": [] };
            doc! { "cursor": cursor, "ok": 1 }
        }
        _ => to_driver_command(request).unwrap_or_else(|| doc! { "ok": 1 }),
    }
}

/// Namespace of a cursor, which always includes a collection.
fn namespace(request: &Request) -> String {
    match request.collection() {
        Some(_) => request.namespace(),
        None => format!("{}.$cmd.{}", request.database, request.name),
    }
}

/// Returns `true` if only a primary executes the command.
pub(super) fn is_write(request: &Request) -> bool {
    const WRITES: [&str; 14] = [
        "abortTransaction",
        "bulkWrite",
        "collMod",
        "commitTransaction",
        "create",
        "createIndexes",
        "delete",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "findAndModify",
        "insert",
        "renameCollection",
        "update",
    ];
    WRITES.contains(&request.name.as_str())
}
