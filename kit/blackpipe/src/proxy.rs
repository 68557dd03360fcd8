//! Fault proxy between any client and real MongoDB servers.
//!
//! The proxy forwards requests and replies. Its [`Ledger`] records what each server received and
//! executed. Each [`Rule`] injects a fault: it ends a connection before, in or after a request,
//! loses a reply after the server executed the request, delays a message or replaces a reply with
//! an error. The proxy can front a whole replica set: addresses in replies are rewritten, so that
//! clients discover only the proxy.
//!
//! ```no_run
//! use blackpipe::proxy::{Proxy, Reaction, Rule};
//!
//! # async fn example() -> Result<(), blackpipe::proxy::ProxyError> {
//! let proxy = Proxy::builder("mongodb://localhost:27017").start().await?;
//! proxy.add(Rule::new(Reaction::lose_reply()).command("insert").times(1));
//!
//! // … let the application connect to `proxy.uri()` and insert an order …
//!
//! let ledger = proxy.ledger();
//! let write = ledger.writes_of("insert", "shop.orders")[0];
//! assert_eq!((write.deliveries, write.executions), (2, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # Rules from files and commands
//!
//! [`parse_rules`] and [`read_rules`] read rules from TOML. Clients in any language can add and
//! remove rules with the command `blackPipe` or with `configureFailPoint: "failCommand"`. The proxy
//! replies to both itself:
//!
//! ```text
//! db.adminCommand({ blackPipe: 1, add: { command: "insert", times: 1, then: "loseReply" } })
//! db.adminCommand({ blackPipe: 1, ledger: { command: "insert" } })
//! db.adminCommand({ blackPipe: 1, clear: "all" })
//! ```
//!
//! # Limitations
//!
//! - The proxy does not speak TLS with clients. It does with servers (`tls=true` in the connection
//!   string).
//! - A request is forwarded when it has arrived completely. Large requests are forwarded while they
//!   arrive if there are no rules.
//! - A rejected connection is accepted and reset immediately.
//! - `mongodb+srv` connection strings are not supported.

mod admin;
mod connection;
mod dial;
mod error;
mod event;
mod fail_point;
mod handle;
mod ledger;
mod members;
mod message_buffer;
mod message_view;
mod own_reply;
mod reaction;
mod rewrite;
mod rule;
mod rulebook;
mod rules_file;
mod send;
mod state;
#[cfg(feature = "tls")]
mod tls;
mod upstream;

pub use self::{
    error::ProxyError,
    event::{MessageSummary, ProxyEvent},
    handle::{Proxy, ProxyBuilder},
    ledger::{Delivery, Ledger, LedgerEntry, RequestCounts, TrackedWrite, WriteId},
    message_view::ReplySummary,
    reaction::{Direction, ErrorReply, Reaction, WriteConcernError},
    rule::{Rule, RuleError},
    rulebook::RuleState,
    rules_file::{parse_rules, read_rules},
};
