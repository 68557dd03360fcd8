//! Scripted servers with transaction tables: a retryable write with a known `txnNumber` gets the recorded reply.
//! They count the number of times that each statement was applied.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast::bson::{Binary, Document, Timestamp, doc, spec::BinarySubtype};

use super::common::{Clock, Gate, Request, Role, Server, Step, is_handshake_for_operations};

/// Length of a truncated request or reply in bytes.
const TRUNCATED_BYTES: usize = 20;

/// Fault of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault: the command is executed, and its reply is sent.
    None,
    /// The connection is closed after the request has arrived. The command is not executed.
    LostRequest,
    /// The connection is reset after a part of the request has arrived.
    TruncatedRequest,
    /// The command is executed, and the connection is closed without a reply.
    LostReply,
    /// The command is executed, and the connection is closed after a part of the reply.
    TruncatedReply,
    /// The command is executed, and the connection is closed when the gate opens.
    HeldReply,
    /// The command is executed, and no reply is sent.
    NoReply,
    /// The command is executed, and the reply has another `responseTo`.
    ReplyToAnother,
    /// Command error with this code and these labels. The command is not executed.
    CommandError(i32, &'static [&'static str]),
    /// The command is executed, and the reply contains a write concern error.
    WriteConcernError(i32, &'static [&'static str]),
    /// This number of statements are executed; the next one is a write error.
    WriteError(usize, i32, &'static [&'static str]),
}

impl Fault {
    /// Returns `true` if the driver receives a valid reply.
    pub(crate) fn is_answered(self) -> bool {
        match self {
            Self::None
            | Self::CommandError(..)
            | Self::WriteConcernError(..)
            | Self::WriteError(..) => true,
            Self::LostRequest
            | Self::TruncatedRequest
            | Self::LostReply
            | Self::TruncatedReply
            | Self::HeldReply
            | Self::NoReply
            | Self::ReplyToAnother => false,
        }
    }
}

/// State that the servers of a deployment share.
#[derive(Default)]
struct SharedState {
    /// Fields that override those of the `hello` reply. A null removes the field.
    hello: Document,
    /// Faults of the next commands, in order.
    faults: VecDeque<Fault>,
    /// Overridden `hello` fields after the next fault.
    hello_after: Option<Document>,
    /// Number of successful handshakes before some fail, and the number of those that fail.
    handshakes_before_cut: usize,
    cut_handshakes: usize,
    /// Number of commands for which a fault was chosen.
    attempts: usize,
    /// Replies to writes with a transaction id.
    record: BTreeMap<(String, i64), Document>,
    /// Number of times that each statement was applied.
    applied: BTreeMap<String, u32>,
    seconds: u32,
    /// `true` if the reply to the current command is held.
    held: bool,
}

/// Servers with a shared transaction table.
pub(crate) struct Deployment {
    pub(crate) servers: Vec<Server>,
    state: Arc<Mutex<SharedState>>,
    /// Gate that ends the command `slow` and held replies by closing the connection.
    pub(crate) gate: Gate,
}

impl Deployment {
    pub(crate) fn start(role: Role) -> Self {
        Self::start_all(role, 1)
    }

    /// Replica set with one member.
    pub(crate) fn primary() -> Self {
        Self::start(Role::Primary)
    }

    pub(crate) fn start_all(role: Role, count: usize) -> Self {
        let (state, gate) = (Arc::default(), Gate::closed());
        let servers = (0..count).map(|_| Self::start_server(role, &state, &gate)).collect();
        Self { servers, state, gate }
    }

    fn start_server(role: Role, state: &Arc<Mutex<SharedState>>, gate: &Gate) -> Server {
        let (gate, state, state_of_cuts) = (gate.clone(), Arc::clone(state), Arc::clone(state));
        let handler = move |request: &Request| {
            let mut state = state.lock().unwrap();
            let held = || vec![Step::WaitFor(gate.clone()), Step::HangUp];
            if request.name == "slow" {
                return Some(held());
            }
            let steps = match request.is_hello() {
                true => state.reply_to_hello(request),
                false => state.reply_to_command(request),
            };
            if std::mem::take(&mut state.held) { Some(held()) } else { Some(steps) }
        };
        let cut = move |_, name: &str| state_of_cuts.lock().unwrap().cut(name);
        Server::builder().role(role).handler(handler).cut_requests(cut).start()
    }

    /// Sets the faults of the next commands.
    pub(crate) fn inject(&self, faults: &[Fault]) {
        let mut state = self.state.lock().unwrap();
        state.faults.extend(faults);
        state.attempts = 0;
    }

