//! Something that a script waits for and a test opens, once and for all.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

/// A gate that a script [waits for](super::Step::Wait) and a test opens, once and for all.
///
/// With it a test decides what comes first, and need not sleep for luck. Its clones are the same
/// gate.
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
    /// A gate that is closed.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens it, for all who wait and all who will come.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        // It cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Gate(open)" } else { "Gate(closed)" })
    }
}
