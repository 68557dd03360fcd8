//! Where the tasks of servers run: in the runtime of the test, or in a thread of their own.

use std::{sync::Arc, thread};

use tokio::{runtime::Handle, sync::oneshot};

/// Where tasks run. The thread, if it is one, ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) handle: Handle,
    _thread: Option<Arc<Thread>>,
}

impl Home {
    /// The runtime that calls; without one, or if it is wanted so, a thread.
    pub(crate) fn find(in_thread: bool) -> Self {
        match Handle::try_current() {
            Ok(handle) if !in_thread => Self { handle, _thread: None },
            Ok(_) | Err(_) => Self::start_thread(),
        }
    }

    fn start_thread() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime for servers");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("blackpipe".to_owned()).spawn(move || {
            // It ends with an error: the other end is dropped. The tasks end with the runtime.
            let _ = runtime.block_on(stopped);
        });
        let thread = thread.expect("a thread for servers");
        let thread = Thread { stop: Some(stop), thread: Some(thread) };
        Self { handle, _thread: Some(Arc::new(thread)) }
    }
}

#[derive(Debug)]
struct Thread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        // A task may hold the last clone, and cannot wait for itself.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}
