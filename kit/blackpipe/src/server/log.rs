//! What came to a server, to be asked about.

use blackpipe_base::message::Request;

/// What came to a server so far. [`Server::log`](super::Server::log) gives it as it is,
/// [`Server::wait_for`](super::Server::wait_for) when it is as a test wants it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Log {
    /// The requests that came in whole, in their order.
    pub requests: Vec<Request>,
    /// How many connections were opened, ever.
    pub opened: usize,
    /// How many are open.
    pub open: usize,
    /// The most that were open at the same time.
    pub most_open: usize,
    /// How many requests were cut short by the script.
    pub cut: usize,
}

impl Log {
    /// The commands of this name.
    pub fn named(&self, name: &str) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.name == name).collect()
    }

    /// The connections through which the commands of this name came.
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