    /// Overrides fields of the `hello` reply. A null removes a field.
    pub(crate) fn set_hello_fields(&self, fields: Document) {
        self.state.lock().unwrap().hello.extend(fields);
    }

    /// Overrides fields of the `hello` reply from the next fault on.
    pub(crate) fn set_hello_fields_after_fault(&self, fields: Document) {
        self.state.lock().unwrap().hello_after = Some(fields);
    }

    /// Closes this number of pooled connections during their handshake.
    pub(crate) fn cut_handshakes(&self, count: usize) {
        self.state.lock().unwrap().cut_handshakes = count;
    }

    /// Closes all new pooled connections during their handshake, after a network error. The error also closes the
    /// monitoring connection, whose new handshake comes first.
    pub(crate) fn cut_handshakes_after_network_error(&self) {
        let mut state = self.state.lock().unwrap();
        (state.handshakes_before_cut, state.cut_handshakes) = (1, usize::MAX);
    }

    /// Returns the number of times that each statement was applied.
    pub(crate) fn applied(&self) -> BTreeMap<String, u32> {
        self.state.lock().unwrap().applied.clone()
    }

    /// Returns the number of faults that have not occurred yet.
    pub(crate) fn faults_left(&self) -> usize {
        self.state.lock().unwrap().faults.len()
    }

    pub(crate) fn uri(&self, options: &str) -> String {
        let hosts: Vec<_> = self.servers.iter().map(Server::address).collect();
        format!("mongodb://{}/?{options}", hosts.join(","))
    }

    /// Returns the only server.
    pub(crate) fn server(&self) -> &Server {
        &self.servers[0]
    }

    /// Waits until this number of commands with this name have arrived, then advances the clock. The last one gets
    /// no reply.
    pub(crate) async fn expire_without_reply(
        &self,
        clock: &Clock,
        name: &str,
        count: usize,
        time: Duration,
    ) {
        self.server().wait_for(|log| log.named(name).len() >= count).await;
        clock.pass(time).await;
    }

    /// Returns the complete commands with this name, in order for each server.
    pub(crate) fn requests(&self, name: &str) -> Vec<Request> {
        let logs = self.servers.iter().map(Server::log);
        logs.flat_map(|log| log.named(name).into_iter().cloned().collect::<Vec<_>>()).collect()
    }
}

impl SharedState {
    fn reply_to_hello(&mut self, request: &Request) -> Vec<Step> {
        if is_handshake_for_operations(request) && self.handshakes_before_cut > 0 {
            self.handshakes_before_cut -= 1;
        } else if is_handshake_for_operations(request) && self.cut_handshakes > 0 {
            self.cut_handshakes -= 1;
            return vec![Step::HangUp];
        }
        vec![Step::Hello(self.hello.clone())]
    }

    /// Returns the number of bytes after which the request is truncated, if its fault is a truncated request.
    fn cut(&mut self, name: &str) -> Option<usize> {
        let is_due = self.faults.front() == Some(&Fault::TruncatedRequest);
        let is_exempt =
            is_background_command(name) || ["hello", "isMaster", "slow"].contains(&name);
        (is_due && !is_exempt).then(|| {
            self.next_fault();
            TRUNCATED_BYTES
        })
    }

    fn reply_to_command(&mut self, request: &Request) -> Vec<Step> {
        if is_background_command(&request.name) {
            return vec![Step::Reply(self.with_cluster_time(doc! { "ok": 1 }))];
        }
        let fault = self.next_fault();
        self.apply(fault, request)
    }

    fn next_fault(&mut self) -> Fault {
        self.attempts += 1;
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        if let (true, Some(fields)) = (fault != Fault::None, self.hello_after.take()) {
            self.hello.extend(fields);
        }
        fault
    }

