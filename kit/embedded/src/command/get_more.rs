//! `getMore` and `killCursors`.

use bson::{Bson, Document};
use steadfast_query::{Code, Fault};

use super::{
    super::{call::Call, cursor::CursorOwner, namespace::Namespace},
    ReadContext,
    arguments::Arguments,
    lock,
};

/// Parsed arguments of `getMore`.
pub(crate) struct GetMore {
    pub(crate) id: i64,
    pub(crate) namespace: Namespace,
    pub(crate) batch_size: Option<usize>,
}

impl GetMore {
    pub(crate) fn read(call: &Call) -> Result<Self, Fault> {
        let arguments = Arguments::of(
            call,
            "getMore",
            &["collection", "batchSize", "term", "lastKnownCommittedOpTime"],
        )?;
        let id = match arguments.value("getMore") {
            Some(Bson::Int64(id)) => *id,
            other => {
                let found = other.unwrap_or(&Bson::Null);
                return Err(arguments.mistyped("getMore", found, "type 'long'"));
            }
        };
        let collection = arguments.required("collection", arguments.text("collection")?)?;
        if collection.is_empty() {
            return Err(Fault::new(Code::INVALID_NAMESPACE, "Collection names cannot be empty"));
        }
        let batch_size = arguments.natural("batchSize")?.filter(|size| *size > 0);
        Ok(Self { id, namespace: Namespace::new(&call.database, collection), batch_size })
    }
}

/// Runs `getMore`.
pub(crate) fn get_more(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let call = reading.call;
    let GetMore { id, namespace, batch_size } = GetMore::read(call)?;
    let mut cursors = lock(reading.cursors);
    if call.max_time.is_some() && cursors.is_materialized(id) {
        return Err(not_awaiting());
    }
    let live = cursors.awaits_data(id);
    cursors.set_history(id, reading.history);
    let reply =
        cursors.get_more(id, &namespace, &CursorOwner::of(call), batch_size, reading.env.now);
    reply.map_err(|mut fault| {
        // A failed cursor is closed. After an invalid request it stays open.
        if live && !cursors.awaits_data(id) {
            let message = fault.message;
            fault.message = format!("Executor error during getMore :: caused by :: {message}");
        }
        fault
    })
}

/// Error of a `getMore` with `maxTimeMS` on a cursor that does not await data.
pub(crate) fn not_awaiting() -> Fault {
    Fault::bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor")
}

/// Runs `killCursors`.
pub(crate) fn kill_cursors(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let ids = cursors_to_kill(reading.call)?;
    Ok(lock(reading.cursors).kill(&ids))
}

/// Cursor ids that `killCursors` names.
pub(crate) fn cursors_to_kill(call: &Call) -> Result<Vec<i64>, Fault> {
    let arguments = Arguments::of(call, "killCursors", &["cursors"])?;
    Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let ids = arguments.required("cursors", arguments.array("cursors")?)?;
    ids.iter()
        .enumerate()
        .map(|(at, id)| match id {
            Bson::Int64(id) => Ok(*id),
            other => Err(arguments.mistyped(&format!("cursors.{at}"), other, "type 'long'")),
        })
        .collect()
}
