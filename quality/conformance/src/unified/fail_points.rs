//! Servers that are told to fail, and told to stop it after the test.

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
    events::Journal,
    stop::{Step, Stop},
};

/// Makes a server close the connection of a write that it goes on to carry out, document by document.
const FAILS_WRITES: &str = "onPrimaryTransactionalWrite";

/// How long a server may go on with a write whose client is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fail points that are on.
#[derive(Debug, Default)]
pub(super) struct FailPoints(Mutex<Vec<(ServerAddress, String)>>);

impl FailPoints {
    /// Sets a fail point on the primary, through the client that is to meet it.
    pub(super) async fn set(
        &self,
        client: &Client,
        journal: &Journal,
        command: Document,
    ) -> Step<()> {
        let name = command.get_str("configureFailPoint").map_err(|error| error.to_string())?;
        let name = name.to_owned();
        client.database("admin").run_command(command).await?;
        let server = journal.last_fail_point().ok_or("no event tells where a fail point went")?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((server, name));
        Ok(())
    }

    /// Sets a fail point on this server, through the runner's client.
    pub(super) async fn set_on(
        &self,
        deployment: &Deployment,
        server: ServerAddress,
        command: Document,
    ) -> Step<()> {
        let name = command.get_str("configureFailPoint").map_err(|error| error.to_string())?;
        let name = name.to_owned();
        let admin = client_of(deployment, &server).database("admin");
        admin.run_command(command).selection_criteria(exactly(&server)).await?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((server, name));
        Ok(())
    }

    /// Switches all fail points off, each on its own server, through the runner's clients. Behind a load
    /// balancer a fail point may be on any mongos, and is switched off on all.
    pub(super) async fn clear(&self, deployment: &Deployment) -> Step<()> {
        let set = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let balanced = deployment.balanced.is_some();
        let mongos = deployment.mongos.iter().filter(|_| balanced);
        let mongos: Vec<_> = mongos.map(|mongos| mongos.address.clone()).collect();
        for (server, name) in set {
            let servers = if mongos.is_empty() { vec![server] } else { mongos.clone() };
            for server in servers {
                switch_off(client_of(deployment, &server), &server, &name).await?;
            }
        }
        Ok(())
    }
}

/// The runner's client that reaches this server.
fn client_of<'a>(deployment: &'a Deployment, server: &ServerAddress) -> &'a Client {
    let mongos = deployment.mongos.iter().find(|mongos| mongos.address == *server);
    mongos.map_or(&deployment.client, |mongos| &mongos.client)
}

async fn switch_off(client: &Client, server: &ServerAddress, name: &str) -> Step<()> {
    let that_one = exactly(server);
    if name == FAILS_WRITES {
        await_quiet(client, &that_one).await?;
    }
    let off = doc! { "configureFailPoint": name, "mode": "off" };
    let switched = client.database("admin").run_command(off).selection_criteria(that_one).await;
    switched.map_err(|error| Stop::failed(format!("{name} stays on at {server}: {error}")))?;
    Ok(())
}

/// This server and no other.
fn exactly(server: &ServerAddress) -> SelectionCriteria {
    let server = server.clone();
    SelectionCriteria::Predicate(Arc::new(move |info| *info.address() == server))
}

/// Waits until the server works on no write of a test any more. One that it still tries would succeed
/// once the fail point is off, after all that the test has seen.
async fn await_quiet(client: &Client, server: &SelectionCriteria) -> Step<()> {
    let writes = doc! {
        "currentOp": 1,
        "active": true,
        "op": { "$in": ["insert", "update", "remove", "command"] },
        "ns": { "$regex": "^(?!admin|local|config)." },
    };
    let admin = client.database("admin");
    let quiet = async {
        loop {
            let reply =
                admin.run_command(writes.clone()).selection_criteria(server.clone()).await?;
            if reply.get_array("inprog").is_ok_and(Vec::is_empty) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, quiet).await {
        Ok(quiet) => quiet,
        Err(_) => Err(Stop::failed("the server goes on with a write for more than a minute")),
    }
}
