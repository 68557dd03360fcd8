//! Existing deployment of a connection string. The run drops its collections at the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use steadfast::{
    Client,
    bson::{Document, doc},
    options::ClientOptions,
};
use tokio::time::sleep;

use super::{
    Result,
    network::login_of,
    open,
    set::{Member, Role, meant},
};
use crate::{
    observer::Observer,
    plan::{CLAIM, Fault, InvalidPlan, Plan},
    schedule::FaultTarget,
};

/// Time-out of the election of another primary.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// Time in which the old primary is not re-elected, and in which it waits for secondaries to catch up.
const STEP_DOWN_SECS: i32 = 10;
const CATCH_UP_SECS: i32 = 5;

/// An existing deployment.
pub(super) struct Foreign {
    uri: String,
    /// Connection string with the hosts and options of its DNS records.
    resolved: String,
    client: Client,
    topology: Topology,
    version: String,
    database: String,
    keep: bool,
    observer: Arc<dyn Observer>,
    /// `true` if the database may contain data of this run.
    is_written: AtomicBool,
}

/// Type of a deployment.
enum Topology {
    /// Replica set with this name.
    ReplicaSet(String),
    /// Sharded cluster with these mongos.
    Sharded(Vec<String>),
}

impl Foreign {
    /// Connects. Returns an error for a standalone server, an unsupported fault or an existing database.
    pub(super) async fn find(uri: &str, plan: &Plan, observer: &Arc<dyn Observer>) -> Result<Self> {
        let client = open(uri).await?;
        let options = ClientOptions::parse(uri).await?;
        let hello = admin(&client, &**observer, doc! { "hello": 1 }).await?;
        let hosts = options.hosts.iter().map(ToString::to_string).collect();
        let topology = topology_of(&hello, hosts, plan)?;
        let build = admin(&client, &**observer, doc! { "buildInfo": 1 }).await?;
        check_database_is_new(&client, &plan.database, &**observer).await?;
        Ok(Self {
            uri: uri.to_owned(),
            resolved: resolved(uri, &options),
            client,
            topology,
            version: build.get_str("version").unwrap_or("of an unknown version").to_owned(),
            database: plan.database.clone(),
            keep: plan.keep,
            observer: Arc::clone(observer),
            is_written: AtomicBool::new(false),
        })
    }

    pub(super) fn server(&self) -> String {
        match &self.topology {
            Topology::ReplicaSet(name) => format!("MongoDB {}, replica set {name}", self.version),
            Topology::Sharded(_) => format!("MongoDB {}, sharded cluster", self.version),
        }
    }

    pub(super) fn uri(&self) -> String {
        self.uri.clone()
    }

    /// Returns the connection string without `mongodb+srv`, for the proxy.
    pub(super) fn resolved_uri(&self) -> &str {
        &self.resolved
    }

    /// Records that the run has claimed the database.
    pub(super) fn mark_written(&self) {
        self.is_written.store(true, Relaxed);
    }

    pub(super) async fn find_member(&self, who: FaultTarget) -> Result<Member> {
        if let Topology::Sharded(hosts) = &self.topology {
            let number = meant(who, 0, hosts.len());
            let address = hosts.get(number).cloned().unwrap_or_default();
            return Ok(Member { number, address, role: Role::Mongos, shard: None });
        }
        let hello = self.hello().await?;
        let primary = hello.get_str("primary").or_else(|_| hello.get_str("me"))?;
        let named = hello.get_array("hosts")?.iter().filter_map(|host| host.as_str());
        let hosts: Vec<&str> = named.collect();
        let at = hosts.iter().position(|host| *host == primary).unwrap_or_default();
        let number = meant(who, at, hosts.len());
        let address = hosts.get(number).copied().unwrap_or(primary).to_owned();
        Ok(Member { number, address, role: Role::of(number == at), shard: None })
    }

    pub(super) async fn step_down(&self) -> Result<Member> {
        let primary = self.find_member(FaultTarget::Primary).await?;
        let command = doc! {
            "replSetStepDown": STEP_DOWN_SECS,
            "secondaryCatchUpPeriodSecs": CATCH_UP_SECS,
        };
        match self.client.database("admin").run_command(command).await {
            Ok(_) => Ok(primary),
            // A primary before 4.2 closes all connections when it steps down.
            Err(error) if error.is_network_error() => Ok(primary),
            Err(error) => {
                let why = self.observer.explain(&error);
                Err(format!("{} did not step down: {why}", primary.in_words()).into())
            }
        }
    }

    /// Waits for a primary or mongos. The state of the other members is not checked.
    pub(super) async fn recover(&self) -> Result<()> {
        self.hello().await.map(drop)
    }

