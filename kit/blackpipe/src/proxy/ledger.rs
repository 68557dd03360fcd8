//! What each server was really given, what it said, and how often each write was executed.
//!
//! How it is known that a server executed a write: its reply says so. A retryable write (a session
//! and a `txnNumber`) that a server finds in its session record is answered from there, and the
//! reply says that, too (`retriedStmtIds`). A write whose first reply never came, and which is then
//! answered from the record, was executed by the first.

mod report;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use super::sight::{Command, Outcome};

/// How many single requests are remembered; counts go on without end.
const MOST_ENTRIES: usize = 10_000;
/// How many retryable writes are remembered.
const MOST_WRITES: usize = 50_000;
/// How many kinds of requests are counted apart. A client that makes names up fills no memory.
const MOST_KINDS: usize = 5_000;
const ANY_OTHER: &str = "(others)";
/// Longer names are kept of nothing; those of servers have at most 255 bytes.
const LONGEST_NAME_BYTES: usize = 1_000;

/// Which retryable write: the session's id and the `txnNumber`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    /// The id in `lsid`.
    pub session: [u8; 16],
    /// The `txnNumber`.
    pub txn_number: i64,
}

impl WriteId {
    /// That of a request which is retryable. The statements of a transaction share its number, so
    /// that only its end can be told to come again.
    fn of(command: &Command<'_>) -> Option<Self> {
        let retryable = !command.in_transaction || command.ends_transaction();
        let (session, txn_number) = (command.lsid?, command.txn_number?);
        retryable.then_some(Self { session, txn_number })
    }

    /// The session's id in hexadecimal digits.
    pub fn session_hex(&self) -> String {
        self.session.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session_hex(), self.txn_number)
    }
}

/// How much of a request the server was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Nothing yet, or nothing at all.
    None,
    /// Its first bytes.
    Part(usize),
    /// All of it.
    Whole,
}

/// One request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// Its number in the order in which requests came.
    pub number: u64,
    /// The connection that it came on.
    pub connection: u64,
    /// The server that it was for.
    pub server: Arc<str>,
    /// The command's name.
    pub command: Arc<str>,
    /// The collection, or else the database.
    pub namespace: Arc<str>,
    /// Which retryable write it is, if it is one.
    pub write: Option<WriteId>,
    /// How many statements (documents to insert, updates, deletes) it has.
    pub statements: usize,
    /// How much of it the server was given.
    pub delivery: Delivery,
    /// What the server said, if it did.
    pub answer: Option<Outcome>,
    /// How many bytes of an answer, the server's or another, the client was given.
    pub returned_bytes: usize,
    /// The rules that applied.
    pub rules: Vec<String>,
    ordered: bool,
    /// Where its kind is counted.
    kind: usize,
}

/// One retryable write, however often it was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrackedWrite {
    /// Which.
    pub id: WriteId,
    /// The command's name.
    pub command: Arc<str>,
    /// The collection.
    pub namespace: Arc<str>,
    /// How often the client sent it.
    pub attempts: u64,
    /// How often a server was given it whole.
    pub deliveries: u64,
    /// How often a server answered that it is done, anew or by its record.
    pub acknowledged: u64,
    /// How often a server executed it, or some of its statements, anew.
    pub executions: u64,
    /// How often a server answered from its record, without executing anything.
    pub from_record: u64,
    /// How often a server answered with an error.
    pub refused: u64,
    /// How many statements (documents to insert, updates, deletes) it has.
    pub statements: u64,
    /// How many statements servers executed anew, and to some effect. More than it has means that something was applied
    /// twice.
    pub statements_executed: u64,
}

impl TrackedWrite {
    /// Whether a statement of it was executed more than once.
    pub fn was_applied_twice(&self) -> bool {
        self.statements_executed > self.statements
    }
}

/// Counts of requests of one kind on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// How many came.
    pub attempts: u64,
    /// How many the server was given whole.
    pub deliveries: u64,
    /// How many the server executed, as far as it said so.
    pub executions: u64,
    /// How many it answered from its record.
    pub from_record: u64,
    /// How many it answered with an error.
    pub refused: u64,
}

/// Requests that are counted together.
#[derive(Clone, Debug)]
struct Kind {
    server: Arc<str>,
    command: Arc<str>,
    namespace: Arc<str>,
    count: Count,
}

