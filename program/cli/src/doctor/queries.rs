//! Commands sent to the servers of the deployment: round-trip times, versions, clocks, configuration, authentication.
//!
//! If a command fails or is not authorized, its fact stays unknown.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use steadfast::{
    Client, Database, ServerType,
    bson::{Document, doc},
    options::{SelectionCriteria, ServerAddress},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::facts::{
    AuthInfo, Clock, DeploymentFailure, DeploymentKind, Facts, Member, MemberState, RecordLifetime,
    Server, Shard,
};

/// Number of pings for the median and the maximum.
const PINGS: usize = 9;

/// Error code `Unauthorized`.
const UNAUTHORIZED: i32 = 13;

/// `maxTimeMS` of commands that wait for a shard without a primary, by default for 15 seconds or more.
const SHARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Examines all servers concurrently, then the deployment.
pub(super) async fn run(client: &Client, facts: &mut Facts, until: Instant) {
    // Without authentication or a common wire version, no command succeeds.
    if matches!(
        facts.failure,
        Some(DeploymentFailure::Authentication(_) | DeploymentFailure::Incompatible(_))
    ) {
        return;
    }
    let mut tasks = JoinSet::new();
    for (index, server) in facts.servers.iter().enumerate() {
        if server.server_type.is_data_bearing() {
            let (client, server) = (client.clone(), server.clone());
            tasks.spawn(async move { (index, examine(&client, server, until).await) });
        }
    }
    while let Some(Ok((index, (server, record_lifetime)))) = tasks.join_next().await {
        let named = |lifetime| (server.address.to_string(), lifetime);
        facts.record_lifetimes.extend(record_lifetime.map(named));
        facts.servers[index] = server;
    }
    facts.record_lifetimes.sort_by(|(one, _), (other, _)| one.cmp(other));
    deployment(client, facts, until).await;
}

/// Database `admin` of one server.
pub(super) struct ServerAdmin {
    admin: Database,
    criteria: SelectionCriteria,
    until: Instant,
}

impl ServerAdmin {
    pub(super) fn new(client: &Client, address: &ServerAddress, until: Instant) -> Self {
        let address = address.clone();
        let only = move |server: &steadfast::ServerInfo<'_>| *server.address() == address;
        let criteria = SelectionCriteria::Predicate(Arc::new(only));
        Self { admin: client.database("admin"), criteria, until }
    }

    async fn reply(&self, command: Document) -> Option<Document> {
        self.run(command).await?.ok()
    }

    /// Runs a command. Returns `None` after the time-out.
    async fn run(&self, command: Document) -> Option<CommandReply> {
        let running = self.admin.run_command(command).selection_criteria(self.criteria.clone());
        timeout_at(self.until, running).await.ok()
    }

    /// Reads the minimum lifetime of the record of a retryable write. Returns `None` after the time-out.
    pub(super) async fn record_lifetime(&self) -> Option<RecordLifetime> {
        const PARAMETER: &str = "TransactionRecordMinimumLifetimeMinutes";
        let reply = self.run(doc! { "getParameter": 1, PARAMETER: 1 }).await?;
        Some(match reply {
            Ok(reply) => match reply.get(PARAMETER).and_then(number).map(u64::try_from) {
                Some(Ok(minutes)) => RecordLifetime::Known(Duration::from_secs(60 * minutes)),
                _ => RecordLifetime::NotRead(format!("the server has no {PARAMETER}")),
            },
            Err(error) if error.code() == Some(UNAUTHORIZED) => RecordLifetime::Denied,
            Err(error) => RecordLifetime::NotRead(error.to_string()),
        })
    }

    /// Reads the state of a shard member.
    pub(super) async fn member_state(&self) -> MemberState {
        let hello = match self.run(doc! { "hello": 1 }).await {
            Some(Ok(hello)) => hello,
            Some(Err(error)) => return MemberState::Unreached(error.to_string()),
            None => return MemberState::Unreached("the server was not reached in time".to_owned()),
        };
        let is = |field| hello.get_bool(field).unwrap_or(false);
        match (is("isWritablePrimary"), is("secondary")) {
            (true, _) => MemberState::Primary,
            (false, true) => {
                MemberState::Secondary { knows_primary: hello.contains_key("primary") }
            }
            (false, false) => MemberState::Other,
        }
    }

    async fn ping(&self) -> Option<Duration> {
        let begun = Instant::now();
        self.reply(doc! { "ping": 1 }).await?;
        Some(begun.elapsed())
    }
}

async fn examine(
    client: &Client,
    mut server: Server,
    until: Instant,
) -> (Server, Option<RecordLifetime>) {
    let admin = ServerAdmin::new(client, &server.address, until);
    let info = admin.reply(doc! { "buildInfo": 1 }).await;
    // The connection is open now: pings do not include the handshake.
    server.version = info.and_then(|info| info.get_str("version").ok().map(ToOwned::to_owned));
    let mut pings = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        pings.extend(admin.ping().await);
    }
    pings.sort();
    if !pings.is_empty() {
        server.round_trips = pings;
    }
    let (sent, begun) = (SystemTime::now(), Instant::now());
    if let Some(hello) = admin.reply(doc! { "hello": 1 }).await {
        let took = begun.elapsed();
        let time = hello.get_datetime("localTime").ok();
        server.clock = time.map(|time| Clock::read(sent, took, *time));
        let write = hello.get_document("lastWrite").and_then(|it| it.get_datetime("lastWriteDate"));
        server.last_write = write.ok().copied().or(server.last_write);
        let minutes = hello.get_i32("logicalSessionTimeoutMinutes").ok();
        let minutes = minutes.and_then(|minutes| u64::try_from(minutes).ok());
        server.session_timeout =
            minutes.map(|minutes| Duration::from_secs(60 * minutes)).or(server.session_timeout);
        server.max_wire_version = server.max_wire_version.or(hello.get_i32("maxWireVersion").ok());
    }
    // Mongos and standalone servers keep no records, although a mongos has the parameter.
    let keeps_records =
        matches!(server.server_type, ServerType::RsPrimary | ServerType::RsSecondary);
    let record_lifetime = if keeps_records { admin.record_lifetime().await } else { None };
    (server, record_lifetime)
}

