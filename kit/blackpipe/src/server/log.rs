//! Requests and connections of a server.

use blackpipe_base::message::Request;

/// Requests and connections of a server so far. [`Server::log`](super::Server::log) returns it
/// immediately, [`Server::wait_for`](super::Server::wait_for) when it meets a condition.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerLog {
    /// Complete requests, in the order of arrival.
    pub requests: Vec<Request>,
    /// Total number of connections.
    pub opened: usize,
    /// Number of open connections.
    pub open: usize,
    /// Highest number of open connections at a time.
    pub most_open: usize,
    /// Number of requests that the script cut.
    pub cut: usize,
}

impl ServerLog {
    /// Returns the requests with this command name.
    pub fn named(&self, name: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.name == name).collect()
    }

    /// Returns the connection numbers of the requests with this command name.
    pub fn connections_of(&self, name: &str) -> Vec<usize> {
        self.named(name).iter().map(|request| request.connection).collect()
    }

    pub(super) fn opened(&mut self) -> usize {
        self.opened += 1;
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        self.opened
    }
}
