//! The request and connection rate limiters of a real MongoDB 8.2 server with access control.
//!
//! All tests share one server and run one at a time, because the limiters apply to the whole server. Parameters are
//! set through its Unix socket, which the limiters exempt.

use std::sync::OnceLock;

use steadfast::{
    Client, Collection, TransactionState,
    bson::{Bson, Document, doc},
    error::{Error, Outcome, RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR},
    event::{
        cmap::{CmapEvent, ConnectionClosedReason},
        sdam::SdamEvent,
    },
    options::ClientOptions,
};
use testbed::{Options, ReplicaSet, User, Version};
use tokio::sync::{Mutex, MutexGuard};

use crate::common::{Recorder, bounded};

const RATE_LIMIT_EXCEEDED: i32 = 449;
const CREDENTIALS: &str = "ada:secret";

/// The shared server, held by one test at a time with all limiters off.
struct LimitedServer {
    uri: String,
    control: Client,
    _lock: MutexGuard<'static, ()>,
}

impl LimitedServer {
    async fn lock() -> Self {
        static SET: OnceLock<ReplicaSet> = OnceLock::new();
        static LOCK: Mutex<()> = Mutex::const_new(());
        let lock = LOCK.lock().await;
        let options = || Options::new().version(Version::V8_2).user(User::new("ada", "secret"));
        let set = SET.get_or_init(|| ReplicaSet::start(1, options()).expect("a server"));
        let socket = set.members()[0].unix_socket().expect("a Unix socket").display().to_string();
        let host = socket.replace('%', "%25").replace('/', "%2F");
        let uri = format!("mongodb://{CREDENTIALS}@{host}/?directConnection=true");
        let control = Client::with_uri_str(uri).await.unwrap();
        let uri = set.uri().replace("mongodb://", &format!("mongodb://{CREDENTIALS}@"));
        let server = Self { uri, control, _lock: lock };
        let exempt = doc! { "ranges": [socket] };
        server.set("ingressRequestRateLimiterExemptions", exempt.clone()).await;
        server.set("ingressConnectionEstablishmentRateLimiterBypass", exempt).await;
        server.admit_all().await;
        server
    }

    async fn set(&self, parameter: &str, value: impl Into<Bson>) {
        let command = doc! { "setParameter": 1, parameter: value.into() };
        bounded(self.control.database("admin").run_command(command)).await.unwrap();
    }

    async fn admit_all(&self) {
        self.set("ingressRequestRateLimiterEnabled", false).await;
        self.set("ingressConnectionEstablishmentRateLimiterEnabled", false).await;
    }

    /// Rejects all requests of authenticated connections: the bucket never holds a whole token.
    async fn reject_requests(&self) {
        self.set("ingressRequestAdmissionRatePerSec", 1).await;
        self.set("ingressRequestAdmissionBurstCapacitySecs", 0.01).await;
        self.set("ingressRequestRateLimiterEnabled", true).await;
    }

    /// Rejects all connections for about a second, until the bucket holds a token, and admits one each
    /// second from then on.
    async fn reject_connections(&self) {
        self.set("ingressConnectionEstablishmentRatePerSec", 1).await;
        self.set("ingressConnectionEstablishmentBurstCapacitySecs", 0.01).await;
        self.set("ingressConnectionEstablishmentRateLimiterEnabled", true).await;
        self.set("ingressConnectionEstablishmentBurstCapacitySecs", 1.0).await;
    }

    async fn client(&self, change: impl FnOnce(&mut ClientOptions)) -> Client {
        let mut options = ClientOptions::parse(&self.uri).await.unwrap();
        change(&mut options);
        Client::with_options(options).unwrap()
    }

    /// An empty collection.
    async fn collection(&self, client: &Client, name: &str) -> Collection<Document> {
        let collection = client.database("rate_limiters").collection(name);
        collection.drop().await.unwrap();
        collection.insert_one(doc! { "_id": "first" }).await.unwrap();
        collection
    }

    /// The ids in a collection, read through the control connection.
    async fn ids(&self, name: &str) -> Vec<String> {
        let collection = self.control.database("rate_limiters").collection::<Document>(name);
        let mut found = collection.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
        let mut ids = Vec::new();
        while found.advance().await.unwrap() {
            ids.push(found.deserialize_current().unwrap().get_str("_id").unwrap().to_owned());
        }
        ids
    }
}

