//! A gate that a script waits for and a test opens.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

/// A gate that a script [waits for](super::Step::WaitFor) and a test opens once.
///
/// A gate decides the order of events without sleeping. Clones share the gate.
///
/// ```
/// use blackpipe::server::{Gate, Server, find, reply, wait_for};
/// use bson::doc;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let gate = Gate::closed();
/// let server = Server::start();
/// server.whenever(find("db.things").then(wait_for(&gate)).then(reply(doc! { "ok": 1 })));
/// // … start the operation, do what must happen in the meantime, and then:
/// gate.open();
/// # }
/// ```
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// Creates a closed gate.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens the gate for all current and future waiters.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns `true` if the gate is open.
    pub fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the gate is open.
    pub async fn opened(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Gate(open)" } else { "Gate(closed)" })
    }
}
