//! Runtime of the blocking API: one for the process, and the rules for blocking a thread.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeFlavor},
    task::{block_in_place, coop},
};

use crate::error::{Error, ErrorKind, Result};

/// Number of worker threads. They run background tasks and the I/O driver; calls run in the threads of the
/// application.
const WORKERS: usize = 2;

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("steadfast-sync")
        .enable_all()
        .build()
});

/// Returns the runtime of the blocking API. The first call starts it.
pub(crate) fn handle() -> Result<&'static Handle> {
    RUNTIME.as_ref().map(Runtime::handle).map_err(|error| {
        let message = format!("cannot start the runtime of the blocking API: {error}");
        Error::new(ErrorKind::Internal { message })
    })
}

/// Permission of the current thread to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockPermission {
    /// No runtime schedules tasks on the thread: it is outside of any, or in `spawn_blocking`.
    Free,
    /// The current runtime is a multi-thread one, which can hand the thread's tasks over.
    HandOver,
    /// A current-thread runtime runs a task on the thread. Blocking would stop all its tasks.
    Forbidden,
}

impl BlockPermission {
    fn of_thread() -> Self {
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => Self::HandOver,
            Ok(_) if has_task_budget() => Self::Forbidden,
            Ok(_) | Err(_) => Self::Free,
        }
    }
}

/// Returns `true` if tokio limits the operations that the thread may do before it yields: in a task and in `block_on`,
/// but not in `spawn_blocking`. No other public API of tokio distinguishes a task of a current-thread runtime from
/// `spawn_blocking` without a panic. A task in `tokio::task::unconstrained` has no limit and is not recognized.
fn has_task_budget() -> bool {
    // The limit is 128 today, and at most 255 by its type.
    const MORE_THAN_ANY_BUDGET: usize = 256;
    let mut context = Context::from_waker(Waker::noop());
    let mut taken = Vec::new();
    while taken.len() < MORE_THAN_ANY_BUDGET {
        match coop::poll_proceed(&mut context) {
            Poll::Ready(unit) => taken.push(unit),
            Poll::Pending => break,
        }
    }
    let is_limited = taken.len() < MORE_THAN_ANY_BUDGET;
    // Each guard restores the budget before it, so the first one is dropped last.
    while taken.pop().is_some() {}
    is_limited
}

fn would_block() -> Error {
    Error::invalid_argument(
        "the call would block the tokio runtime of this task; use the async API, or call it from \
         tokio::task::spawn_blocking",
    )
}

/// Runs a future in the current thread, and blocks the thread until its output is there.
///
/// Returns an error, without polling the future, in a task of a current-thread runtime.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output> {
    block_if(BlockPermission::of_thread(), handle()?, future)
}

/// Like [`block_on`], for a step of a cursor or stream, which can be dropped and repeated: a step over buffered
/// documents or bytes does not hand the worker over.
pub(crate) fn block_on_step<F: Future>(step: F) -> Result<F::Output> {
    let (permission, runtime) = (BlockPermission::of_thread(), handle()?);
    let mut step = pin!(step);
    if permission != BlockPermission::Forbidden {
        let _context = runtime.enter();
        if let Poll::Ready(output) = step.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(output);
        }
    }
    block_if(permission, runtime, step)
}

fn block_if<F: Future>(
    permission: BlockPermission,
    runtime: &Handle,
    future: F,
) -> Result<F::Output> {
    match permission {
        BlockPermission::Free => Ok(drive(runtime, future)),
        BlockPermission::HandOver => hand_over(runtime, future),
        BlockPermission::Forbidden => Err(would_block()),
    }
}

/// Drives a future while the multi-thread runtime moves the tasks of this worker to another thread.
fn hand_over<F: Future>(runtime: &Handle, future: F) -> Result<F::Output> {
    let mut is_handed_over = false;
    // tokio panics in a `LocalSet`, whose tasks cannot move. It has no other way to find out.
    let driven = catch_unwind(AssertUnwindSafe(|| {
        block_in_place(|| {
            is_handed_over = true;
            drive(runtime, future)
        })
    }));
    match driven {
        Ok(output) => Ok(output),
        Err(panic) if is_handed_over => resume_unwind(panic),
        Err(_) => Err(would_block()),
    }
}