/// Checks that the request limiter rejected a command, and that the driver did not retry.
fn assert_rejected(error: &Error, outcome: Outcome) {
    assert_eq!(error.code(), Some(RATE_LIMIT_EXCEEDED), "{error:?}");
    assert!(error.contains_label(SYSTEM_OVERLOADED_ERROR), "{error:?}");
    assert!(!error.contains_label(RETRYABLE_ERROR), "{error:?}");
    assert_eq!(error.outcome(), outcome, "{error:?}");
    assert_eq!(error.attempts().len(), 1, "{error:?}");
}

fn is_topology_failure(event: &SdamEvent) -> bool {
    matches!(event, SdamEvent::ServerHeartbeatFailed(_) | SdamEvent::ServerClosed(_))
}

fn is_pool_cleared(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::PoolCleared(_))
}

fn is_rejected_connection(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::ConnectionClosed(closed) if closed.reason == ConnectionClosedReason::Error)
}

#[tokio::test]
async fn rejected_requests_change_neither_topology_nor_pool_and_are_not_applied() {
    testbed::require!(V8_2);
    let server = LimitedServer::lock().await;
    let (topology, pool) = (Recorder::new(), Recorder::new());
    let client = server
        .client(|options| {
            options.heartbeat_freq = Some(std::time::Duration::from_millis(500));
            options.sdam_event_handler = Some(topology.handler());
            options.cmap_event_handler = Some(pool.handler());
        })
        .await;
    let jobs = server.collection(&client, "jobs").await;
    let changes = |events: &[SdamEvent]| {
        let change = |event: &&SdamEvent| matches!(event, SdamEvent::ServerDescriptionChanged(_));
        events.iter().filter(change).count()
    };
    let known = changes(&topology.seen());
    server.reject_requests().await;

    let error = jobs.insert_one(doc! { "_id": "one" }).await.unwrap_err();
    assert_rejected(&error, Outcome::NotApplied);
    let many = [doc! { "_id": "two" }, doc! { "_id": "three" }];
    assert_rejected(&jobs.insert_many(many).await.unwrap_err(), Outcome::NotApplied);
    assert_rejected(&jobs.find_one(doc! {}).await.unwrap_err(), Outcome::NotApplied);
    let update = jobs.update_many(doc! {}, doc! { "$inc": { "n": 1 } }).await;
    assert_rejected(&update.unwrap_err(), Outcome::MaybeApplied);
    // New connections are greeted and authenticated; only their requests are rejected.
    let other = server.client(|_| ()).await;
    let ping = other.database("admin").run_command(doc! { "ping": 1 }).await;
    assert_rejected(&ping.unwrap_err(), Outcome::MaybeApplied);
    bounded(other.shutdown()).await;

    let heartbeats = |events: &[SdamEvent]| {
        let success = |event: &&SdamEvent| matches!(event, SdamEvent::ServerHeartbeatSucceeded(_));
        events.iter().filter(success).count()
    };
    let before = heartbeats(&topology.seen());
    topology.wait_until(|events| heartbeats(events) >= before + 2).await;
    let seen = topology.seen();
    assert!(!seen.iter().any(is_topology_failure), "{seen:?}");
    assert_eq!(changes(&seen), known, "{seen:?}");
    let seen = pool.seen();
    assert!(!seen.iter().any(|event| is_pool_cleared(event) || is_rejected_connection(event)));

    server.admit_all().await;
    jobs.insert_one(doc! { "_id": "four" }).await.unwrap();
    assert_eq!(server.ids("jobs").await, ["first", "four"]);
    assert_eq!(client.metrics().retries, 0);
}

#[tokio::test]
async fn rejected_operation_and_rejected_commit_leave_the_transaction_open() {
    testbed::require!(V8_2);
    let server = LimitedServer::lock().await;
    let client = server.client(|_| ()).await;
    let jobs = server.collection(&client, "transactions").await;
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    jobs.insert_one(doc! { "_id": "in" }).session(&mut session).await.unwrap();
    server.reject_requests().await;
    let statement = jobs.insert_one(doc! { "_id": "rejected" }).session(&mut session).await;
    assert_rejected(&statement.unwrap_err(), Outcome::NotApplied);
    assert_eq!(session.transaction_state(), TransactionState::InProgress);
    let commit = session.commit_transaction().await;
    assert_rejected(&commit.unwrap_err(), Outcome::MaybeApplied);
    assert_eq!(server.ids("transactions").await, ["first"]);

    // The server aborts a transaction after any other error. After a rejection, it commits the rest.
    server.admit_all().await;
    session.commit_transaction().await.unwrap();
    assert_eq!(server.ids("transactions").await, ["first", "in"]);
}

