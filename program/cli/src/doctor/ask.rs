//! Asking the servers that were found: how far away they are, what they are, who we are to them.
//!
//! A question that is not answered, or not allowed, leaves its fact unknown.

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
    Clock, Facts, Failure, Kind, Login, Member, MemberState, RecordLifetime, Server, Shard,
};

/// So many pings give the median and the worst.
const PINGS: usize = 9;

/// The code of an error that a login would have avoided.
const UNAUTHORIZED: i32 = 13;

/// Limit of commands that wait for a shard without a primary: for 15 seconds or more by themselves.
const SHARDS_ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Asks all servers at the same time, and then the deployment as a whole.
pub(super) async fn all(client: &Client, facts: &mut Facts, until: Instant) {
    // Without a login, or a protocol in common, there are no answers to be had.
    if matches!(facts.failure, Some(Failure::Login(_) | Failure::Incompatible(_))) {
        return;
    }
    let mut asked = JoinSet::new();
    for (place, server) in facts.servers.iter().enumerate() {
        if server.server_type.is_data_bearing() {
            let (client, server) = (client.clone(), server.clone());
            asked.spawn(async move { (place, one(&client, server, until).await) });
        }
    }
    while let Some(Ok((place, (server, record_lifetime)))) = asked.join_next().await {
        let named = |lifetime| (server.address.to_string(), lifetime);
        facts.record_lifetimes.extend(record_lifetime.map(named));
        facts.servers[place] = server;
    }
    facts.record_lifetimes.sort_by(|(one, _), (other, _)| one.cmp(other));
    deployment(client, facts, until).await;
}

/// A database of one server.
pub(super) struct Line {
    admin: Database,
    criteria: SelectionCriteria,
    until: Instant,
}

impl Line {
    pub(super) fn to(client: &Client, address: &ServerAddress, until: Instant) -> Self {
        let address = address.clone();
        let only = move |server: &steadfast::ServerInfo<'_>| *server.address() == address;
        let criteria = SelectionCriteria::Predicate(Arc::new(only));
        Self { admin: client.database("admin"), criteria, until }
    }

    async fn ask(&self, question: Document) -> Option<Document> {
        self.answer(question).await?.ok()
    }

    /// None if there was no time for it.
    async fn answer(&self, question: Document) -> Option<Answer> {
        let asked = self.admin.run_command(question).selection_criteria(self.criteria.clone());
        timeout_at(self.until, asked).await.ok()
    }

    /// The minimum lifetime of the record of a retryable write; `None` if there was no time for it.
    pub(super) async fn record_lifetime(&self) -> Option<RecordLifetime> {
        const PARAMETER: &str = "TransactionRecordMinimumLifetimeMinutes";
        let answer = self.answer(doc! { "getParameter": 1, PARAMETER: 1 }).await?;
        Some(match answer {
            Ok(answer) => match answer.get(PARAMETER).and_then(number).map(u64::try_from) {
                Some(Ok(minutes)) => RecordLifetime::Known(Duration::from_secs(60 * minutes)),
                _ => RecordLifetime::NotRead(format!("it has no {PARAMETER}")),
            },
            Err(error) if error.code() == Some(UNAUTHORIZED) => RecordLifetime::Denied,
            Err(error) => RecordLifetime::NotRead(error.to_string()),
        })
    }

    /// The state of a member of a shard.
    pub(super) async fn member_state(&self) -> MemberState {
        let hello = match self.answer(doc! { "hello": 1 }).await {
            Some(Ok(hello)) => hello,
            Some(Err(error)) => return MemberState::Unreached(error.to_string()),
            None => return MemberState::Unreached("it was not reached in time".to_owned()),
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
        self.ask(doc! { "ping": 1 }).await?;
        Some(begun.elapsed())
    }
}

async fn one(
    client: &Client,
    mut server: Server,
    until: Instant,
) -> (Server, Option<RecordLifetime>) {
    let line = Line::to(client, &server.address, until);
    let info = line.ask(doc! { "buildInfo": 1 }).await;
    // The connection is open now, so that pings measure nothing else.
    server.version = info.and_then(|info| info.get_str("version").ok().map(ToOwned::to_owned));
    let mut pings = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        pings.extend(line.ping().await);
    }
    pings.sort();
    if !pings.is_empty() {
        server.round_trips = pings;
    }
    let (asked, begun) = (SystemTime::now(), Instant::now());
    if let Some(hello) = line.ask(doc! { "hello": 1 }).await {
        let took = begun.elapsed();
        let time = hello.get_datetime("localTime").ok();
        server.clock = time.map(|time| Clock::read(asked, took, *time));
        let write = hello.get_document("lastWrite").and_then(|it| it.get_datetime("lastWriteDate"));
        server.last_write = write.ok().copied().or(server.last_write);
        let minutes = hello.get_i32("logicalSessionTimeoutMinutes").ok();
        let minutes = minutes.and_then(|minutes| u64::try_from(minutes).ok());
        server.session_timeout =
            minutes.map(|minutes| Duration::from_secs(60 * minutes)).or(server.session_timeout);
        server.max_wire_version = server.max_wire_version.or(hello.get_i32("maxWireVersion").ok());
    }
    // A mongos has the parameter, too, and keeps no records; a standalone keeps none.
    let keeps_records =
        matches!(server.server_type, ServerType::RsPrimary | ServerType::RsSecondary);
    let record_lifetime = if keeps_records { line.record_lifetime().await } else { None };
    (server, record_lifetime)
}

