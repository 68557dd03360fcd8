//! How an application's own commands are run.

use std::time::Duration;

use bson::Bson;
use steadfast_core::selection::SelectionCriteria;

use super::{CursorType, TimeoutMode};

options! {
    /// How [`run_command`](crate::Database::run_command) runs a command.
    pub struct RunCommandOptions, RunCommandOptionsBuilder, with timeout {
        /// Which servers it may go to; by default the primary. The database's own setting does not
        /// count here.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
    }
}

options! {
    /// How [`run_cursor_command`](crate::Database::run_cursor_command) runs a command, and how the
    /// cursor asks for more.
    pub struct RunCursorCommandOptions, RunCursorCommandOptionsBuilder, with timeout {
        /// Which servers it may go to; by default the primary. The database's own setting does not
        /// count here.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// What kind of cursor the command makes.
        cursor_type: CursorType,
        /// How many documents come at a time after the first batch.
        batch_size: u32,
        /// How long the server may take for each batch after the first.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// A note, sent with each request for more, that shows in the server's logs and profiles.
        comment: Bson,
    }
}
