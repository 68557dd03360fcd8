//! Fail points of a test, which are disabled after it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bson::{Document, doc};
use steadfast::{
    Client,
    options::{SelectionCriteria, ServerAddress},
};

use super::{
    deployment::Deployment,
    events::EventRecorder,
    test_error::{TestError, TestResult},
};

/// Fail point that closes the connection of a write, while the server continues to execute the write.
const TRANSACTIONAL_WRITE: &str = "onPrimaryTransactionalWrite";

/// Limit for a server to finish a write whose connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Enabled fail points.
#[derive(Debug, Default)]
pub(super) struct FailPoints(Mutex<Vec<(ServerAddress, String)>>);

impl FailPoints {
    /// Enables a fail point on the primary, through a client of the test.
    pub(super) async fn set(
        &self,
        client: &Client,
        recorder: &EventRecorder,
        command: Document,
    ) -> TestResult<()> {
        let name = command.get_str("configureFailPoint").map_err(|error| error.to_string())?;
        let name = name.to_owned();
        client.database("admin").run_command(command).await?;
        let server = recorder
            .last_fail_point()
            .ok_or("no command event has the server of the fail point")?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((server, name));
        Ok(())
    }

    /// Enables a fail point on this server, through the runner's client.
    pub(super) async fn set_on(
        &self,
        deployment: &Deployment,
        server: ServerAddress,
        command: Document,
    ) -> TestResult<()> {
        let name = command.get_str("configureFailPoint").map_err(|error| error.to_string())?;
        let name = name.to_owned();
        let admin = client_of(deployment, &server).database("admin");
        admin.run_command(command).selection_criteria(only(&server)).await?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((server, name));
        Ok(())
    }

    /// Disables all fail points, each on its server, through the runner's clients. Behind a load balancer, a fail point
    /// may be enabled on any mongos, and is disabled on all.
    pub(super) async fn clear(&self, deployment: &Deployment) -> TestResult<()> {
        let set = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let load_balanced = deployment.load_balancer.is_some();
        let mongos = deployment.mongos.iter().filter(|_| load_balanced);
        let mongos: Vec<_> = mongos.map(|mongos| mongos.address.clone()).collect();
        for (server, name) in set {
            let servers = if mongos.is_empty() { vec![server] } else { mongos.clone() };
            for server in servers {
                disable(client_of(deployment, &server), &server, &name).await?;
            }
        }
        Ok(())
    }
}

/// Returns the runner's client for this server.
fn client_of<'a>(deployment: &'a Deployment, server: &ServerAddress) -> &'a Client {
    let mongos = deployment.mongos.iter().find(|mongos| mongos.address == *server);
    mongos.map_or(&deployment.client, |mongos| &mongos.client)
}

async fn disable(client: &Client, server: &ServerAddress, name: &str) -> TestResult<()> {
    let criteria = only(server);
    if name == TRANSACTIONAL_WRITE {
        await_writes(client, &criteria).await?;
    }
    let off = doc! { "configureFailPoint": name, "mode": "off" };
    let disabled = client.database("admin").run_command(off).selection_criteria(criteria).await;
    disabled.map_err(|error| {
        TestError::failed(format!("cannot disable {name} on {server}: {error}"))
    })?;
    Ok(())
}

/// Selects this server only.
fn only(server: &ServerAddress) -> SelectionCriteria {
    let server = server.clone();
    SelectionCriteria::Predicate(Arc::new(move |info| *info.address() == server))
}

/// Waits until the server executes no write of a test. Such a write would succeed once the fail point is disabled, after
/// the end of the test.
async fn await_writes(client: &Client, server: &SelectionCriteria) -> TestResult<()> {
    let writes = doc! {
        "currentOp": 1,
        "active": true,
        "op": { "$in": ["insert", "update", "remove", "command"] },
        "ns": { "$regex": "^(?!admin|local|config)." },
    };
    let admin = client.database("admin");
    let idle = async {
        loop {
            let reply =
                admin.run_command(writes.clone()).selection_criteria(server.clone()).await?;
            if reply.get_array("inprog").is_ok_and(Vec::is_empty) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(WRITE_TIMEOUT, idle).await {
        Ok(idle) => idle,
        Err(_) => Err(TestError::failed("the server executes a write for more than a minute")),
    }
}