impl Kind {
    /// The names of a request that is counted here, among others that are called otherwise if there
    /// are too many kinds.
    fn names(&self, command: &str, namespace: &str) -> (Arc<str>, Arc<str>) {
        match &*self.namespace == ANY_OTHER && is_kept(command) && is_kept(namespace) {
            true => (command.into(), namespace.into()),
            false => (Arc::clone(&self.command), Arc::clone(&self.namespace)),
        }
    }
}

fn is_kept(name: &str) -> bool {
    name.len() <= LONGEST_NAME_BYTES
}

/// The number of a kind, by server, command and namespace.
type Kinds = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>>;

/// What servers were given and what they said.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: VecDeque<LedgerEntry>,
    next: u64,
    writes: HashMap<WriteId, TrackedWrite>,
    order: VecDeque<WriteId>,
    kinds: Vec<Kind>,
    kind_numbers: Kinds,
}

impl Ledger {
    /// The single requests in the order in which they came; of very many, the last.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.iter()
    }

    /// The retryable writes in the order in which they first came; of very many, the last.
    pub fn writes(&self) -> impl Iterator<Item = &TrackedWrite> {
        self.order.iter().filter_map(|id| self.writes.get(id))
    }

    /// The retryable writes with this command to this collection.
    pub fn writes_of(&self, command: &str, namespace: &str) -> Vec<&TrackedWrite> {
        let wanted =
            |write: &&TrackedWrite| &*write.command == command && &*write.namespace == namespace;
        self.writes().filter(wanted).collect()
    }

    /// Counts by server, command and namespace.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &str, &str, Count)> {
        let numbers =
            self.kind_numbers.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        numbers
            .filter_map(|number| self.kinds.get(*number))
            .map(|kind| (&*kind.server, &*kind.command, &*kind.namespace, kind.count))
    }

    /// The counts of a command on a collection (or database), on all servers together.
    pub fn count(&self, command: &str, namespace: &str) -> Count {
        let mut sum = Count::default();
        for (_, name, place, count) in self.counts() {
            if name == command && place == namespace {
                sum.attempts += count.attempts;
                sum.deliveries += count.deliveries;
                sum.executions += count.executions;
                sum.from_record += count.from_record;
                sum.refused += count.refused;
            }
        }
        sum
    }

    /// Whether a statement of a retryable write was executed more than once.
    pub fn anything_applied_twice(&self) -> bool {
        self.writes().any(TrackedWrite::was_applied_twice)
    }

    /// Begins anew. Numbers go on, so that what is under way is not taken for something else.
    pub(crate) fn forget(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    /// A request came.
    pub(crate) fn arrived(
        &mut self,
        server: &Arc<str>,
        connection: u64,
        command: &Command<'_>,
        namespace: &str,
    ) -> Arrival {
        let kind = self.kind_number(server, command.name, namespace);
        self.kinds[kind].count.attempts += 1;
        let (name, namespace) = self.kinds[kind].names(command.name, namespace);
        let tracked = WriteId::of(command)
            .and_then(|id| Some((id, self.track(id, command, &name, &namespace)?)));
        let is_retry = tracked.is_some_and(|(_, is_retry)| is_retry);
        let number = self.next;
        self.next += 1;
        if self.entries.len() == MOST_ENTRIES {
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
        Arrival { number, is_retry, command: name, namespace }
    }

    /// Notes an attempt; whether it is not the first, or nothing if its number is that of another
    /// write.
    fn track(
        &mut self,
        id: WriteId,
        command: &Command<'_>,
        name: &Arc<str>,
        namespace: &Arc<str>,
    ) -> Option<bool> {
        if let Some(write) = self.writes.get_mut(&id) {
            // A transaction's end has the number of the transaction; an abort is no commit.
            let same = write.command == *name;
            write.attempts += u64::from(same);
            return same.then_some(true);
        }
        if self.order.len() == MOST_WRITES
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
            refused: 0,
            statements: command.statements as u64,
            statements_executed: 0,
        };
        self.writes.insert(id, write);
        Some(false)
    }

    /// The rules that applied to a request.
    pub(crate) fn applied(&mut self, number: u64, rules: &[String]) {
        if let Some(entry) = self.entry(number) {
            entry.rules = rules.to_vec();
        }
    }

    /// The server was given this much of a request.
    pub(crate) fn delivered(&mut self, number: u64, delivery: Delivery) {
        let Some(entry) = self.entry(number) else { return };
        entry.delivery = delivery;
        if delivery != Delivery::Whole {
            return;
        }
        let write = entry.write;
        let kind = entry.kind;
        self.kinds[kind].count.deliveries += 1;
        if let Some(write) = write.and_then(|id| self.writes.get_mut(&id)) {
            write.deliveries += 1;
        }
    }

    /// The server answered.
    pub(crate) fn answered(&mut self, number: u64, outcome: Outcome) {
        let Some(entry) = self.entry(number) else { return };
        // Of a reply in many parts, the first says that the command was executed.
        if entry.answer.replace(outcome).is_some() {
            return;
        }
        let (kind, write) = (entry.kind, entry.write);
        let executed = entry.statements_executed(&outcome);
        let effective = entry.statements_with_effect(&outcome);
        let statements = entry.statements;
        let ends_transaction = matches!(&*entry.command, "commitTransaction" | "abortTransaction");
        let mut said = Count::default();
        match outcome {
            Outcome { ok: false, .. } => said.refused = 1,
            Outcome { retried: 1.., .. } if executed == 0 => said.from_record = 1,
            // Every statement that it came to failed, on a unique index for example.
            Outcome { write_errors: 1.., .. } if executed == 0 => said.refused = 1,
            _ => said.executions = 1,
        }
        if let Some(write) = write.and_then(|id| self.writes.get_mut(&id)) {
            if said.from_record == 1 && write.executions == 0 {
                // Its first reply never came.
                said.executions = 1;
                write.statements_executed += statements as u64;
            }
            if ends_transaction && said.executions == 1 && write.executions > 0 {
                // A transaction ends once; that it has is in the record.
                (said.executions, said.from_record) = (0, 1);
            }
            write.acknowledged += 1 - said.refused;
            write.executions += said.executions;
            write.from_record += said.from_record;
            write.refused += said.refused;
            write.statements_executed += effective as u64;
        }
        let count = &mut self.kinds[kind].count;
        count.executions += said.executions;
        count.from_record += said.from_record;
        count.refused += said.refused;
    }

    /// The client was given so many bytes of a reply.
    pub(crate) fn returned(&mut self, number: u64, bytes: usize) {
        if let Some(entry) = self.entry(number) {
            entry.returned_bytes += bytes;
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut LedgerEntry> {
        let first = self.entries.front()?.number;
        self.entries.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    fn kind_number(&mut self, server: &Arc<str>, command: &str, namespace: &str) -> usize {
        let of_server = self.kind_numbers.entry(Arc::clone(server)).or_default();
        let known = of_server.get(command).and_then(|commands| commands.get(namespace));
        if let Some(number) = known {
            return *number;
        }
        let others = (ANY_OTHER, ANY_OTHER);
        let counted_apart = self.kinds.len() < MOST_KINDS && is_kept(command) && is_kept(namespace);
        if !counted_apart && (command, namespace) != others {
            return self.kind_number(server, ANY_OTHER, ANY_OTHER);
        }
        let (command, namespace): (Arc<str>, Arc<str>) = (command.into(), namespace.into());
        let number = self.kinds.len();
        let of_command = of_server.entry(Arc::clone(&command)).or_default();
        of_command.insert(Arc::clone(&namespace), number);
        let server = Arc::clone(server);
        self.kinds.push(Kind { server, command, namespace, count: Count::default() });
        number
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    /// Whether the same write was sent before.
    pub(crate) is_retry: bool,
    pub(crate) command: Arc<str>,
    pub(crate) namespace: Arc<str>,
}

impl LedgerEntry {
    /// How many statements the server executed anew, by its own account.
    fn statements_executed(&self, outcome: &Outcome) -> usize {
        if !outcome.ok {
            return 0;
        }
        let reached = match outcome.first_write_error {
            Some(first) if self.ordered => first,
            Some(_) | None => self.statements.saturating_sub(outcome.write_errors),
        };
        reached.saturating_sub(outcome.retried)
    }

    /// How many of those changed anything. Servers keep no record of a write that did not: when it
    /// comes again, it is executed again, to no effect.
    fn statements_with_effect(&self, outcome: &Outcome) -> usize {
        let changed = outcome.changed.map(|changed| usize::try_from(changed).unwrap_or(0));
        self.statements_executed(outcome).min(changed.unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests;
