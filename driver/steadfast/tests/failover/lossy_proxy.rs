//! Fault proxy that drops every n-th write: half of them as requests, half as replies. It counts both, so the
//! expected results are known.

use std::net::SocketAddr;

use blackpipe::proxy::{Delivery, LedgerEntry, Proxy, Reaction, Rule};

const WRITES: [&str; 4] = ["insert", "update", "delete", "findAndModify"];
const REQUESTS: &str = "lost requests";
const REPLIES: &str = "lost replies";

/// Running proxy. Dropping it stops it.
pub(crate) struct LossyProxy {
    proxy: Proxy,
}

impl LossyProxy {
    /// Starts a proxy for `server` that drops one of `every` writes, with its connection.
    pub(crate) async fn start(server: SocketAddr, every: u64) -> Self {
        let lossy = |then, name| WRITES.into_iter().fold(Rule::new(then).name(name), Rule::command);
        let replies = lossy(Reaction::lose_reply(), REPLIES).skip(every).every(2 * every);
        // Writes that match the first rule are not counted by this one.
        let requests = lossy(Reaction::cut_request(), REQUESTS).skip(1).every(2 * every - 1);
        let uri = format!("mongodb://{server}/?directConnection=true");
        let proxy = Proxy::builder(uri).rules([replies, requests]).start().await.unwrap();
        Self { proxy }
    }

    /// Returns a connection string for the server behind the proxy, as a direct connection.
    pub(crate) fn uri(&self) -> String {
        self.proxy.uri()
    }

    /// Returns the number of writes that never reached the server.
    pub(crate) fn lost_requests(&self) -> usize {
        self.count(REQUESTS, |entry| {
            assert_eq!(entry.delivery, Delivery::None);
            true
        })
    }

    /// Returns the number of executed writes whose reply did not reach the driver.
    pub(crate) fn lost_replies(&self) -> usize {
        self.count(REPLIES, |entry| {
            assert_eq!(entry.returned_bytes, 0);
            // If the driver closed the connection before the reply arrived, the write may not be executed.
            entry.answer.is_some()
        })
    }

    fn count(&self, rule: &str, counts: impl Fn(&LedgerEntry) -> bool) -> usize {
        let ledger = self.proxy.ledger();
        assert_eq!(ledger.entries().next().expect("some passed").number, 0, "all are there");
        let lost = ledger.entries().filter(|entry| entry.rules == [rule]);
        lost.filter(|entry| counts(entry)).count()
    }

    /// Checks that no server executed a retryable write twice.
    pub(crate) fn assert_none_twice(&self) {
        let ledger = self.proxy.ledger();
        let twice: Vec<_> = ledger.writes().filter(|write| write.was_applied_twice()).collect();
        assert!(twice.is_empty(), "{twice:#?}");
    }
}
