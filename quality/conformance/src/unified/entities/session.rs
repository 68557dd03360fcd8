//! A session of a test.

use std::{sync::Arc, time::Duration};

use bson::{Document, Timestamp};
use steadfast::{
    ClientSession, TransactionState,
    options::{ServerAddress, SessionOptions, TransactionOptions},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{ClientEntity, Entities};
use crate::unified::{
    events::EventRecorder,
    test_error::{TestError, TestResult},
};

/// A session of a test, until it is ended. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SessionEntity {
    /// Session id (`lsid`), also after the session has ended.
    pub(crate) id: Document,
    held: Arc<Mutex<Option<ClientSession>>>,
    /// Events of its client.
    recorder: EventRecorder,
}

/// Limit for the driver to abort the transaction of a session that ended.
const ABORT_TIMEOUT: Duration = Duration::from_secs(60);

/// A session locked for an operation.
#[derive(Debug)]
pub(crate) struct SessionInUse {
    entity: SessionEntity,
    held: OwnedMutexGuard<Option<ClientSession>>,
}

impl SessionEntity {
    /// Starts a session with the test's options.
    pub(super) async fn start(
        entities: &Entities,
        client: &ClientEntity,
        options: &Document,
    ) -> TestResult<Self> {
        let options = session_options(entities, options)?;
        let session = client.client.start_session().with_options(options).await?;
        let id = session.id().clone();
        let recorder = client.recorder.clone();
        Ok(Self { id, held: Arc::new(Mutex::new(Some(session))), recorder })
    }

    /// Returns the server that the session is pinned to.
    pub(crate) async fn pinned_server(&self) -> TestResult<ServerAddress> {
        if !self.lock().await?.session().is_pinned() {
            return Err(TestError::failed("the session is not pinned"));
        }
        let server = self.recorder.server_of(&self.id);
        server.ok_or_else(|| TestError::failed("no command event has the server of the session"))
    }

    /// Locks the session for an operation.
    pub(crate) async fn lock(&self) -> TestResult<SessionInUse> {
        let held = Arc::clone(&self.held).lock_owned().await;
        if held.is_none() {
            return Err(TestError::failed("the session has ended"));
        }
        Ok(SessionInUse { entity: self.clone(), held })
    }

    /// Removes the session from its entity.
    pub(crate) async fn remove(&self) -> TestResult<ClientSession> {
        self.held.lock().await.take().ok_or_else(|| TestError::failed("the session has ended"))
    }

    /// Puts a session back into its entity.
    pub(crate) async fn restore(&self, session: ClientSession) {
        *self.held.lock().await = Some(session);
    }

    /// Ends the session, and waits until the driver has aborted its transaction in the background.
    pub(crate) async fn end(&self) -> TestResult<()> {
        let session = self.remove().await?;
        let open = session.transaction_state() == TransactionState::InProgress;
        let before = self.recorder.ended_abort_transactions();
        drop(session);
        let ended =
            |recorder: &EventRecorder| !open || recorder.ended_abort_transactions() > before;
        match self.recorder.wait(ABORT_TIMEOUT, ended).await {
            true => Ok(()),
            false => {
                Err(TestError::failed("the transaction was not aborted when its session ended"))
            }
        }
    }
}

impl SessionInUse {
    /// Returns the entity.
    pub(crate) fn entity(&self) -> SessionEntity {
        self.entity.clone()
    }

    /// Returns the session.
    pub(crate) fn session(&mut self) -> &mut ClientSession {
        self.held.as_mut().expect("a session that is in use is not ended")
    }
}

fn session_options(entities: &Entities, given: &Document) -> TestResult<SessionOptions> {
    let mut options = SessionOptions::default();
    for (key, value) in given {
        let flag = || value.as_bool().ok_or_else(|| TestError::failed(format!("{key} is {value}")));
        match key.as_str() {
            "causalConsistency" => options.causal_consistency = Some(flag()?),
            "snapshot" => options.snapshot = Some(flag()?),
            "snapshotTime" => {
                let name = value.as_str().ok_or("snapshotTime names an entity")?;
                options.snapshot_time = Some(snapshot_time(entities, name)?);
            }
            "defaultTransactionOptions" => {
                let given = value.as_document().ok_or("defaultTransactionOptions is a document")?;
                options.default_transaction_options = Some(transaction_options(given)?);
            }
            "defaultTimeoutMS" => {
                let given: SessionOptions = bson::deserialize_from_document(Document::from_iter(
                    [(key.clone(), value.clone())],
                ))?;
                options.default_timeout = given.default_timeout;
            }
            _ => return Err(TestError::failed(format!("a session has no option {key}"))),
        }
    }
    Ok(options)
}

fn transaction_options(given: &Document) -> TestResult<TransactionOptions> {
    const KNOWN: [&str; 4] = ["readConcern", "writeConcern", "readPreference", "maxCommitTimeMS"];
    match given.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        Some(unknown) => Err(TestError::failed(format!("a transaction has no option {unknown}"))),
        None => Ok(bson::deserialize_from_document(given.clone())?),
    }
}

fn snapshot_time(entities: &Entities, name: &str) -> TestResult<Timestamp> {
    let value = entities.bson(name)?;
    value
        .as_timestamp()
        .ok_or_else(|| TestError::failed(format!("{name} is {value}, not a timestamp")))
}
