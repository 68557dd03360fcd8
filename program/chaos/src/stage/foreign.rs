//! Somebody's deployment, which was there before and stays: what is written to it is removed in the end.

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
    schedule::Who,
};

/// How long another primary may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// So long the old primary does not stand again, and so long it waits for the others to catch up.
const STEP_DOWN_SECS: i32 = 10;
const CATCH_UP_SECS: i32 = 5;

/// A deployment by its connection string.
pub(super) struct Foreign {
    uri: String,
    /// The same, with the names that DNS gave.
    resolved: String,
    client: Client,
    kind: Kind,
    version: String,
    database: String,
    keep: bool,
    observer: Arc<dyn Observer>,
    /// Whether there may be something to remove.
    is_written: AtomicBool,
}

/// What it is.
enum Kind {
    ReplicaSet(String),
    /// A sharded cluster with these routers.
    Routers(Vec<String>),
}

impl Foreign {
    /// Connects, and refuses what cannot be used for this.
    pub(super) async fn find(uri: &str, plan: &Plan, observer: &Arc<dyn Observer>) -> Result<Self> {
        let client = open(uri).await?;
        let options = ClientOptions::parse(uri).await?;
        let hello = admin(&client, &**observer, doc! { "hello": 1 }).await?;
        let routers = options.hosts.iter().map(ToString::to_string).collect();
        let kind = kind_of(&hello, routers, plan)?;
        let build = admin(&client, &**observer, doc! { "buildInfo": 1 }).await?;
        refuse_if_there(&client, &plan.database, &**observer).await?;
        Ok(Self {
            uri: uri.to_owned(),
            resolved: resolved(uri, &options),
            client,
            kind,
            version: build.get_str("version").unwrap_or("of an unknown version").to_owned(),
            database: plan.database.clone(),
            keep: plan.keep,
            observer: Arc::clone(observer),
            is_written: AtomicBool::new(false),
        })
    }

    pub(super) fn server(&self) -> String {
        match &self.kind {
            Kind::ReplicaSet(name) => format!("MongoDB {}, replica set {name}", self.version),
            Kind::Routers(_) => format!("MongoDB {}, sharded cluster", self.version),
        }
    }

    pub(super) fn uri(&self) -> String {
        self.uri.clone()
    }

    /// The hosts by their names, for who does not ask DNS for them.
    pub(super) fn resolved_uri(&self) -> &str {
        &self.resolved
    }

    /// From here on, something may be there that was not before.
    pub(super) fn mark_written(&self) {
        self.is_written.store(true, Relaxed);
    }

    pub(super) async fn find_member(&self, who: Who) -> Result<Member> {
        if let Kind::Routers(routers) = &self.kind {
            let number = meant(who, 0, routers.len());
            let address = routers.get(number).cloned().unwrap_or_default();
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
        let primary = self.find_member(Who::Primary).await?;
        let command = doc! {
            "replSetStepDown": STEP_DOWN_SECS,
            "secondaryCatchUpPeriodSecs": CATCH_UP_SECS,
        };
        match self.client.database("admin").run_command(command).await {
            Ok(_) => Ok(primary),
            // Servers before 4.2 hang up on everybody when they step down.
            Err(error) if error.is_network_error() => Ok(primary),
            Err(error) => {
                let why = self.observer.explain(&error);
                Err(format!("{} does not step down: {why}", primary.in_words()).into())
            }
        }
    }

    /// Waits until there is a server that takes writes. Whether all members are well is not ours to know.
    pub(super) async fn recover(&self) -> Result<()> {
        self.hello().await.map(drop)
    }

    /// What the primary says, or a router.
    async fn hello(&self) -> Result<Document> {
        let began = Instant::now();
        loop {
            match admin(&self.client, &*self.observer, doc! { "hello": 1 }).await {
                Ok(hello) if matches!(self.kind, Kind::Routers(_)) || is_primary(&hello) => {
                    return Ok(hello);
                }
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Ok(_) if began.elapsed() > PATIENCE => {
                    let secs = PATIENCE.as_secs();
                    return Err(format!("the deployment has no primary after {secs} s").into());
                }
                Ok(_) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Removes what was written, unless it is to be kept.
    pub(super) async fn close(self) -> Result<()> {
        if !self.keep && self.is_written.load(Relaxed) {
            let database = self.client.database(&self.database);
            // By its collections: whoever may write to a database need not be allowed to drop it.
            let mut named = database
                .list_collection_names()
                .await
                .map_err(|error| self.observer.explain(&error))?;
            // Another run gets the database when nothing is left in it.
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

/// Whoever does not get to close it is told what is left.
impl Drop for Foreign {
    fn drop(&mut self) {
        if !self.keep && self.is_written.load(Relaxed) {
            self.observer.warning(&format!(
                "the database {} was left behind: drop it, or name another with --database",
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

fn kind_of(hello: &Document, routers: Vec<String>, plan: &Plan) -> Result<Kind> {
    let wrong = |what: &str| Box::new(InvalidPlan(what.to_owned()));
    if let Ok(name) = hello.get_str("setName") {
        return Ok(Kind::ReplicaSet(name.to_owned()));
    }
    if hello.get_str("msg").ok() != Some("isdbgrid") {
        return Err(wrong(
            "--uri: it is a standalone server\n  why: writes can be tried again safely on replica sets and \
             sharded clusters only\n  next: start it as a replica set (of one member, if need be), or leave \
             --uri out",
        ));
    }
    if plan.has(Fault::StepDown) {
        return Err(wrong(
            "--faults: step-down is for a replica set, and --uri is a sharded cluster, which has no primary \
             of its own",
        ));
    }
    Ok(Kind::Routers(routers))
}

async fn refuse_if_there(client: &Client, database: &str, observer: &dyn Observer) -> Result<()> {
    let there = client.database(database).list_collection_names().await;
    let there = there.map_err(|error| observer.explain(&error))?;
    if there.is_empty() {
        return Ok(());
    }
    Err(Box::new(InvalidPlan(format!(
        "--database: {database} is there already\n  why: it is removed in the end, and nobody's data are to go \
         with it\n  next: name one that is not there, or drop it if it is left from an earlier run"
    ))))
}

/// The connection string with the hosts and options that DNS gave, if they are from there.
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
    fn a_name_that_dns_resolves_becomes_the_hosts_and_options_that_it_gave() {
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
