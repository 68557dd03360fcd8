//! `commitTransaction` and `abortTransaction`.

use std::{sync::Arc, time::Duration};

use bson::{RawDocumentBuf, raw::cstr};
use steadfast_core::{
    concern::WriteConcern,
    transaction::{Transaction, TransactionPosition},
};

use crate::{
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    session::Session,
};

/// Returns the command that commits the transaction of its session.
pub(crate) fn commit() -> Command {
    end(cstr!("commitTransaction"))
}

/// Returns the command that aborts the transaction of its session.
pub(crate) fn abort() -> Command {
    end(cstr!("abortTransaction"))
}

fn end(name: &'static bson::raw::CStr) -> Command {
    Command::new(name, 1, &Arc::from("admin"), Target::Write, CommandKind::EndTransaction)
}

/// Returns the fields of one attempt, which may differ between attempts.
fn fields(
    command: &Command,
    write_concern: Option<&WriteConcern>,
    max_time: Option<Duration>,
    recovery_token: Option<&RawDocumentBuf>,
) -> Result<RawDocumentBuf> {
    let mut fields = command.body.clone();
    if let Some(concern) = write_concern.filter(|concern| !concern.is_empty()) {
        concern.validate().map_err(|error| Error::invalid_argument(error.to_string()))?;
        fields.append(cstr!("writeConcern"), bson::to_raw_document(&concern.to_document())?);
    }
    if let Some(max_time) = max_time {
        let millis = i64::try_from(max_time.as_millis()).unwrap_or(i64::MAX);
        fields.append(cstr!("maxTimeMS"), millis);
    }
    if let Some(token) = recovery_token {
        fields.append(cstr!("recoveryToken"), token.clone());
    }
    Ok(fields)
}

/// Returns the fields of a commit or abort for this attempt.
pub(super) fn fields_for_attempt(
    session: &Session,
    command: &Command,
    position: TransactionPosition,
) -> Result<RawDocumentBuf> {
    let with_fields = |transaction: &mut Transaction| {
        let settings = transaction.settings();
        let (mut write_concern, mut max_time) = match position {
            TransactionPosition::Commit => {
                (transaction.commit_write_concern(), settings.max_commit_time)
            }
            _ => (settings.write_concern.clone(), None),
        };
        // With a deadline, `maxTimeMS` and `wtimeout` of the options are not sent.
        if command.deadline.is_some() {
            max_time = None;
            if let Some(concern) = &mut write_concern {
                concern.w_timeout = None;
            }
        }
        let token = transaction.recovery_token();
        fields(command, write_concern.as_ref(), max_time, token)
    };
    match &command.abandoned {
        Some(abandoned) => with_fields(&mut abandoned.transaction.clone()),
        None => session.transaction(with_fields),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, rawdoc};

    use super::*;

    fn to_document(fields: &RawDocumentBuf) -> Document {
        Document::try_from(&**fields).unwrap()
    }

    #[test]
    fn commit_contains_only_set_fields() {
        let plain = fields(&commit(), None, None, None).unwrap();
        assert_eq!(to_document(&plain), doc! { "commitTransaction": 1 });
        let nothing = WriteConcern::default();
        let plain = fields(&abort(), Some(&nothing), None, None).unwrap();
        assert_eq!(to_document(&plain), doc! { "abortTransaction": 1 });
        let command = commit();
        assert_eq!((&*command.database, command.kind), ("admin", CommandKind::EndTransaction));
    }

    #[test]
    fn commit_contains_write_concern_max_time_and_recovery_token() {
        let concern = WriteConcern::majority();
        let token = rawdoc! { "recoveryShardId": "a" };
        let limit = Some(Duration::from_millis(60));
        let all = fields(&commit(), Some(&concern), limit, Some(&token)).unwrap();
        let expected = doc! {
            "commitTransaction": 1, "writeConcern": { "w": "majority" }, "maxTimeMS": 60_i64,
            "recoveryToken": { "recoveryShardId": "a" },
        };
        assert_eq!(to_document(&all), expected);
    }
}
