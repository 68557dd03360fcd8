//! Options of `run_command` and `run_cursor_command`.

use std::time::Duration;

use bson::Bson;
use steadfast_core::selection::SelectionCriteria;

use super::{CursorType, TimeoutMode};

options! {
    /// Options of [`run_command`](crate::Database::run_command). See
    /// [run command](https://github.com/mongodb/specifications/blob/master/source/run-command/run-command.md).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    /// use steadfast::options::{ReadPreference, RunCommandOptions, SelectionCriteria};
    ///
    /// let nearest = SelectionCriteria::from(ReadPreference::Nearest { options: None });
    /// let options = RunCommandOptions::builder().selection_criteria(nearest).build();
    /// let reply = database.run_command(doc! { "ping": 1 }).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct RunCommandOptions, RunCommandOptionsBuilder, with timeout {
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to the
        /// primary: the read preference of the database is not inherited. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
    }
}

options! {
    /// Options of [`run_cursor_command`](crate::Database::run_cursor_command). See
    /// [run command](https://github.com/mongodb/specifications/blob/master/source/run-command/run-command.md).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::RunCursorCommandOptions};
    ///
    /// let options = RunCursorCommandOptions::builder().batch_size(50).build();
    /// let command = doc! { "listIndexes": "books" };
    /// let cursor = database.run_cursor_command(command).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct RunCursorCommandOptions, RunCursorCommandOptionsBuilder, with timeout {
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to the
        /// primary: the read preference of the database is not inherited. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Type of the cursor that the command creates (`cursorType`). Defaults to
        /// [`NonTailable`](crate::options::CursorType::NonTailable).
        cursor_type: CursorType,
        /// Number of documents per batch of each `getMore` (`batchSize`). Defaults to the server's
        /// choice.
        batch_size: u32,
        /// Limit on the server's processing time of each `getMore` (`maxTimeMS`). Defaults to no
        /// limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Scope of the time-out (`timeoutMode`): the whole life of the cursor, or each iteration.
        /// Requires a `timeout`, set here or inherited. Defaults to
        /// [`CursorLifetime`](crate::options::TimeoutMode::CursorLifetime), for tailable cursors to
        /// [`Iteration`](crate::options::TimeoutMode::Iteration).
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Comment attached to each `getMore` (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}
