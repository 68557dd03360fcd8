//! `getMore` and `killCursors`.

mod time;

use bson::Bson;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawArrayBuf, raw::cstr};

use super::find::checked_batch_size;
use crate::{
    Namespace,
    command::{Command, CommandKind, Target},
    deadline::MaxTime,
    error::Result,
    session::TransactionScope,
};

/// Options of `getMore`.
#[derive(Clone, Debug, Default)]
pub(crate) struct GetMoreOptions {
    pub(crate) batch_size: Option<u32>,
    /// Maximum time that the server waits for documents (`maxTimeMS`).
    pub(crate) max_time: Option<Duration>,
    pub(crate) comment: Option<Bson>,
    /// Maximum number of documents of the cursor.
    pub(crate) limit: Option<u64>,
    /// `true` if the time-out of the call applies to each iteration, not to the whole cursor.
    pub(crate) renewed: bool,
    /// `true` if the next batch can be requested before the current one is drained.
    pub(crate) ahead: bool,
    /// `true` if a `getMore` may write: with a cursor of `run_cursor_command`, the first `getMore`
    /// executes a `$merge` whose `batchSize` was 0.
    pub(crate) may_write: bool,
}

/// Returns the `getMore` for the next batch. `remaining` documents are left within the limit.
pub(crate) fn get_more(
    target: Target,
    namespace: &Namespace,
    id: i64,
    more: &GetMoreOptions,
    remaining: Option<u64>,
) -> Result<Command> {
    let mut command = Command::new(
        cstr!("getMore"),
        id,
        &Arc::from(namespace.db.as_str()),
        target,
        if more.may_write { CommandKind::Generic } else { CommandKind::GetMore },
    );
    command.field(cstr!("collection"), namespace.coll.as_str());
    if let Some(batch_size) = batch_size(more, remaining)? {
        command.field(cstr!("batchSize"), batch_size);
    }
    // Servers accept `maxTimeMS` only if the cursor awaits data.
    command.max_time = more.max_time.map_or(MaxTime::Omit, MaxTime::AtMost);
    if let Some(comment) = &more.comment {
        command.field(cstr!("comment"), bson::to_raw_value(comment.clone())?);
    }
    Ok(command)
}

/// Returns the batch size of the options, reduced to the limit of the cursor. Zero is not sent.
fn batch_size(more: &GetMoreOptions, remaining: Option<u64>) -> Result<Option<i32>> {
    let Some(batch_size) = more.batch_size.filter(|size| *size != 0) else { return Ok(None) };
    let batch_size = checked_batch_size(batch_size)?;
    let remaining = remaining.and_then(|remaining| i32::try_from(remaining).ok());
    Ok(Some(remaining.map_or(batch_size, |remaining| remaining.min(batch_size))))
}

/// Returns the `killCursors` command.
pub(crate) fn kill(target: Target, namespace: &Namespace, id: i64) -> Command {
    let mut command = Command::new(
        cstr!("killCursors"),
        namespace.coll.as_str(),
        &Arc::from(namespace.db.as_str()),
        target,
        CommandKind::Generic,
    );
    command.scope = TransactionScope::Independent;
    let mut cursors = RawArrayBuf::new();
    cursors.push(id);
    command.field(cstr!("cursors"), cursors);
    command
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Bson, doc};

    use super::*;
    use crate::operation::fixture::body;

    #[test]
    fn get_more_uses_the_namespace_of_the_reply() {
        let namespace = Namespace::new("library", "$cmd.listCollections");
        let plain =
            get_more(Target::Write, &namespace, 7, &GetMoreOptions::default(), None).unwrap();
        assert_eq!(body(&plain), doc! { "getMore": 7_i64, "collection": "$cmd.listCollections" });
        assert_eq!((&*plain.database, plain.kind), ("library", CommandKind::GetMore));
        let more = GetMoreOptions {
            batch_size: Some(3),
            max_time: Some(Duration::from_millis(250)),
            comment: Some(Bson::from("note")),
            limit: Some(4),
            renewed: false,
            ahead: false,
            may_write: true,
        };
        let full = get_more(Target::Write, &namespace, 7, &more, Some(1)).unwrap();
        assert_eq!(
            body(&full),
            doc! {
                "getMore": 7_i64, "collection": "$cmd.listCollections", "batchSize": 1,
                "comment": "note",
            }
        );
        assert_eq!(full.kind, CommandKind::Generic);
        assert_eq!(plain.max_time, MaxTime::Omit);
        assert_eq!(full.max_time, MaxTime::AtMost(Duration::from_millis(250)));
    }

    #[test]
    fn kill_cursors_contains_one_cursor() {
        let command = kill(Target::Write, &Namespace::new("library", "books"), -5);
        assert_eq!(body(&command), doc! { "killCursors": "books", "cursors": [-5_i64] });
    }

    fn sizes(batch_size: u32, remaining: Option<u64>) -> Option<i32> {
        let more = GetMoreOptions { batch_size: Some(batch_size), ..GetMoreOptions::default() };
        super::batch_size(&more, remaining).unwrap()
    }

    #[test]
    fn batch_size_does_not_exceed_the_limit() {
        assert_eq!(sizes(3, Some(1)), Some(1));
        assert_eq!(sizes(3, Some(9)), Some(3));
        assert_eq!(sizes(3, Some(u64::MAX)), Some(3));
        assert_eq!(sizes(3, None), Some(3));
    }

    #[test]
    fn a_batch_size_of_zero_is_not_sent() {
        assert_eq!(sizes(0, None), None);
        assert_eq!(super::batch_size(&GetMoreOptions::default(), Some(1)).unwrap(), None);
    }
}
