//! Tests of the scripted server with a minimal client.

#![allow(missing_docs)]

mod client;
mod deployments;
mod faults;
mod malformed_input;
mod received_requests;
mod runtimes;
mod scripts;

use std::time::Duration;

use blackpipe::server::{
    Deployment, Gate, Role, Server, Step, any, command, delay, error, find, hang_up, hello, insert,
    no_reply, part_of_reply, raw_bytes, reply, reply_to_another, reset, update, wait_for,
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
