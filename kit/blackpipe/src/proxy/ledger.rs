//! Record of what each server received, replied and executed.
//!
//! A write was executed if the server's reply reports success. A server replies to a repeated
//! retryable write (same `lsid` and `txnNumber`) from its session record, and marks that with
//! `retriedStmtIds`. If the first reply never arrived and the second came from the record, the
//! first delivery was executed.

mod report;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use super::message_view::{CommandView, ReplySummary};

/// Maximum number of recorded requests. Counts continue beyond it.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of recorded retryable writes.
const MAX_WRITES: usize = 50_000;
/// Maximum number of separate counts. It bounds memory if a client invents names.
const MAX_COUNTERS: usize = 5_000;
const OTHERS: &str = "(others)";
/// Longer names are counted under [`OTHERS`]. Names of servers have at most 255 bytes.
const MAX_NAME_BYTES: usize = 1_000;

/// Identity of a retryable write: `lsid` and `txnNumber`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    /// Session id (`lsid.id`).
    pub session: [u8; 16],
    /// Transaction number (`txnNumber`).
    pub txn_number: i64,
}

impl WriteId {
    /// Returns the identity of a retryable write, a commit or an abort. Statements of a transaction
    /// share its number, so their repetition cannot be detected.
    fn of(command: &CommandView<'_>) -> Option<Self> {
        let retryable = !command.in_transaction || command.ends_transaction();
        let (session, txn_number) = (command.lsid?, command.txn_number?);
        retryable.then_some(Self { session, txn_number })
    }

    /// Session id in hexadecimal.
    pub fn session_hex(&self) -> String {
        self.session.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session_hex(), self.txn_number)
    }
}

/// Part of a request that was delivered to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Nothing.
    None,
    /// This number of bytes.
    Part(usize),
    /// The whole request.
    Whole,
}

/// A recorded request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// Sequence number over all connections.
    pub number: u64,
    /// Number of the connection.
    pub connection: u64,
    /// Server of the connection.
    pub server: Arc<str>,
    /// Name of the command.
    pub command: Arc<str>,
    /// Collection, or database if the command has none.
    pub namespace: Arc<str>,
    /// Identity of the retryable write. `None` for other commands.
    pub write: Option<WriteId>,
    /// Number of statements: inserted documents, updates, deletes.
    pub statements: usize,
    /// Part of the request that was delivered to the server.
    pub delivery: Delivery,
    /// Summary of the server's reply. `None` if none arrived.
    pub answer: Option<ReplySummary>,
    /// Number of reply bytes sent to the client, from the server or the proxy.
    pub returned_bytes: usize,
    /// Names of the rules that applied.
    pub rules: Vec<String>,
    ordered: bool,
    /// Index of its counts.
    kind: usize,
}

/// A retryable write with all of its attempts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrackedWrite {
    /// Session and transaction number.
    pub id: WriteId,
    /// Name of the command.
    pub command: Arc<str>,
    /// Collection of the write.
    pub namespace: Arc<str>,
    /// Number of attempts by the client.
    pub attempts: u64,
    /// Number of whole deliveries to a server.
    pub deliveries: u64,
    /// Number of successful replies, executed or from the session record.
    pub acknowledged: u64,
    /// Number of executions, whole or partial.
    pub executions: u64,
    /// Number of replies from the session record, without an execution.
    pub from_record: u64,
    /// Number of error replies.
    pub errors: u64,
    /// Number of statements: inserted documents, updates, deletes.
    pub statements: u64,
    /// Number of statements executed with an effect, over all attempts. More than
    /// [`statements`](Self::statements) means that one was applied twice.
    pub statements_executed: u64,
}

impl TrackedWrite {
    /// Returns `true` if a statement was applied more than once.
    pub fn was_applied_twice(&self) -> bool {
        self.statements_executed > self.statements
    }
}

/// Counts for one server, command and namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Requests received from clients.
    pub attempts: u64,
    /// Requests delivered whole to the server.
    pub deliveries: u64,
    /// Requests executed, according to the replies.
    pub executions: u64,
    /// Replies from the session record.
    pub from_record: u64,
    /// Error replies.
    pub errors: u64,
}

/// Requests that share a counter.
#[derive(Clone, Debug)]
struct RequestCounter {
    server: Arc<str>,
    command: Arc<str>,
    namespace: Arc<str>,
    count: RequestCounts,
}

impl RequestCounter {
    /// Returns shared names for a request, or its own if it is counted under [`OTHERS`].
    fn names(&self, command: &str, namespace: &str) -> (Arc<str>, Arc<str>) {
        match &*self.namespace == OTHERS && fits_limit(command) && fits_limit(namespace) {
            true => (command.into(), namespace.into()),
            false => (Arc::clone(&self.command), Arc::clone(&self.namespace)),
        }
    }
}

