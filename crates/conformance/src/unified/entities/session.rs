//! A session of a test.

use std::sync::Arc;

use bson::{Document, Timestamp};
use steadfast::{ClientSession, options::SessionOptions};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{ClientEntity, Entities};
use crate::unified::stop::{Step, Stop};

/// A session of a test, until it is ended. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SessionEntity {
    /// What servers know it by, also when it has ended.
    pub(crate) id: Document,
    held: Arc<Mutex<Option<ClientSession>>>,
}

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
        Ok(Self { id, held: Arc::new(Mutex::new(Some(session))) })
    }

    /// Takes the session for an operation.
    pub(crate) async fn take(&self) -> Step<SessionInUse> {
        let held = Arc::clone(&self.held).lock_owned().await;
        if held.is_none() {
            return Err(Stop::failed("the session has ended"));
        }
        Ok(SessionInUse { entity: self.clone(), held })
    }

    /// Ends the session.
    pub(crate) async fn end(&self) {
        *self.held.lock().await = None;
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
            "defaultTransactionOptions" => return Err(Stop::needs("transactions")),
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

fn snapshot_time(entities: &Entities, name: &str) -> Step<Timestamp> {
    let value = entities.bson(name)?;
    value.as_timestamp().ok_or_else(|| Stop::failed(format!("{name} is {value}, and no time")))
}