/// Reads facts of the deployment from one server: the primary if there is one.
async fn deployment(client: &Client, facts: &mut Facts, until: Instant) {
    let is_eligible = |server: &&Server| server.server_type.is_data_bearing();
    let server = facts.primary().or_else(|| facts.servers.iter().find(is_eligible));
    let Some(address) = server.map(|server| server.address.clone()) else { return };
    let admin = ServerAdmin::new(client, &address, until);
    if let Some(status) = admin.reply(doc! { "connectionStatus": 1 }).await {
        facts.login = login(&status);
    }
    if matches!(facts.kind, DeploymentKind::Sharded | DeploymentKind::LoadBalanced) {
        cluster(&admin, facts).await;
    } else if facts.login.users.is_empty() {
        let reply = admin.run(doc! { "listDatabases": 1, "nameOnly": true }).await;
        facts.login.required = login_required(reply.as_ref());
    }
    if facts.kind == DeploymentKind::ReplicaSet {
        let reply = admin.reply(doc! { "replSetGetConfig": 1 }).await;
        facts.members = reply.as_ref().and_then(members);
    }
    let status = admin.reply(doc! { "serverStatus": 1 }).await;
    let engine = status.as_ref().and_then(|status| status.get_document("storageEngine").ok());
    facts.storage_engine =
        engine.and_then(|engine| engine.get_str("name").ok().map(ToOwned::to_owned));
}

/// Reads the shards from a mongos, then runs a command that needs every shard.
async fn cluster(admin: &ServerAdmin, facts: &mut Facts) {
    let limit = i64::try_from(SHARD_TIMEOUT.as_millis()).unwrap_or(i64::MAX);
    let listed = admin.run(doc! { "listShards": 1, "maxTimeMS": limit }).await;
    if facts.login.users.is_empty() {
        facts.login.required = login_required(listed.as_ref());
    }
    facts.cluster_error = failed(listed.as_ref());
    facts.shards = listed.and_then(Result::ok).as_ref().and_then(shards);
    if facts.shards.is_some() {
        let databases = doc! { "listDatabases": 1, "nameOnly": true, "maxTimeMS": limit };
        facts.cluster_error = failed(admin.run(databases).await.as_ref());
    }
}

type CommandReply = steadfast::error::Result<Document>;

/// Determines whether authentication is required, from the reply to a command that requires it.
fn login_required(reply: Option<&CommandReply>) -> Option<bool> {
    match reply? {
        Ok(_) => Some(false),
        Err(error) if error.code() == Some(UNAUTHORIZED) => Some(true),
        Err(_) => None,
    }
}

/// Returns the error of a command, unless it was not authorized.
fn failed(reply: Option<&CommandReply>) -> Option<String> {
    match reply {
        Some(Ok(_)) => None,
        Some(Err(error)) if error.code() == Some(UNAUTHORIZED) => None,
        Some(Err(error)) => Some(error.to_string()),
        None => Some("the time-out passed before a reply".to_owned()),
    }
}

fn login(status: &Document) -> AuthInfo {
    let named = |list: &str, name: &str| -> Vec<String> {
        let info = status.get_document("authInfo").and_then(|info| info.get_array(list));
        let entries = info.map(Vec::as_slice).unwrap_or_default().iter();
        let with_database = |entry: &Document| {
            Some(format!("{}@{}", entry.get_str(name).ok()?, entry.get_str("db").ok()?))
        };
        entries.filter_map(|entry| entry.as_document().and_then(with_database)).collect()
    };
    AuthInfo {
        users: named("authenticatedUsers", "user"),
        roles: named("authenticatedUserRoles", "role"),
        required: None,
    }
}

fn members(reply: &Document) -> Option<Vec<Member>> {
    let members = reply.get_document("config").ok()?.get_array("members").ok()?;
    let member = |it: &Document| {
        let is = |field| it.get_bool(field).unwrap_or(false);
        Some(Member {
            host: it.get_str("host").ok()?.to_owned(),
            votes: it.get("votes").and_then(number) != Some(0),
            arbiter: is("arbiterOnly"),
            hidden: is("hidden"),
        })
    };
    Some(members.iter().filter_map(|it| it.as_document().and_then(member)).collect())
}

fn shards(reply: &Document) -> Option<Vec<Shard>> {
    let shard = |it: &Document| {
        Some(Shard {
            name: it.get_str("_id").ok()?.to_owned(),
            host: it.get_str("host").ok()?.to_owned(),
            draining: it.get_bool("draining").unwrap_or(false),
            members: Vec::new(),
        })
    };
    let shards = reply.get_array("shards").ok()?.iter();
    Some(shards.filter_map(|it| it.as_document().and_then(shard)).collect())
}

fn number(value: &steadfast::bson::Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}
