//! Session and cluster time fields of commands and replies.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, ToStr, raw::cstr};
use bytes::Bytes;
use steadfast_core::{cluster_time::ClusterTime, transaction::TransactionPosition};
use steadfast_wire::{field, fields};

use crate::{
    command::{Command, CommandKind, Target},
    error::{Error, ErrorKind, Result, command_error::is_ok},
    exec::Executor,
    pool::PooledConnection,
    session::{self, ReadPoint, Session, Sessions},
};

/// First wire version with snapshot reads outside of transactions: that of MongoDB 5.0.
const SNAPSHOT_READS: i32 = 13;

/// Fields that an attempt adds to its command because of the session.
#[derive(Default)]
pub(super) struct SessionFields {
    pub(super) lsid: Option<Arc<RawDocumentBuf>>,
    pub(super) cluster_time: Option<Arc<ClusterTime>>,
    /// Fields of the command, if the session changes them.
    pub(super) body: Option<RawDocumentBuf>,
}

impl SessionFields {
    /// Returns the fields for a command that is sent through this connection.
    pub(super) fn of(
        executor: &Executor,
        command: &Command,
        session: Option<&Session>,
        position: TransactionPosition,
        connection: &PooledConnection,
    ) -> Result<Self> {
        let Some(session) = session else {
            return Ok(Self {
                cluster_time: executor.sessions().cluster_time(),
                ..Self::default()
            });
        };
        let body = match position {
            TransactionPosition::Outside => {
                read_concern(command, session, connection.hello.max_wire_version)?
                    .map(|concern| with_read_concern(&command.body, concern))
            }
            TransactionPosition::First => first_read_concern(command, session)?
                .map(|concern| with_read_concern(&command.body, concern)),
            TransactionPosition::Later => None,
            TransactionPosition::Commit | TransactionPosition::Abort => {
                Some(super::transaction_end::fields_for_attempt(session, command, position)?)
            }
        };
        let (lsid, cluster_time) = (Some(session.id()), session.cluster_time());
        Ok(Self { lsid, cluster_time, body })
    }
}

/// Returns the read concern with the fields of the session. `None`: the command's own is sent.
fn read_concern(
    command: &Command,
    session: &Session,
    max_wire_version: i32,
) -> Result<Option<RawDocumentBuf>> {
    // The read concern of a cursor is that of its first command.
    if matches!(command.target, Target::Cursor(_)) {
        return Ok(None);
    }
    match session.read_point() {
        Some(ReadPoint::After(time)) if supports_after_cluster_time(command) => {
            let own = command.body.get_document("readConcern");
            let mut concern = own.map_or_else(|_| RawDocumentBuf::new(), ToOwned::to_owned);
            concern.append(cstr!("afterClusterTime"), time);
            Ok(Some(concern))
        }
        Some(ReadPoint::At(_)) if max_wire_version < SNAPSHOT_READS => {
            Err(Error::new(ErrorKind::IncompatibleServer {
                message: "Snapshot reads require MongoDB 5.0 or later".to_owned(),
            }))
        }
        Some(ReadPoint::At(time)) => {
            let mut concern = RawDocumentBuf::new();
            concern.append(cstr!("level"), "snapshot");
            if let Some(time) = time {
                concern.append(cstr!("atClusterTime"), time);
            }
            Ok(Some(concern))
        }
        Some(ReadPoint::After(_)) | None => Ok(None),
    }
}

/// Returns `true` if a causally consistent session can add `afterClusterTime`: to reads, and to the
/// writes that the specification lists. Commands of the application (`run_command`) are sent
/// unchanged.
fn supports_after_cluster_time(command: &Command) -> bool {
    const WRITES: [&str; 10] = [
        "insert",
        "update",
        "findAndModify",
        "delete",
        "bulkWrite",
        "create",
        "createIndexes",
        "drop",
        "dropDatabase",
        "dropIndexes",
    ];
    let listed = || WRITES.contains(&&*command.name) && command.kind != CommandKind::Generic;
    command.supports_read_concern || listed()
}