    /// Returns the `hello` reply of the primary or a mongos.
    async fn hello(&self) -> Result<Document> {
        let began = Instant::now();
        loop {
            match admin(&self.client, &*self.observer, doc! { "hello": 1 }).await {
                Ok(hello)
                    if matches!(self.topology, Topology::Sharded(_)) || is_primary(&hello) =>
                {
                    return Ok(hello);
                }
                Err(error) if began.elapsed() > ELECTION_TIMEOUT => return Err(error),
                Ok(_) if began.elapsed() > ELECTION_TIMEOUT => {
                    let secs = ELECTION_TIMEOUT.as_secs();
                    return Err(format!("the deployment has no primary after {secs} s").into());
                }
                Ok(_) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Drops the collections of the run, unless the plan keeps them.
    pub(super) async fn close(self) -> Result<()> {
        if !self.keep && self.is_written.load(Relaxed) {
            let database = self.client.database(&self.database);
            // Not the database: the role `readWrite` does not include `dropDatabase`.
            let mut named = database
                .list_collection_names()
                .await
                .map_err(|error| self.observer.explain(&error))?;
            // The claim is dropped last, so that no other run gets the database before it is empty.
            named.sort_by_key(|name| name == CLAIM);
            for name in named.iter().filter(|name| !name.starts_with("system.")) {
                let dropped = database.collection::<Document>(name).drop().await;
                dropped.map_err(|error| self.observer.explain(&error))?;
            }
        }
        self.is_written.store(false, Relaxed);
        Ok(())
    }
}

/// Reports a database that was not dropped.
impl Drop for Foreign {
    fn drop(&mut self) {
        if !self.keep && self.is_written.load(Relaxed) {
            self.observer.warning(&format!(
                "the database {} was not dropped: drop it, or choose another one with --database",
                self.database
            ));
        }
    }
}

async fn admin(client: &Client, observer: &dyn Observer, command: Document) -> Result<Document> {
    client
        .database("admin")
        .run_command(command)
        .await
        .map_err(|error| observer.explain(&error).into())
}

fn is_primary(hello: &Document) -> bool {
    hello.get_bool("isWritablePrimary").or_else(|_| hello.get_bool("ismaster")).unwrap_or(false)
}

fn topology_of(hello: &Document, hosts: Vec<String>, plan: &Plan) -> Result<Topology> {
    let invalid = |why: &str| Box::new(InvalidPlan(why.to_owned()));
    if let Ok(name) = hello.get_str("setName") {
        return Ok(Topology::ReplicaSet(name.to_owned()));
    }
    if hello.get_str("msg").ok() != Some("isdbgrid") {
        return Err(invalid(
            "--uri: the deployment is a standalone server\n  why: retryable writes require a replica set or a \
             sharded cluster\n  next: start it as a replica set, for example of one member, or omit --uri",
        ));
    }
    if plan.has(Fault::StepDown) {
        return Err(invalid(
            "--faults: step-down requires a replica set, and the deployment of --uri is a sharded cluster",
        ));
    }
    Ok(Topology::Sharded(hosts))
}

async fn check_database_is_new(
    client: &Client,
    database: &str,
    observer: &dyn Observer,
) -> Result<()> {
    let collections = client.database(database).list_collection_names().await;
    let collections = collections.map_err(|error| observer.explain(&error))?;
    if collections.is_empty() {
        return Ok(());
    }
    Err(Box::new(InvalidPlan(format!(
        "--database: {database} already exists\n  why: its collections would be dropped at the end\n  next: choose \
         another database, or drop this one if an earlier run has left it"
    ))))
}

/// Replaces `mongodb+srv` by the hosts and options of the DNS records.
fn resolved(uri: &str, options: &ClientOptions) -> String {
    let Some(rest) = uri.strip_prefix("mongodb+srv://") else { return uri.to_owned() };
    let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let database = path.split_once('/').map_or("", |(_, database)| database);
    let given =
        query.split('&').filter(|it| !it.is_empty() && !it.to_lowercase().starts_with("srv"));
    let mut all: Vec<String> = given.map(str::to_owned).collect();
    let source = options.credential.as_ref().and_then(|credential| credential.source.clone());
    let from_dns = [
        ("tls", Some("true".to_owned())),
        ("replicaSet", options.repl_set_name.clone()),
        ("authSource", source),
        ("loadBalanced", options.load_balanced.map(|is| is.to_string())),
    ];
    for (name, value) in from_dns {
        let key = |option: &String| option.split('=').next().unwrap_or_default().to_lowercase();
        let is_given = all
            .iter()
            .map(key)
            .any(|key| key == name.to_lowercase() || (name == "tls" && key == "ssl"));
        if let Some(value) = value.filter(|_| !is_given) {
            all.push(format!("{name}={value}"));
        }
    }
    let login = login_of(uri);
    format!("mongodb://{login}{}/{database}?{}", hosts.join(","), all.join("&"))
}

#[cfg(test)]
mod tests {
    use steadfast::options::{Credential, ServerAddress};

    use super::*;

    #[test]
    fn srv_connection_string_is_resolved_to_hosts_and_options() {
        let mut options = ClientOptions::default();
        options.hosts =
            ["a.test:1", "b.test:2"].map(|it| ServerAddress::parse(it).unwrap()).to_vec();
        options.repl_set_name = Some("rs".to_owned());
        options.credential = Some(Credential::builder().source("admin".to_owned()).build());
        let uri =
            "mongodb+srv://ada:se%40cret@cluster.test/shop?w=1&srvServiceName=x&authsource=own";
        assert_eq!(
            resolved(uri, &options),
            "mongodb://ada:se%40cret@a.test:1,b.test:2/shop?w=1&authsource=own&tls=true&replicaSet=rs"
        );
        let plain = "mongodb://a/?replicaSet=rs";
        assert_eq!(resolved(plain, &options), plain);
    }
}