/// What one server knows for all: the primary if there is one.
async fn deployment(client: &Client, facts: &mut Facts, until: Instant) {
    let fit = |server: &&Server| server.server_type.is_data_bearing();
    let spokesman = facts.primary().or_else(|| facts.servers.iter().find(fit));
    let Some(address) = spokesman.map(|server| server.address.clone()) else { return };
    let line = Line::to(client, &address, until);
    if let Some(status) = line.ask(doc! { "connectionStatus": 1 }).await {
        facts.login = login(&status);
    }
    if matches!(facts.kind, Kind::Sharded | Kind::LoadBalanced) {
        cluster(&line, facts).await;
    } else if facts.login.users.is_empty() {
        let answer = line.answer(doc! { "listDatabases": 1, "nameOnly": true }).await;
        facts.login.required = login_required(answer.as_ref());
    }
    if facts.kind == Kind::ReplicaSet {
        let answer = line.ask(doc! { "replSetGetConfig": 1 }).await;
        facts.members = answer.as_ref().and_then(members);
    }
    let status = line.ask(doc! { "serverStatus": 1 }).await;
    let engine = status.as_ref().and_then(|status| status.get_document("storageEngine").ok());
    facts.storage_engine =
        engine.and_then(|engine| engine.get_str("name").ok().map(ToOwned::to_owned));
}

/// Asks a mongos for the shards, then something that every shard has to answer.
async fn cluster(line: &Line, facts: &mut Facts) {
    let limit = i64::try_from(SHARDS_ANSWER_WITHIN.as_millis()).unwrap_or(i64::MAX);
    let listed = line.answer(doc! { "listShards": 1, "maxTimeMS": limit }).await;
    if facts.login.users.is_empty() {
        facts.login.required = login_required(listed.as_ref());
    }
    facts.cluster_error = failed(listed.as_ref());
    facts.shards = listed.and_then(Result::ok).as_ref().and_then(shards);
    if facts.shards.is_some() {
        let databases = doc! { "listDatabases": 1, "nameOnly": true, "maxTimeMS": limit };
        facts.cluster_error = failed(line.answer(databases).await.as_ref());
    }
}

type Answer = steadfast::error::Result<Document>;

/// Whether a login is required, by the answer to a question that only users may ask.
fn login_required(answer: Option<&Answer>) -> Option<bool> {
    match answer? {
        Ok(_) => Some(false),
        Err(error) if error.code() == Some(UNAUTHORIZED) => Some(true),
        Err(_) => None,
    }
}

/// The error of a question that was allowed.
fn failed(answer: Option<&Answer>) -> Option<String> {
    match answer {
        Some(Ok(_)) => None,
        Some(Err(error)) if error.code() == Some(UNAUTHORIZED) => None,
        Some(Err(error)) => Some(error.to_string()),
        None => Some("there was no time left to wait for an answer".to_owned()),
    }
}

fn login(status: &Document) -> Login {
    let named = |list: &str, name: &str| -> Vec<String> {
        let info = status.get_document("authInfo").and_then(|info| info.get_array(list));
        let entries = info.map(Vec::as_slice).unwrap_or_default().iter();
        let at_home = |entry: &Document| {
            Some(format!("{}@{}", entry.get_str(name).ok()?, entry.get_str("db").ok()?))
        };
        entries.filter_map(|entry| entry.as_document().and_then(at_home)).collect()
    };
    Login {
        users: named("authenticatedUsers", "user"),
        roles: named("authenticatedUserRoles", "role"),
        required: None,
    }
}

fn members(answer: &Document) -> Option<Vec<Member>> {
    let members = answer.get_document("config").ok()?.get_array("members").ok()?;
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

fn shards(answer: &Document) -> Option<Vec<Shard>> {
    let shard = |it: &Document| {
        Some(Shard {
            name: it.get_str("_id").ok()?.to_owned(),
            host: it.get_str("host").ok()?.to_owned(),
            draining: it.get_bool("draining").unwrap_or(false),
            members: Vec::new(),
        })
    };
    let shards = answer.get_array("shards").ok()?.iter();
    Some(shards.filter_map(|it| it.as_document().and_then(shard)).collect())
}

fn number(value: &steadfast::bson::Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}