#[tokio::test]
async fn rejected_connection_is_retried_and_does_not_clear_the_pool() {
    testbed::require!(V8_2);
    let server = LimitedServer::lock().await;
    // If the machine stalls for a second, the server admits the connection; the test then repeats.
    for round in 0..20 {
        let (topology, pool) = (Recorder::new(), Recorder::new());
        let client = server
            .client(|options| {
                options.sdam_event_handler = Some(topology.handler());
                options.cmap_event_handler = Some(pool.handler());
                // Five random backoffs may all be too short for the server to admit connections again.
                options.max_adaptive_retries = Some(100);
            })
            .await;
        let ready = |event: &CmapEvent| matches!(event, CmapEvent::PoolReady(_));
        pool.wait_for(1, ready).await;
        server.reject_connections().await;
        let jobs = client.database("rate_limiters").collection::<Document>("connections");
        let insert = tokio::spawn(async move {
            jobs.drop().await?;
            jobs.insert_one(doc! { "_id": "one" }).await
        });
        let ended_or_rejected = pool.wait_until(|events| {
            let succeeded = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionReady(_));
            events.iter().any(|event| is_rejected_connection(event) || succeeded(event))
        });
        ended_or_rejected.await;
        server.admit_all().await;
        bounded(insert).await.unwrap().unwrap();
        assert_eq!(server.ids("connections").await, ["one"]);
        let seen = pool.seen();
        assert!(!seen.iter().any(is_pool_cleared), "{seen:?}");
        assert!(!topology.seen().iter().any(is_topology_failure), "{:?}", topology.seen());
        if seen.iter().any(is_rejected_connection) {
            let metrics = client.metrics();
            assert!(metrics.overload_retries > 0 && metrics.overload_retries == metrics.retries);
            return;
        }
        assert!(round < 19, "no connection was rejected: {seen:?}");
    }
}

#[tokio::test]
async fn rejected_connection_is_an_overload_error_of_a_command_that_was_not_sent() {
    testbed::require!(V8_2);
    let server = LimitedServer::lock().await;
    for _ in 0..20 {
        let pool = Recorder::new();
        let client = server
            .client(|options| {
                options.cmap_event_handler = Some(pool.handler());
                options.max_adaptive_retries = Some(0);
            })
            .await;
        pool.wait_for(1, |event| matches!(event, CmapEvent::PoolReady(_))).await;
        server.reject_connections().await;
        let jobs = client.database("rate_limiters").collection::<Document>("unsent");
        let inserted = bounded(jobs.insert_one(doc! { "_id": "one" })).await;
        server.admit_all().await;
        let Err(error) = inserted else { continue };
        for label in [SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR] {
            assert!(error.contains_label(label), "{error:?}");
        }
        assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
        assert!(!pool.seen().iter().any(is_pool_cleared), "{:?}", pool.seen());
        jobs.insert_one(doc! { "_id": "two" }).await.unwrap();
        return;
    }
    panic!("no connection was rejected");
}

#[tokio::test]
async fn rejected_get_more_ends_cursor_and_change_stream_with_its_error() {
    testbed::require!(V8_2);
    let server = LimitedServer::lock().await;
    let client = server.client(|_| ()).await;
    let jobs = server.collection(&client, "cursors").await;
    jobs.insert_many((0..4).map(|number| doc! { "_id": number.to_string() })).await.unwrap();
    let mut cursor = jobs.find(doc! {}).batch_size(2).await.unwrap();
    assert!(cursor.advance().await.unwrap() && cursor.advance().await.unwrap());
    let mut stream = jobs.watch().await.unwrap();
    server.reject_requests().await;
    assert_rejected(&bounded(cursor.advance()).await.unwrap_err(), Outcome::NotApplied);
    assert_rejected(&bounded(stream.next_if_any()).await.unwrap_err(), Outcome::NotApplied);
    let token = stream.resume_token().expect("the place to resume at");

    server.admit_all().await;
    assert_rejected(&cursor.advance().await.unwrap_err(), Outcome::NotApplied);
    jobs.insert_one(doc! { "_id": "later" }).await.unwrap();
    let mut stream = jobs.watch().resume_after(token).await.unwrap();
    let next = async {
        loop {
            if let Some(event) = stream.next_if_any().await.unwrap() {
                return event;
            }
        }
    };
    let event = bounded(next).await;
    assert_eq!(event.document_key, Some(doc! { "_id": "later" }));
}
