//! The fault proxy: between any client and any real server.
//!
//! It passes on what clients and servers say to each other, keeps a [`Ledger`] of what each server
//! really executed, and does by [`Rule`]s what networks and servers do on bad days: a connection
//! that breaks before, in or after a request, a reply that is lost after the server executed, a
//! delay, an error. A whole replica set can stand behind it: addresses in replies become the
//! proxy's own, so that a client's discovery stays inside.
//!
//! ```no_run
//! use blackpipe::proxy::{Proxy, Reaction, Rule};
//!
//! # async fn example() -> Result<(), blackpipe::proxy::ProxyError> {
//! let proxy = Proxy::before("mongodb://localhost:27017").start().await?;
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
//! # Rules from elsewhere
//!
//! [`parse_rules`] and [`read_rules`] read rules from TOML. A client of the proxy, in whichever
//! language, switches them with the command `blackPipe`, or with `configureFailPoint:
//! "failCommand"`, which the proxy answers in the server's place:
//!
//! ```text
//! db.adminCommand({ blackPipe: 1, add: { command: "insert", times: 1, then: "loseReply" } })
//! db.adminCommand({ blackPipe: 1, ledger: { command: "insert" } })
//! db.adminCommand({ blackPipe: 1, clear: "all" })
//! ```
//!
//! # What it does not do
//!
//! - TLS with clients. With servers, it does (`tls=true` and so on in the connection string).
//! - A request is sent on when it is whole, so that one which a client leaves half-sent never reaches
//!   the server; but for large ones while there is no rule, which are passed on as they come.
//! - A refused connection is accepted, and reset at once.
//! - `mongodb+srv` is not resolved.

mod admin;
mod answer;
mod dial;
mod error;
mod event;
mod fail_point;
mod inbox;
mod ledger;
mod line;
mod members;
mod outlet;
mod reaction;
mod rewrite;
mod rule;
mod rulebook;
mod rules_file;
mod running;
mod shared;
mod sight;
#[cfg(feature = "tls")]
mod tls;
mod upstream;

pub use self::{
    error::ProxyError,
    event::{Event, Shown},
    ledger::{Count, Delivery, Ledger, LedgerEntry, TrackedWrite, WriteId},
    reaction::{Direction, ErrorReply, Reaction, WriteConcernError},
    rule::{Rule, RuleError},
    rulebook::RuleState,
    rules_file::{parse_rules, read_rules},
    running::{Proxy, ProxyBuilder},
    sight::Outcome,
};
