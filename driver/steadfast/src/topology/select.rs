//! Server selection, with waiting.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
    sdam::TopologyInput,
    selection::{self, Selection, SelectionError, SelectionTarget},
};
use tokio::time::Instant;

use super::{Server, Topology, TopologyView};
use crate::{
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    random::random_u64,
    trace,
};

/// Maximum duration of a wait, so that sums of times do not overflow.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Selected server, and the topology at the selection.
#[derive(Clone, Debug)]
pub(crate) struct SelectedServer {
    pub(crate) server: Arc<Server>,
    pub(crate) view: Arc<TopologyView>,
}

impl SelectedServer {
    /// Returns the description of the server.
    pub(crate) fn description(&self) -> Option<&ServerDescription> {
        self.view.description.servers.get(&self.server.address)
    }
}

impl Topology {
    /// Returns `serverSelectionTimeoutMS`.
    pub(crate) fn selection_timeout(&self) -> Duration {
        self.selection_timeout
    }

    /// Returns the deadline for server selection and check-out together, for a call that starts
    /// now; `None` without a deadline.
    pub(crate) fn selection_deadline(
        &self,
        deadline: Option<Deadline>,
        now: std::time::Instant,
    ) -> Option<std::time::Instant> {
        let deadline = deadline?;
        let until = now + self.selection_timeout.min(MAX_WAIT);
        Some(deadline.at().map_or(until, |at| at.min(until)))
    }

    /// Selects a server, and waits until there is a suitable one. `until` replaces
    /// `serverSelectionTimeoutMS`.
    pub(crate) async fn select(
        &self,
        target: SelectionTarget<'_>,
        deprioritized: &[ServerAddress],
        operation: trace::Operation<'_>,
        until: Option<std::time::Instant>,
    ) -> Result<SelectedServer> {
        trace::selection_started(self.id, operation, target, || self.current_description());
        let selected = match self.select_now(target, deprioritized) {
            Ok(Some(selected)) => Ok(selected),
            // Boxed, to keep the future small for the common case.
            Ok(None) => Box::pin(self.wait_for(target, deprioritized, operation, until)).await,
            Err(error) => Err(error),
        };
        match &selected {
            Ok(SelectedServer { server, view }) => trace::selection_succeeded(
                self.id,
                operation,
                target,
                &server.address,
                &view.description,
            ),
            Err(error) => {
                trace::selection_failed(self.id, operation, target, error, || {
                    self.current_description()
                });
            }
        }
        selected
    }

    async fn wait_for(
        &self,
        target: SelectionTarget<'_>,
        deprioritized: &[ServerAddress],
        operation: trace::Operation<'_>,
        until: Option<std::time::Instant>,
    ) -> Result<SelectedServer> {
        let mut changes = self.view.subscribe();
        let began = Instant::now();
        let deadline = until.map_or(began + self.selection_timeout.min(MAX_WAIT), Into::into);
        let mut logged = false;
        loop {
            changes.borrow_and_update();
            if let Some(selected) = self.select_now(target, deprioritized)? {
                return Ok(selected);
            }
            if !std::mem::replace(&mut logged, true) {
                let left = deadline.saturating_duration_since(Instant::now());
                trace::selection_waits(self.id, operation, target, left, || {
                    self.current_description()
                });
            }
            self.apply(TopologyInput::NoSuitableServer, None);
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                let waited = deadline.saturating_duration_since(began);
                return Err(self.timeout_error(target, waited, until.is_some()));
            }
        }
    }

    fn select_now(
        &self,
        target: SelectionTarget<'_>,
        deprioritized: &[ServerAddress],
    ) -> Result<Option<SelectedServer>> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Shutdown));
        }
        let view = self.view();
        let count = |address: &ServerAddress| {
            view.servers.get(address).map_or(0, |server| server.operation_count())
        };
        let random = [random_u64(), random_u64()];
        let selection = selection::select(
            &view.description,
            target,
            deprioritized,
            &self.selection,
            count,
            random,
        );
        let server = match selection {
            Selection::Selected(server) => view.servers.get(&server.address).cloned(),
            Selection::NoneSuitable => None,
            Selection::Impossible(error) => return Err(selection_error(error)),
        };
        Ok(server.map(|server| SelectedServer { server, view }))
    }

    fn current_description(&self) -> Arc<TopologyDescription> {
        Arc::clone(&self.view.borrow().description)
    }

    fn timeout_error(&self, target: SelectionTarget<'_>, waited: Duration, until: bool) -> Error {
        let why = selection::explain(&self.view().description, target, &self.selection);
        let limit = self.selection_timeout;
        let message = if until && waited < limit {
            format!("none within {waited:.1?}, the time left before the deadline: {why}")
        } else {
            format!("none within serverSelectionTimeoutMS ({limit:?}): {why}")
        };
        Error::new(ErrorKind::ServerSelection { message })
    }
}

fn selection_error(error: SelectionError) -> Error {
    let message = error.to_string();
    match error {
        SelectionError::Incompatible(_) => Error::new(ErrorKind::IncompatibleServer { message }),
        SelectionError::MaxStalenessTooSmall { .. } => Error::invalid_argument(message),
        _ => Error::new(ErrorKind::ServerSelection { message }),
    }
}
