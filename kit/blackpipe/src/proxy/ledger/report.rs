//! The ledger as a document, for the command `blackPipe` and for programs.

use bson::{Bson, Document, doc};

use super::{Delivery, Ledger, LedgerEntry, RequestCounts, TrackedWrite};

/// Maximum number of entries in a document. It bounds the size of the reply.
const MAX_REPORTED_ENTRIES: usize = 1_000;

impl Ledger {
    /// Converts the ledger to a document with `counts`, `writes` and the last `entries`. A command
    /// or namespace (collection or database) filters all three.
    pub fn to_document(&self, command: Option<&str>, namespace: Option<&str>) -> Document {
        let expected = |name: &str, place: &str| {
            let inside = |expected| place == expected || place.split('.').next() == Some(expected);
            command.is_none_or(|expected| expected == name) && namespace.is_none_or(inside)
        };
        let counts = self.counts().filter(|(_, name, place, _)| expected(name, place));
        let writes = self.writes().filter(|write| expected(&write.command, &write.namespace));
        let mut entries: Vec<Bson> = self
            .entries
            .iter()
            .rev()
            .filter(|entry| expected(&entry.command, &entry.namespace))
            .take(MAX_REPORTED_ENTRIES)
            .map(|entry| entry.to_document().into())
            .collect();
        entries.reverse();
        let mut last_writes: Vec<Bson> = writes.map(|write| write.to_document().into()).collect();
        let spare = last_writes.len().saturating_sub(MAX_REPORTED_ENTRIES);
        last_writes.drain(..spare);
        doc! {
            "counts": counts.map(count_document).collect::<Vec<_>>(),
            "writes": last_writes,
            "entries": entries,
        }
    }
}

fn count_document((server, command, namespace, count): (&str, &str, &str, RequestCounts)) -> Bson {
    doc! {
        "server": server,
        "command": command,
        "namespace": namespace,
        "attempts": long(count.attempts),
        "deliveries": long(count.deliveries),
        "executions": long(count.executions),
        "fromRecord": long(count.from_record),
        "errors": long(count.errors),
    }
    .into()
}

impl TrackedWrite {
    /// Converts the write to a document.
    pub fn to_document(&self) -> Document {
        doc! {
            "session": self.id.session_hex(),
            "txnNumber": self.id.txn_number,
            "command": &*self.command,
            "namespace": &*self.namespace,
            "attempts": long(self.attempts),
            "deliveries": long(self.deliveries),
            "acknowledged": long(self.acknowledged),
            "executions": long(self.executions),
            "fromRecord": long(self.from_record),
            "errors": long(self.errors),
            "statements": long(self.statements),
            "statementsExecuted": long(self.statements_executed),
            "appliedTwice": self.was_applied_twice(),
        }
    }
}

impl LedgerEntry {
    /// Converts the request to a document.
    pub fn to_document(&self) -> Document {
        let mut document = doc! {
            "number": long(self.number),
            "connection": long(self.connection),
            "server": &*self.server,
            "command": &*self.command,
            "namespace": &*self.namespace,
        };
        if let Some(write) = self.write {
            document.insert("session", write.session_hex());
            document.insert("txnNumber", write.txn_number);
        }
        document.insert(
            "delivery",
            match self.delivery {
                Delivery::None => Bson::from("none"),
                Delivery::Part(bytes) => doc! { "bytes": long(bytes as u64) }.into(),
                Delivery::Whole => "whole".into(),
            },
        );
        if let Some(answer) = &self.answer {
            let mut shown = doc! { "ok": answer.ok };
            if let Some(code) = answer.code {
                shown.insert("code", code);
            }
            if let Some(n) = answer.n {
                shown.insert("n", small(n));
            }
            if answer.retried > 0 {
                shown.insert("retriedStatements", long(answer.retried as u64));
            }
            if answer.write_errors > 0 {
                shown.insert("writeErrors", long(answer.write_errors as u64));
            }
            if answer.write_concern_error {
                shown.insert("writeConcernError", true);
            }
            document.insert("answer", shown);
        }
        document.insert("returnedBytes", long(self.returned_bytes as u64));
        if !self.rules.is_empty() {
            document.insert("rules", self.rules.clone());
        }
        document
    }
}

/// An int32 if the number fits. Some languages map int64 to a special type.
fn long(number: u64) -> Bson {
    small(i64::try_from(number).unwrap_or(i64::MAX))
}

fn small(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}
