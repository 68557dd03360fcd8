//! Error replies: command errors, write errors, write concern errors.

use blackpipe_base::codes::name_of;
use bson::{Document, doc};

/// An error reply. It converts into a [`Step`](super::Step) for
/// [`then`](super::ExpectedRequest::then).
///
/// ```
/// use blackpipe::server::{FailureReply, error, write_concern_error, write_error};
/// use bson::doc;
///
/// let failed = error(11600).labelled("RetryableWriteError").with_message("going down");
/// let reply = doc! {
///     "ok": 0, "errmsg": "going down", "code": 11600, "codeName": "InterruptedAtShutdown",
///     "errorLabels": ["RetryableWriteError"],
/// };
/// assert_eq!(failed.into_reply(), reply);
///
/// // Of a batch, the first was done and the second was not; nor is the first durable.
/// let mixed = write_error(1, 11000).n(1).and(write_concern_error(64));
/// assert_eq!(mixed.into_reply().get_array("writeErrors").unwrap().len(), 1);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FailureReply {
    reply: Document,
    /// Part of the reply that has the code.
    kind: FailureLevel,
    labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureLevel {
    Command,
    Write,
    WriteConcern,
}

/// Creates a command error with this code.
pub fn error(code: i32) -> FailureReply {
    let name = name_of(code);
    let mut reply = doc! { "ok": 0, "errmsg": message(code), "code": code };
    if let Some(name) = name {
        reply.insert("codeName", name);
    }
    FailureReply { reply, kind: FailureLevel::Command, labels: Vec::new() }
}

/// Creates a write error for the statement at this index. The reply has `n: 0`, unless
/// [`n`](FailureReply::n) sets it.
pub fn write_error(index: i32, code: i32) -> FailureReply {
    let error = doc! { "index": index, "code": code, "errmsg": message(code) };
    let reply = doc! { "ok": 1, "n": 0, "writeErrors": [error] };
    FailureReply { reply, kind: FailureLevel::Write, labels: Vec::new() }
}

/// Creates a write concern error. The reply has `n: 1`, unless [`n`](FailureReply::n) sets it.
pub fn write_concern_error(code: i32) -> FailureReply {
    let mut error = doc! { "code": code, "errmsg": message(code) };
    if let Some(name) = name_of(code) {
        error.insert("codeName", name);
    }
    let reply = doc! { "ok": 1, "n": 1, "writeConcernError": error };
    FailureReply { reply, kind: FailureLevel::WriteConcern, labels: Vec::new() }
}

impl FailureReply {
    /// Sets the message (`errmsg`).
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.error_mut().insert("errmsg", message.into());
        self
    }

    /// Sets the name of the code (`codeName`).
    pub fn with_code_name(mut self, code_name: impl Into<String>) -> Self {
        self.error_mut().insert("codeName", code_name.into());
        self
    }

    /// Adds an error label (`errorLabels`).
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into());
        self
    }

    /// Sets the number of written documents (`n`).
    pub fn n(mut self, written: i32) -> Self {
        self.reply.insert("n", written);
        self
    }

    /// Adds fields to the reply.
    pub fn with(mut self, fields: Document) -> Self {
        self.reply.extend(fields);
        self
    }

    /// Adds the errors of another reply: write errors, or a write concern error. Keeps `n` of the
    /// first.
    pub fn and(mut self, other: FailureReply) -> Self {
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

    /// Returns the reply document.
    pub fn into_reply(mut self) -> Document {
        if !self.labels.is_empty() {
            self.reply.insert("errorLabels", self.labels);
        }
        self.reply
    }

    fn error_mut(&mut self) -> &mut Document {
        match self.kind {
            FailureLevel::Command => &mut self.reply,
            FailureLevel::Write => {
                let errors = self.reply.get_array_mut("writeErrors").expect("made with it");
                errors[0].as_document_mut().expect("made as a document")
            }
            FailureLevel::WriteConcern => {
                self.reply.get_document_mut("writeConcernError").expect("made with it")
            }
        }
    }
}

fn message(code: i32) -> String {
    match name_of(code) {
        Some(name) => format!("{name} (scripted by the test)"),
        None => format!("error {code} (scripted by the test)"),
    }
}