/// Returns the read concern of the first command of a transaction, which applies to the whole
/// transaction, with `afterClusterTime` in a causally consistent session.
fn first_read_concern(command: &Command, session: &Session) -> Result<Option<RawDocumentBuf>> {
    // The read concern in a generic command (`run_command`) is not changed.
    if command.body.get("readConcern").is_ok_and(|own| own.is_some()) {
        return Ok(None);
    }
    let level = session.transaction(|transaction| transaction.settings().read_concern.clone());
    let mut concern = match level {
        Some(level) => bson::to_raw_document(&level.to_document())?,
        None => RawDocumentBuf::new(),
    };
    if let Some(ReadPoint::After(time)) = session.read_point() {
        concern.append(cstr!("afterClusterTime"), time);
    }
    Ok((!concern.is_empty()).then_some(concern))
}

/// Returns the fields of a command with another read concern.
fn with_read_concern(body: &RawDocument, concern: RawDocumentBuf) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for (key, value) in body.iter().flatten() {
        if key.to_str() != "readConcern" {
            bson::append_ref(&mut fields, key, value);
        }
    }
    fields.append(cstr!("readConcern"), concern);
    fields
}

/// Status of a reply, from which the executor continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyStatus {
    /// `true` if the reply has `ok: 1`.
    pub(super) succeeded: bool,
    /// `true` if the reply contains write errors or a write concern error.
    pub(super) has_write_failures: bool,
}

/// Processes a reply, also an error reply: cluster time, operation time, recovery token and
/// snapshot time. Without a reply the session becomes dirty. Reads all fields in one pass.
pub(super) fn process_reply(
    received: &Result<Bytes>,
    sessions: &Sessions,
    session: Option<&Session>,
    transaction_number: Option<i64>,
) -> ReplyStatus {
    let mut status = ReplyStatus::default();
    let Some(body) = received.as_deref().ok().and_then(|body| RawDocument::from_bytes(body).ok())
    else {
        if let Some(session) = session {
            session.mark_dirty();
        }
        return status;
    };
    if let Some(session) = session {
        session.reply_received();
    }
    let mut ok = None;
    for field in fields(body) {
        match field.key {
            b"ok" => status.succeeded = *ok.get_or_insert_with(|| is_ok(&field)),
            b"writeErrors" | b"writeConcernError" => status.has_write_failures = true,
            // Reply to `bulkWrite`, whose cursor contains the errors.
            b"nErrors" => status.has_write_failures |= field.as_i32() != Some(0),
            b"$clusterTime" => {
                if let Some(signed) = field.as_document() {
                    advance_cluster_time(signed, sessions, session);
                }
            }
            b"operationTime" => {
                if let (Some(session), Some(time)) = (session, field.as_timestamp()) {
                    session.record_operation_time(time);
                }
            }
            b"recoveryToken" => {
                if let (Some(session), Some(number)) = (session, transaction_number)
                    && let Some(token) = field.as_document()
                {
                    session.transaction(|it| it.set_recovery_token(number, token.to_owned()));
                }
            }
            b"atClusterTime" => {
                if let (Some(session), Some(time)) = (session, field.as_timestamp()) {
                    session.set_snapshot_time(time);
                }
            }
            b"cursor" => {
                if let Some(session) =
                    session.filter(|it| it.kind == session::SessionKind::Snapshot)
                    && let Some(cursor) = field.as_document()
                    && let Ok(time) = cursor.get_timestamp("atClusterTime")
                {
                    session.set_snapshot_time(time);
                }
            }
            _ => {}
        }
    }
    status
}

fn advance_cluster_time(signed: &RawDocument, sessions: &Sessions, session: Option<&Session>) {
    let Some(time) = field(signed, "clusterTime").and_then(|time| time.as_timestamp()) else {
        return;
    };
    // An implicit session ends with its operation.
    if let Some(session) = session.filter(|it| it.kind != session::SessionKind::Implicit) {
        session.advance_cluster_time(&ClusterTime::new(time, signed));
    }
    sessions.advance_cluster_time(time, signed);
}
