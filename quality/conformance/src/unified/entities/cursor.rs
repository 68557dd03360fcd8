//! A cursor or a change stream of a test, with or without a session.

use std::sync::Arc;

use bson::Document;
use steadfast::{
    Cursor, SessionCursor,
    change_stream::{ChangeStream, session::SessionChangeStream},
    error::Error,
};
use tokio::sync::Mutex;

use super::SessionEntity;
use crate::unified::test_error::{TestError, TestResult};

/// A cursor, or a change stream.
#[derive(Debug)]
pub(crate) enum HeldCursor {
    Alone(Cursor<Document>),
    InSession(SessionCursor<Document>, SessionEntity),
    Stream(ChangeStream<Document>),
    StreamInSession(SessionChangeStream<Document>, SessionEntity),
}

/// A cursor, until it is closed. Clones share it.
pub(crate) type SharedCursor = Arc<Mutex<Option<HeldCursor>>>;

impl HeldCursor {
    pub(crate) fn shared(self) -> SharedCursor {
        Arc::new(Mutex::new(Some(self)))
    }

    /// Returns the next document. With `once`, sends at most one `getMore`.
    pub(crate) async fn next(&mut self, once: bool) -> TestResult<Result<Option<Document>, Error>> {
        Ok(match self {
            Self::Alone(cursor) => {
                let found = if once { cursor.try_advance().await } else { cursor.advance().await };
                found.and_then(|found| found.then(|| cursor.deserialize_current()).transpose())
            }
            Self::InSession(cursor, entity) => {
                let mut in_use = entity.lock().await?;
                let session = in_use.session();
                let found = match once {
                    true => cursor.try_advance(session).await,
                    false => cursor.advance(session).await,
                };
                found.and_then(|found| found.then(|| cursor.deserialize_current()).transpose())
            }
            Self::Stream(stream) if once => stream.next_if_any().await,
            Self::Stream(stream) => next(stream).await,
            Self::StreamInSession(stream, entity) => {
                let mut in_use = entity.lock().await?;
                match once {
                    true => stream.next_if_any(in_use.session()).await,
                    false => stream.next(in_use.session()).await,
                }
            }
        })
    }

    /// Returns true if there may be another document.
    pub(crate) fn has_next(&self) -> bool {
        match self {
            Self::Alone(cursor) => cursor.has_next(),
            Self::InSession(cursor, _) => cursor.has_next(),
            Self::Stream(stream) => stream.is_alive(),
            Self::StreamInSession(stream, _) => stream.is_alive(),
        }
    }
}

/// Waits for the next event.
async fn next(stream: &mut ChangeStream<Document>) -> Result<Option<Document>, Error> {
    while stream.is_alive() {
        if let Some(event) = stream.next_if_any().await? {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// Returns the cursor, or an error if it is closed.
pub(crate) fn open_cursor(held: &mut Option<HeldCursor>) -> TestResult<&mut HeldCursor> {
    held.as_mut().ok_or_else(|| TestError::failed("the cursor is closed"))
}
