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
    events::Journal,
    stop::{Step, Stop},
};

/// A session of a test, until it is ended. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SessionEntity {
    /// What servers know it by, also when it has ended.
    pub(crate) id: Document,
    held: Arc<Mutex<Option<ClientSession>>>,
    /// What is observed of its client.
    journal: Journal,
}

/// How long the driver may take to abort the transaction of a session that ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session that an operation runs in: nobody else can use it meanwhile.
#[derive(Debug)]
pub(crate) struct SessionInUse {
    entity: SessionEntity,
    held: OwnedMutexGuard<Option<ClientSession>>,
}

impl SessionEntity {
    /// Starts a session with the options as a test gives them.
    pub(super) async fn start(
        entities: &Entities,
        client: &ClientEntity,
        options: &Document,
    ) -> Step<Self> {
        let options = session_options(entities, options)?;
        let session = client.client.start_session().with_options(options).await?;
        let id = session.id().clone();
        let journal = client.journal.clone();
        Ok(Self { id, held: Arc::new(Mutex::new(Some(session))), journal })
    }

    /// The server that its transaction is bound to.
    pub(crate) async fn pinned_server(&self) -> Step<ServerAddress> {
        if !self.take().await?.session().is_pinned() {
            return Err(Stop::failed("the session is not pinned"));
        }
        let server = self.journal.server_of(&self.id);
        server.ok_or_else(|| Stop::failed("no event tells where the session is pinned"))
    }

    /// Takes the session for an operation.
    pub(crate) async fn take(&self) -> Step<SessionInUse> {
        let held = Arc::clone(&self.held).lock_owned().await;
        if held.is_none() {
            return Err(Stop::failed("the session has ended"));
        }
        Ok(SessionInUse { entity: self.clone(), held })
    }

    /// Takes the session away, so that nobody else finds it.
    pub(crate) async fn take_away(&self) -> Step<ClientSession> {
        self.held.lock().await.take().ok_or_else(|| Stop::failed("the session has ended"))
    }

    /// Brings a session that was taken away.
    pub(crate) async fn bring_back(&self, session: ClientSession) {
        *self.held.lock().await = Some(session);
    }

    /// Ends the session, and waits until a transaction that is in progress is aborted, which the
    /// driver does in the background.
    pub(crate) async fn end(&self) -> Step<()> {
        let session = self.take_away().await?;
        let open = session.transaction_state() == TransactionState::InProgress;
        let before = self.journal.aborted_transactions();
        drop(session);
        let ended = |journal: &Journal| !open || journal.aborted_transactions() > before;
        match self.journal.wait(PATIENCE, ended).await {
            true => Ok(()),
            false => Err(Stop::failed("the transaction was not aborted when its session ended")),
        }
    }
}

impl SessionInUse {
    /// What it is the session of.
    pub(crate) fn entity(&self) -> SessionEntity {
        self.entity.clone()
    }

    /// The session itself.
    pub(crate) fn session(&mut self) -> &mut ClientSession {
        self.held.as_mut().expect("a session that is in use is not ended")
    }
}

fn session_options(entities: &Entities, given: &Document) -> Step<SessionOptions> {
    let mut options = SessionOptions::default();
    for (key, value) in given {
        let flag = || value.as_bool().ok_or_else(|| Stop::failed(format!("{key} is {value}")));
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
            _ => return Err(Stop::failed(format!("a session has no option {key}"))),
        }
    }
    Ok(options)
}

fn transaction_options(given: &Document) -> Step<TransactionOptions> {
    const KNOWN: [&str; 4] = ["readConcern", "writeConcern", "readPreference", "maxCommitTimeMS"];
    match given.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        Some(unknown) => Err(Stop::failed(format!("a transaction has no option {unknown}"))),
        None => Ok(bson::deserialize_from_document(given.clone())?),
    }
}

fn snapshot_time(entities: &Entities, name: &str) -> Step<Timestamp> {
    let value = entities.bson(name)?;
    value.as_timestamp().ok_or_else(|| Stop::failed(format!("{name} is {value}, and no time")))
}