/// Polls a future until it is ready. Its timers and sockets belong to `runtime`.
///
/// Unlike `Handle::block_on`, it does not panic in a task that was not recognized as one.
fn drive<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let _context = runtime.enter();
    let unparker =
        Arc::new(Unparker { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unparker));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // The flag is kept even if the future itself parks the thread and takes the token of `unpark`.
        while !unparker.is_woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// Waker that unparks a thread.
struct Unparker {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::{runtime, task, time};

    use super::*;

    fn current_thread() -> Runtime {
        runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    #[track_caller]
    fn assert_blocks() {
        // Created in the future: a timer belongs to the runtime in which it is created.
        let sleep = || async { time::sleep(Duration::from_millis(1)).await };
        block_on(sleep()).expect("the thread may block");
        block_on_step(sleep()).expect("the thread may block");
    }

    #[track_caller]
    fn assert_rejected() {
        let mut is_polled = false;
        let error = block_on(async { is_polled = true }).expect_err("the thread may not block");
        assert!(error.is_invalid_argument(), "{error}");
        assert!(error.to_string().contains("spawn_blocking"), "{error}");
        assert!(!is_polled);
    }

    #[test]
    fn blocks_outside_of_any_runtime() {
        assert_blocks();
        thread::scope(|scope| drop(scope.spawn(assert_blocks)));
    }

    #[test]
    fn blocks_in_a_multi_thread_runtime() {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async { assert_blocks() });
        runtime.block_on(async {
            // The other task runs while this one blocks, although there is one worker.
            let (sender, received) = tokio::sync::oneshot::channel();
            let blocked = task::spawn(async move { block_on(received).expect("it may block") });
            task::spawn(async move { sender.send(7) });
            assert_eq!(blocked.await.expect("it ends").expect("it was sent"), 7);
            task::spawn(async { assert_blocks() }).await.expect("it ends");
            task::spawn_blocking(assert_blocks).await.expect("it ends");
            // Nested: a future of the blocking API that blocks, such as an event handler.
            task::spawn(async { block_on(async { assert_blocks() }) })
                .await
                .expect("it ends")
                .expect("may");
        });
        let _context = runtime.enter();
        assert_blocks();
    }

    #[test]
    fn is_rejected_in_a_local_set_of_a_multi_thread_runtime() {
        let runtime = runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        task::LocalSet::new().block_on(&runtime, async { assert_rejected() });
    }

    #[test]
    fn is_rejected_in_tasks_of_a_current_thread_runtime() {
        let runtime = current_thread();
        runtime.block_on(async {
            assert_rejected();
            task::spawn(async { assert_rejected() }).await.expect("it ends");
            task::spawn_blocking(assert_blocks).await.expect("it ends");
            task::spawn_blocking(|| thread::spawn(assert_blocks).join())
                .await
                .expect("it ends")
                .expect("may");
        });
        task::LocalSet::new().block_on(&runtime, async { assert_rejected() });
        let _context = runtime.enter();
        assert_blocks();
    }

    #[test]
    fn rejection_leaves_the_task_its_budget() {
        current_thread().block_on(async {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..100 {
                sender.send(number).expect("it is open");
            }
            assert_rejected();
            let mut context = Context::from_waker(Waker::noop());
            for number in 0..100 {
                assert_eq!(receiver.poll_recv(&mut context), Poll::Ready(Some(number)));
            }
        });
    }

    #[test]
    fn unrecognized_task_blocks_without_a_panic() {
        current_thread().block_on(task::unconstrained(async { assert_blocks() }));
    }

    #[test]
    fn future_that_parks_its_thread_loses_no_wake_up() {
        let (sender, received) = mpsc::channel();
        let mut is_first = true;
        let future = std::future::poll_fn(move |context| {
            if !std::mem::take(&mut is_first) {
                return Poll::Ready(());
            }
            let (waker, sender) = (context.waker().clone(), sender.clone());
            thread::spawn(move || {
                waker.wake();
                sender.send(())
            });
            received.recv().expect("it is sent");
            thread::park_timeout(Duration::from_millis(1));
            Poll::Pending
        });
        block_on(future).expect("the thread may block");
    }

    #[test]
    #[should_panic(expected = "of the future")]
    fn panic_of_the_future_is_passed_on() {
        let runtime = runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { drop(block_on(async { panic!("of the future") })) });
    }
}
