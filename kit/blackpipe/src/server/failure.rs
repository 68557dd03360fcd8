//! Replies that say no: to the command, to a write of it, or to its durability.

use blackpipe_base::codes::name_of;
use bson::{Document, doc};

/// A reply that says no. It is a [`Step`](super::Step): give it to
/// [`then`](super::Expected::then).
///
/// ```
/// use blackpipe::server::{Failure, error, write_concern_error, write_error};
/// use bson::doc;
///
/// let refusal = error(11600).labelled("RetryableWriteError").saying("going down");
/// let reply = doc! {
///     "ok": 0, "errmsg": "going down", "code": 11600, "codeName": "InterruptedAtShutdown",
///     "errorLabels": ["RetryableWriteError"],
/// };
/// assert_eq!(refusal.into_reply(), reply);
///
/// // Of a batch, the first was done and the second was not; nor is the first durable.
/// let mixed = write_error(1, 11000).n(1).and(write_concern_error(64));
/// assert_eq!(mixed.into_reply().get_array("writeErrors").unwrap().len(), 1);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Failure {
    reply: Document,
    /// Which part of the reply has the code: the reply itself, or one of its fields.
    kind: Kind,
    labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    Write,
    WriteConcern,
}

/// The command is refused as a whole, with this code.
pub fn error(code: i32) -> Failure {
    let name = name_of(code);
    let mut reply = doc! { "ok": 0, "errmsg": message(code), "code": code };
    if let Some(name) = name {
        reply.insert("codeName", name);
    }
    Failure { reply, kind: Kind::Command, labels: Vec::new() }
}

/// The statement at this index of a write fails with this code. None was done, unless
/// [`n`](Failure::n) says otherwise.
pub fn write_error(index: i32, code: i32) -> Failure {
    let error = doc! { "index": index, "code": code, "errmsg": message(code) };
    let reply = doc! { "ok": 1, "n": 0, "writeErrors": [error] };
    Failure { reply, kind: Kind::Write, labels: Vec::new() }
}

/// What was written, one document unless [`n`](Failure::n) says otherwise, is not durable.
pub fn write_concern_error(code: i32) -> Failure {
    let mut error = doc! { "code": code, "errmsg": message(code) };
    if let Some(name) = name_of(code) {
        error.insert("codeName", name);
    }
    let reply = doc! { "ok": 1, "n": 1, "writeConcernError": error };
    Failure { reply, kind: Kind::WriteConcern, labels: Vec::new() }
}

impl Failure {
    /// With this message.
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.error_mut().insert("errmsg", message.into());
        self
    }

    /// With this name for the code.
    pub fn named(mut self, code_name: impl Into<String>) -> Self {
        self.error_mut().insert("codeName", code_name.into());
        self
    }

    /// With this label, beside those that it has.
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into());
        self
    }

    /// So many documents were written.
    pub fn n(mut self, written: i32) -> Self {
        self.reply.insert("n", written);
        self
    }

    /// With these fields in the reply.
    pub fn with(mut self, fields: Document) -> Self {
        self.reply.extend(fields);
        self
    }

    /// This and another in the same reply: further write errors, or a write concern error beside
    /// write errors. How many were written is what the first of them says.
    pub fn and(mut self, other: Failure) -> Self {
        let n = self.reply.get("n").cloned();
        for (key, value) in other.reply {
            match (self.reply.get_array_mut(&key), value) {
                (Ok(errors), bson::Bson::Array(more)) => errors.extend(more),
                (_, value) => drop(self.reply.insert(key, value)),
            }
        }
        if let Some(n) = n {
            self.reply.insert("n", n);
        }
        self.labels.extend(other.labels);
        self
    }

    /// The reply.
    pub fn into_reply(mut self) -> Document {
        if !self.labels.is_empty() {
            self.reply.insert("errorLabels", self.labels);
        }
        self.reply
    }

    fn error_mut(&mut self) -> &mut Document {
        match self.kind {
            Kind::Command => &mut self.reply,
            Kind::Write => {
                let errors = self.reply.get_array_mut("writeErrors").expect("made with it");
                errors[0].as_document_mut().expect("made as a document")
            }
            Kind::WriteConcern => {
                self.reply.get_document_mut("writeConcernError").expect("made with it")
            }
        }
    }
}

fn message(code: i32) -> String {
    match name_of(code) {
        Some(name) => format!("{name}, as the test's script says"),
        None => format!("error {code}, as the test's script says"),
    }
}
