//! Runtime of a server's tasks: the test's runtime, or a separate thread.

use std::{sync::Arc, thread};

use tokio::{runtime::Handle, sync::oneshot};

/// Handle of the runtime that runs a server's tasks. A thread started for it ends with the last
/// clone.
#[derive(Clone, Debug)]
pub struct TaskRuntime {
    /// Spawns tasks.
    pub handle: Handle,
    _thread: Option<Arc<Thread>>,
}

impl TaskRuntime {
    /// Returns the current runtime. Starts a thread with a runtime if there is none or `in_thread`
    /// is `true`.
    ///
    /// # Panics
    ///
    /// Panics if the thread or its runtime cannot be created.
    #[must_use]
    pub fn find(in_thread: bool) -> Self {
        match Handle::try_current() {
            Ok(handle) if !in_thread => Self { handle, _thread: None },
            Ok(_) | Err(_) => Self::start_thread(),
        }
    }

    fn start_thread() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("cannot create a runtime for test servers");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("blackpipe".to_owned()).spawn(move || {
            // Ends when the sender is dropped. The tasks end with the runtime.
            let _ = runtime.block_on(stopped);
        });
        let thread = thread.expect("cannot start a thread for test servers");
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
        // A task may hold the last clone. A thread cannot join itself.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}
