//! Commands of the application (`run_command`).

use std::{borrow::Cow, time::Duration};

use bson::{RawDocumentBuf, ToStr};

use crate::{
    Database,
    command::{Command, CommandKind, Explicit, Target},
    deadline::{MaxTime, TimeLimit},
    error::{Error, Result, TimeSpent},
    namespace::check_database_name,
    operation::get_more::GetMoreOptions,
    options::{RunCommandOptions, RunCursorCommandOptions, SelectionCriteria},
    session::TransactionScope,
};

/// Returns the command as passed. Concerns and read preference are not inherited, by the run
/// command specification.
pub(crate) fn run(
    database: &Database,
    body: RawDocumentBuf,
    options: Option<RunCommandOptions>,
) -> Result<Command> {
    let RunCommandOptions { timeout, selection_criteria } = options.unwrap_or_default();
    generic_command(database, body, selection_criteria, timeout)
}

/// Returns a command with a cursor, and the options of the cursor's `getMore`.
pub(crate) fn run_cursor(
    database: &Database,
    body: RawDocumentBuf,
    options: Option<RunCursorCommandOptions>,
) -> Result<(Command, GetMoreOptions)> {
    let options = options.unwrap_or_default();
    let mut command = generic_command(database, body, options.selection_criteria, options.timeout)?;
    let mut more = GetMoreOptions {
        batch_size: options.batch_size,
        max_time: options.max_time,
        comment: options.comment,
        may_write: true,
        ..GetMoreOptions::default()
    };
    let cursor_type = options.cursor_type.unwrap_or_default();
    more.apply_timeout_mode(&mut command, options.timeout_mode, cursor_type)?;
    Ok((command, more))
}

fn generic_command(
    database: &Database,
    body: RawDocumentBuf,
    criteria: Option<SelectionCriteria>,
    timeout: Option<Duration>,
) -> Result<Command> {
    check_database_name(&database.name)?;
    let name = match body.iter_elements().next() {
        Some(Ok(first)) => first.key().to_str().to_owned(),
        Some(Err(error)) => {
            return Err(Error::invalid_argument(format!("malformed command: {error}")));
        }
        None => {
            return Err(Error::invalid_argument(
                "the command is empty; its first key must be the name of the command",
            ));
        }
    };
    Ok(Command {
        name: Cow::Owned(name),
        database: database.name.clone(),
        body,
        sequence: None,
        explicit: Explicit { criteria: criteria.is_some(), ..Explicit::default() },
        target: Target::Read(criteria.unwrap_or_default()),
        kind: CommandKind::Generic,
        acknowledged: true,
        supports_read_concern: false,
        scope: TransactionScope::Outside,
        abandoned: None,
        session: None,
        selected: None,
        // A `maxTimeMS` in the command is not removed; servers reject a second one.
        time_limit: TimeLimit::of(timeout, database.timeout()),
        deadline: None,
        spent: TimeSpent::default(),
        max_time: MaxTime::default(),
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};
    use steadfast_core::{concern::ReadConcern, read_preference::ReadPreference};

    use super::*;
    use crate::{
        operation::fixture::{body, database, database_with, raw},
        options::DatabaseOptions,
    };

    #[tokio::test]
    async fn command_is_sent_unchanged() {
        let sent = doc! { "ping": 1, "writeConcern": { "w": 0 }, "maxTimeMS": 5 };
        let command = run(&database(), raw(sent.clone()), None).unwrap();
        assert_eq!(body(&command), sent);
        assert_eq!((&*command.name, &*command.database), ("ping", "library"));
        assert_eq!(command.kind, CommandKind::Generic);
        assert!(command.acknowledged);
    }

    #[tokio::test]
    async fn command_inherits_no_concern_of_the_database() {
        let options = DatabaseOptions::builder()
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
            .build();
        let command = run(&database_with(options), raw(doc! { "ping": 1 }), None).unwrap();
        assert_eq!(body(&command), doc! { "ping": 1 });
        assert!(
            matches!(command.target, Target::Read(criteria) if criteria == SelectionCriteria::default())
        );
    }

    #[tokio::test]
    async fn command_uses_its_own_selection_criteria() {
        let nearest = SelectionCriteria::from(ReadPreference::nearest(None));
        let options = RunCommandOptions::builder().selection_criteria(nearest.clone()).build();
        let command = run(&database(), raw(doc! { "ping": 1 }), Some(options)).unwrap();
        assert!(matches!(command.target, Target::Read(criteria) if criteria == nearest));
    }

    #[tokio::test]
    async fn empty_command_is_rejected() {
        assert!(run(&database(), raw(doc! {}), None).unwrap_err().is_invalid_argument());
    }

    #[tokio::test]
    async fn options_of_the_cursor_are_not_part_of_the_command() {
        let options =
            RunCursorCommandOptions::builder().batch_size(5).comment(Bson::from("note")).build();
        let sent = doc! { "find": "books", "batchSize": 1 };
        let (command, more) = run_cursor(&database(), raw(sent.clone()), Some(options)).unwrap();
        assert_eq!(body(&command), sent);
        assert_eq!((more.batch_size, &more.comment), (Some(5), &Some(Bson::from("note"))));
        assert!(more.may_write);
    }
}