    fn apply(&mut self, fault: Fault, request: &Request) -> Vec<Step> {
        let message = format!("at attempt {}", self.attempts);
        let reply = match fault {
            Fault::LostRequest | Fault::TruncatedRequest => return vec![Step::HangUp],
            Fault::CommandError(code, labels) => {
                doc! { "ok": 0, "code": code, "errmsg": message, "errorLabels": labels.to_vec() }
            }
            Fault::WriteError(count, code, labels) => {
                let mut reply = self.execute(request, count);
                let index = i32::try_from(count).unwrap();
                let error = doc! { "index": index, "code": code, "errmsg": message };
                reply.extend(doc! { "writeErrors": [error], "errorLabels": labels.to_vec() });
                reply
            }
            Fault::WriteConcernError(code, labels) => {
                let mut reply = self.execute(request, usize::MAX);
                let error = doc! { "code": code, "codeName": "Late", "errmsg": message };
                reply.extend(doc! { "writeConcernError": error, "errorLabels": labels.to_vec() });
                reply
            }
            _ => self.execute(request, usize::MAX),
        };
        let reply = self.with_cluster_time(reply);
        match fault {
            Fault::LostReply => vec![Step::HangUp],
            Fault::TruncatedReply => vec![Step::PartOfReply(reply, TRUNCATED_BYTES), Step::HangUp],
            Fault::HeldReply => {
                self.held = true;
                Vec::new()
            }
            Fault::NoReply => Vec::new(),
            Fault::ReplyToAnother => vec![Step::ReplyToAnother(reply)],
            _ if !request.expects_reply => Vec::new(),
            _ => vec![Step::Reply(reply)],
        }
    }

    /// Executes a command unless it is in the transaction table: at most this number of its statements.
    fn execute(&mut self, request: &Request, at_most: usize) -> Document {
        let key = transaction_id(request);
        if let Some(reply) = key.as_ref().and_then(|key| self.record.get(key)) {
            return reply.clone();
        }
        let statements: Vec<_> = statements(request).into_iter().take(at_most).collect();
        for statement in &statements {
            *self.applied.entry(statement.clone()).or_default() += 1;
        }
        let mut reply = default_reply(request, i32::try_from(statements.len()).unwrap());
        if request.is_in_transaction() {
            reply.insert("recoveryToken", doc! { "after": i64::from(self.seconds) });
        }
        if let Some(key) = key {
            self.record.insert(key, reply.clone());
        }
        reply
    }

    /// Adds a cluster time to the reply. It advances with each reply.
    fn with_cluster_time(&mut self, mut reply: Document) -> Document {
        self.seconds += 1;
        let time = Timestamp { time: self.seconds, increment: 1 };
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        let signature = doc! { "hash": hash, "keyId": 0_i64 };
        reply.insert("operationTime", time);
        reply.insert("$clusterTime", doc! { "clusterTime": time, "signature": signature });
        reply
    }
}

/// Returns `true` for a command that the driver sends in the background.
fn is_background_command(name: &str) -> bool {
    ["ping", "endSessions", "killCursors"].contains(&name)
}

/// Returns the session id and `txnNumber` of a retryable write. In a transaction several commands share the number.
fn transaction_id(request: &Request) -> Option<(String, i64)> {
    if request.is_in_transaction() {
        return None;
    }
    let (session, number) = request.session_and_txn_number()?;
    Some((session.to_string(), number))
}

/// Returns the statements of a command.
fn statements(request: &Request) -> Vec<String> {
    let field = match request.name.as_str() {
        "insert" => "documents",
        "update" => "updates",
        "delete" => "deletes",
        "findAndModify" => return vec![format!("{:?}", request.body.get("query"))],
        _ => return Vec::new(),
    };
    request.body.get_array(field).unwrap().iter().map(ToString::to_string).collect()
}

fn default_reply(request: &Request, n: i32) -> Document {
    let batch = doc! { "id": 0_i64, "ns": "db.books", "firstBatch": [] };
    match request.name.as_str() {
        "insert" | "delete" | "count" => doc! { "ok": 1, "n": n },
        "update" => doc! { "ok": 1, "n": n, "nModified": n },
        "findAndModify" => {
            let done = doc! { "n": 1, "updatedExisting": true };
            doc! { "ok": 1, "lastErrorObject": done, "value": { "_id": 1, "x": 1 } }
        }
        "find" if matches!(request.body.get_i32("batchSize"), Ok(1)) => {
            let batch = doc! { "id": 7_i64, "ns": "db.books", "firstBatch": [{ "x": 1 }] };
            doc! { "ok": 1, "cursor": batch }
        }
        "getMore" => {
            let batch = doc! { "id": 0_i64, "ns": "db.books", "nextBatch": [{ "x": 2 }] };
            doc! { "ok": 1, "cursor": batch }
        }
        "distinct" => doc! { "ok": 1, "values": [] },
        "listDatabases" => doc! { "ok": 1, "databases": [], "totalSize": 0 },
        "find" | "aggregate" | "listCollections" | "listIndexes" => {
            doc! { "ok": 1, "cursor": batch }
        }
        _ => doc! { "ok": 1 },
    }
}
