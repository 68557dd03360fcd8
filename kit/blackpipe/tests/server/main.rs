//! The scripted server, as a client that knows nothing but the wire protocol meets it.

#![allow(missing_docs)]

mod client;
mod deployments;
mod faults;
mod hostile;
mod in_hand;
mod scripts;
mod where_it_runs;

use std::time::Duration;

use blackpipe::server::{
    Deployment, Gate, Role, Server, Step, any, command, delay, error, find, garbage, hang_up,
    hello, insert, part_of_reply, reply, reply_to_another, reset, silence, update, wait_for,
};
use bson::{Document, doc};
use client::Client;

fn insert_one() -> Document {
    doc! { "insert": "things", "documents": [{ "_id": 1 }], "$db": "db" }
}

fn ping() -> Document {
    doc! { "ping": 1, "$db": "admin" }
}

fn done() -> Document {
    doc! { "ok": 1, "n": 1 }
}