fn fits_limit(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
}

/// Index of each counter by server, command and namespace.
type CounterIndexes = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>>;

/// Record of requests, replies and executions.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: VecDeque<LedgerEntry>,
    next: u64,
    writes: HashMap<WriteId, TrackedWrite>,
    order: VecDeque<WriteId>,
    counters: Vec<RequestCounter>,
    counter_indexes: CounterIndexes,
}

impl Ledger {
    /// Returns the recorded requests in the order of arrival; at most the last 10,000.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.iter()
    }

    /// Returns the retryable writes in the order of their first attempt; at most the last 50,000.
    pub fn writes(&self) -> impl Iterator<Item = &TrackedWrite> {
        self.order.iter().filter_map(|id| self.writes.get(id))
    }

    /// Returns the retryable writes with this command on this collection.
    pub fn writes_of(&self, command: &str, namespace: &str) -> Vec<&TrackedWrite> {
        let is_selected =
            |write: &&TrackedWrite| &*write.command == command && &*write.namespace == namespace;
        self.writes().filter(is_selected).collect()
    }

    /// Returns all counters as server, command, namespace and counts.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &str, &str, RequestCounts)> {
        let numbers =
            self.counter_indexes.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        numbers
            .filter_map(|number| self.counters.get(*number))
            .map(|kind| (&*kind.server, &*kind.command, &*kind.namespace, kind.count))
    }

    /// Returns the counts of a command on a collection or database, summed over all servers.
    pub fn count(&self, command: &str, namespace: &str) -> RequestCounts {
        let mut sum = RequestCounts::default();
        for (_, name, place, count) in self.counts() {
            if name == command && place == namespace {
                sum.attempts += count.attempts;
                sum.deliveries += count.deliveries;
                sum.executions += count.executions;
                sum.from_record += count.from_record;
                sum.errors += count.errors;
            }
        }
        sum
    }

    /// Returns `true` if a statement of a retryable write was applied more than once.
    pub fn anything_applied_twice(&self) -> bool {
        self.writes().any(TrackedWrite::was_applied_twice)
    }

    /// Removes all records. Sequence numbers continue, so that requests in flight do not match new
    /// records.
    pub(crate) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    /// Records the arrival of a request.
    pub(crate) fn arrived(
        &mut self,
        server: &Arc<str>,
        connection: u64,
        command: &CommandView<'_>,
        namespace: &str,
    ) -> RecordedRequest {
        let kind = self.counter_index(server, command.name, namespace);
        self.counters[kind].count.attempts += 1;
        let (name, namespace) = self.counters[kind].names(command.name, namespace);
        let tracked = WriteId::of(command)
            .and_then(|id| Some((id, self.track(id, command, &name, &namespace)?)));
        let is_retry = tracked.is_some_and(|(_, is_retry)| is_retry);
        let number = self.next;
        self.next += 1;
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(LedgerEntry {
            number,
            connection,
            server: Arc::clone(server),
            command: Arc::clone(&name),
            namespace: Arc::clone(&namespace),
            write: tracked.map(|(id, _)| id),
            statements: command.statements,
            delivery: Delivery::None,
            answer: None,
            returned_bytes: 0,
            rules: Vec::new(),
            ordered: command.ordered,
            kind,
        });
        RecordedRequest { number, is_retry, command: name, namespace }
    }

    /// Records an attempt. Returns `true` for a retry, and `None` if another write has the same
    /// number.
    fn track(
        &mut self,
        id: WriteId,
        command: &CommandView<'_>,
        name: &Arc<str>,
        namespace: &Arc<str>,
    ) -> Option<bool> {
        if let Some(write) = self.writes.get_mut(&id) {
            // A commit and an abort share the number of their transaction, but are different
            // writes.
            let same = write.command == *name;
            write.attempts += u64::from(same);
            return same.then_some(true);
        }
        if self.order.len() == MAX_WRITES
            && let Some(oldest) = self.order.pop_front()
        {
            self.writes.remove(&oldest);
        }
        self.order.push_back(id);
        let write = TrackedWrite {
            id,
            command: Arc::clone(name),
            namespace: Arc::clone(namespace),
            attempts: 1,
            deliveries: 0,
            acknowledged: 0,
            executions: 0,
            from_record: 0,
            errors: 0,
            statements: command.statements as u64,
            statements_executed: 0,
        };
        self.writes.insert(id, write);
        Some(false)
    }

    /// Records the rules that applied to a request.
    pub(crate) fn applied(&mut self, number: u64, rules: &[String]) {
        if let Some(entry) = self.entry(number) {
            entry.rules = rules.to_vec();
        }
    }

    /// Records the delivery of a request to the server.
    pub(crate) fn delivered(&mut self, number: u64, delivery: Delivery) {
        let Some(entry) = self.entry(number) else { return };
        entry.delivery = delivery;
        if delivery != Delivery::Whole {
            return;
        }
        let write = entry.write;
        let kind = entry.kind;
        self.counters[kind].count.deliveries += 1;
        if let Some(write) = write.and_then(|id| self.writes.get_mut(&id)) {
            write.deliveries += 1;
        }
    }

    /// Records the server's reply.
    pub(crate) fn answered(&mut self, number: u64, outcome: ReplySummary) {
        let Some(entry) = self.entry(number) else { return };
        // The first of several replies (`moreToCome`) reports the execution.
        if entry.answer.replace(outcome).is_some() {
            return;
        }
        let (kind, write) = (entry.kind, entry.write);
        let executed = entry.statements_executed(&outcome);
        let effective = entry.statements_with_effect(&outcome);
        let statements = entry.statements;
        let ends_transaction = matches!(&*entry.command, "commitTransaction" | "abortTransaction");
        let mut added = RequestCounts::default();
        match outcome {
            ReplySummary { ok: false, .. } => added.errors = 1,
            ReplySummary { retried: 1.., .. } if executed == 0 => added.from_record = 1,
            // No statement succeeded, for example because of a unique index.
            ReplySummary { write_errors: 1.., .. } if executed == 0 => added.errors = 1,
            _ => added.executions = 1,
        }
        if let Some(write) = write.and_then(|id| self.writes.get_mut(&id)) {
            if added.from_record == 1 && write.executions == 0 {
                // The reply to the first delivery never arrived.
                added.executions = 1;
                write.statements_executed += statements as u64;
            }
            if ends_transaction && added.executions == 1 && write.executions > 0 {
                // A transaction ends once. Repeated commits are replies from the record.
                (added.executions, added.from_record) = (0, 1);
            }
            write.acknowledged += 1 - added.errors;
            write.executions += added.executions;
            write.from_record += added.from_record;
            write.errors += added.errors;
            write.statements_executed += effective as u64;
        }
        let count = &mut self.counters[kind].count;
        count.executions += added.executions;
        count.from_record += added.from_record;
        count.errors += added.errors;
    }

    /// Records the number of reply bytes sent to the client.
    pub(crate) fn returned(&mut self, number: u64, bytes: usize) {
        if let Some(entry) = self.entry(number) {
            entry.returned_bytes += bytes;
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut LedgerEntry> {
        let first = self.entries.front()?.number;
        self.entries.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    fn counter_index(&mut self, server: &Arc<str>, command: &str, namespace: &str) -> usize {
        let of_server = self.counter_indexes.entry(Arc::clone(server)).or_default();
        let known = of_server.get(command).and_then(|commands| commands.get(namespace));
        if let Some(number) = known {
            return *number;
        }
        let others = (OTHERS, OTHERS);
        let counted_apart =
            self.counters.len() < MAX_COUNTERS && fits_limit(command) && fits_limit(namespace);
        if !counted_apart && (command, namespace) != others {
            return self.counter_index(server, OTHERS, OTHERS);
        }
        let (command, namespace): (Arc<str>, Arc<str>) = (command.into(), namespace.into());
        let number = self.counters.len();
        let of_command = of_server.entry(Arc::clone(&command)).or_default();
        of_command.insert(Arc::clone(&namespace), number);
        let server = Arc::clone(server);
        self.counters.push(RequestCounter {
            server,
            command,
            namespace,
            count: RequestCounts::default(),
        });
        number
    }
}

/// A request that was added to the ledger.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) number: u64,
    /// `true` if the client sent the same write before.
    pub(crate) is_retry: bool,
    pub(crate) command: Arc<str>,
    pub(crate) namespace: Arc<str>,
}

impl LedgerEntry {
    /// Number of statements that the server executed, according to its reply.
    fn statements_executed(&self, outcome: &ReplySummary) -> usize {
        if !outcome.ok {
            return 0;
        }
        let reached = match outcome.first_write_error {
            Some(first) if self.ordered => first,
            Some(_) | None => self.statements.saturating_sub(outcome.write_errors),
        };
        reached.saturating_sub(outcome.retried)
    }

    /// Number of executed statements that changed data. Servers keep no record of a write without
    /// an effect and execute its retry again, also without an effect.
    fn statements_with_effect(&self, outcome: &ReplySummary) -> usize {
        let changed = outcome.changed.map(|changed| usize::try_from(changed).unwrap_or(0));
        self.statements_executed(outcome).min(changed.unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests;
