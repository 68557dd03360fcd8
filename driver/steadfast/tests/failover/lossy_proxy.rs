//! The fault proxy before one server, set to lose every so many writes: half of them on their way
//! there, half of the replies on their way back. It counts both, so that what must come of them is
//! known.

use std::net::SocketAddr;

use blackpipe::proxy::{Delivery, LedgerEntry, Proxy, Reaction, Rule};

const WRITES: [&str; 4] = ["insert", "update", "delete", "findAndModify"];
const REQUESTS: &str = "lost requests";
const REPLIES: &str = "lost replies";

/// A running proxy; it ends with this value.
pub(crate) struct LossyProxy {
    proxy: Proxy,
}

impl LossyProxy {
    /// Stands before `server` and loses one of `every` writes, with its connection.
    pub(crate) async fn start(server: SocketAddr, every: u64) -> Self {
        let lossy = |then, name| WRITES.into_iter().fold(Rule::new(then).name(name), Rule::command);
        let replies = lossy(Reaction::lose_reply(), REPLIES).skip(every).every(2 * every);
        // It is not asked about those that the first takes.
        let requests = lossy(Reaction::cut_request(), REQUESTS).skip(1).every(2 * every - 1);
        let uri = format!("mongodb://{server}/?directConnection=true");
        let proxy = Proxy::builder(uri).rules([replies, requests]).start().await.unwrap();
        Self { proxy }
    }

    /// A connection string for the server behind it alone.
    pub(crate) fn uri(&self) -> String {
        self.proxy.uri()
    }

    /// How many writes never reached the server.
    pub(crate) fn lost_requests(&self) -> usize {
        self.count(REQUESTS, |entry| {
            assert_eq!(entry.delivery, Delivery::None);
            true
        })
    }

    /// How many writes the server carried out without a reply reaching the driver.
    pub(crate) fn lost_replies(&self) -> usize {
        self.count(REPLIES, |entry| {
            assert_eq!(entry.returned_bytes, 0);
            // One that the driver hung up on before the reply came may not have been carried out.
            entry.answer.is_some()
        })
    }

    fn count(&self, rule: &str, counts: impl Fn(&LedgerEntry) -> bool) -> usize {
        let ledger = self.proxy.ledger();
        assert_eq!(ledger.entries().next().expect("some passed").number, 0, "all are there");
        let lost = ledger.entries().filter(|entry| entry.rules == [rule]);
        lost.filter(|entry| counts(entry)).count()
    }

    /// No server carried a write out twice that it could have known again.
    pub(crate) fn assert_none_twice(&self) {
        let ledger = self.proxy.ledger();
        let twice: Vec<_> = ledger.writes().filter(|write| write.was_applied_twice()).collect();
        assert!(twice.is_empty(), "{twice:#?}");
    }
}
