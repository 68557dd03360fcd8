//! A server at work: who it is, what it decides about each request, and what it has seen.

use std::{
    future::poll_fn,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicI32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    sync::{oneshot, watch},
    task::AbortHandle,
};

use super::{
    Failure, Log, Received, Role, Stage, Step, conversation::Event, error, exchange::Reaction,
    serving, standing::Standing, transport::Transport, usual,
};
use blackpipe_base::{
    address::{Listener, ReservedAddress},
    message::Request,
    runtime::TaskRuntime,
};

/// What is done about a request, if anything but the usual.
pub(super) type Handler = dyn Fn(&Request) -> Option<Vec<Step>> + Send + Sync;
/// After how many bytes a request is cut, by its connection and the name of its command.
pub(super) type CutRule = dyn Fn(usize, &str) -> Option<usize> + Send + Sync;

/// What a server does about what no script mentions.
#[derive(Clone, Default)]
pub(super) struct Manner {
    pub(super) handler: Option<Arc<Handler>>,
    pub(super) cut: Option<Arc<CutRule>>,
    /// Whether every command is welcome.
    pub(super) is_lenient: bool,
}

/// One server.
pub(super) struct Play {
    pub(super) stage: Arc<Stage>,
    pub(super) member: usize,
    pub(super) address: SocketAddr,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) log: watch::Sender<Log>,
    pub(super) manner: Manner,
    pub(super) home: TaskRuntime,
    pub(super) next_id: AtomicI32,
    pub(super) tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// The only one that keeps it: when it goes, the address is free at once.
    listener: Option<Arc<Listener>>,
    /// The address while the server is stopped.
    seat: Option<ReservedAddress>,
    accepting: Option<AbortHandle>,
    serving: Vec<AbortHandle>,
}

/// What is to be done about a request.
pub(super) enum Decision {
    Steps(Vec<Step>),
    /// The test will say.
    Asked(oneshot::Receiver<Vec<Step>>),
}

impl Play {
    /// Takes connections.
    pub(super) fn listen(self: &Arc<Self>, seat: ReservedAddress) {
        let play = Arc::clone(self);
        let _context = self.home.handle.enter();
        let listener = Arc::new(seat.listen().unwrap_or_else(|error| nobody(self.address, &error)));
        let at = Arc::downgrade(&listener);
        let accepting = self.home.handle.spawn(async move {
            loop {
                let Ok(stream) = poll_fn(|context| play.accept(&at, context)).await else {
                    // The machine has run out of something, and may have it again soon.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                // What is sent in parts is to arrive in parts.
                let _ = stream.set_nodelay(true);
                let serving = play.serve(stream);
                if at.strong_count() == 0 {
                    // The server was stopped while this one came.
                    serving.abort();
                }
            }
        });
        let mut tasks = self.tasks();
        tasks.listener = Some(listener);
        tasks.accepting = Some(accepting.abort_handle());
    }

    /// The next connection. It never comes once the server is stopped; the task that waits for it is
    /// ended then.
    fn accept(
        &self,
        at: &Weak<Listener>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<TcpStream>> {
        // Whoever stops the server waits for this, so that nobody else has the listener then.
        let _tasks = self.tasks();
        let Some(listener) = at.upgrade() else { return Poll::Pending };
        listener.poll_accept(context).map_ok(|(stream, _)| stream)
    }

    /// Serves a connection, in a task of its own.
    pub(super) fn serve(self: &Arc<Self>, stream: impl Transport) -> AbortHandle {
        let mut connection = 0;
        self.log.send_modify(|log| connection = log.opened());
        self.note(connection, Event::Opened(stream.peer()));
        let open = Open(Arc::clone(self));
        let serving = self.home.handle.spawn(async move {
            // Whichever way this ends, the stream is closed before that is written down.
            let Open(play) = &open;
            serving::serve(play, stream, connection).await;
        });
        let mut tasks = self.tasks();
        tasks.serving.retain(|task| !task.is_finished());
        tasks.serving.push(serving.abort_handle());
        serving.abort_handle()
    }

    /// Takes no more connections, closes those that there are, and keeps the address.
    pub(super) fn stop(&self) {
        let mut tasks = self.tasks();
        tasks.accepting.take().iter().for_each(AbortHandle::abort);
        if let Some(listener) = tasks.listener.take() {
            drop(listener);
            tasks.seat = ReservedAddress::reserve(self.address).ok();
        }
        tasks.serving.drain(..).for_each(|task| task.abort());
    }

    /// Takes connections again.
    pub(super) fn resume(self: &Arc<Self>) {
        let kept = self.tasks().seat.take();
        self.listen(kept.unwrap_or_else(|| take(self.address)));
    }

    /// Takes no more connections, closes those that there are, and gives the address up.
    pub(super) fn end(&self) {
        self.stop();
        self.tasks().seat = None;
    }

    pub(super) fn close_connections(&self) {
        self.tasks().serving.drain(..).for_each(|task| task.abort());
    }

    /// After how many bytes a request is to be cut that begins so.
    pub(super) fn cut(&self, connection: usize, name: Option<&str>) -> Option<usize> {
        let by_rule = || self.manner.cut.as_ref()?(connection, name?);
        self.stage.take_cut(name, self.member).or_else(by_rule)
    }

    /// What is to be done about a request, and writes down that it came.
    pub(super) fn decide(&self, request: &Request) -> Decision {
        let decision = self.guarded(request, || self.decide_by_script(request));
        self.log.send_modify(|log| log.requests.push(request.clone()));
        decision
    }

    fn decide_by_script(&self, request: &Request) -> Decision {
        match self.stage.take(request) {
            Some(Reaction::HandOver(test)) => {
                let (steps, decided) = oneshot::channel();
                // A test that is gone leaves the request without an answer.
                let _ = test.send(Received { request: request.clone(), steps });
                Decision::Asked(decided)
            }
            Some(Reaction::Steps(steps)) if steps.is_empty() => Decision::Steps(vec![Step::Usual]),
            Some(Reaction::Steps(steps)) => Decision::Steps(steps),
            Some(Reaction::Made(make)) => {
                Decision::Steps(make.lock().unwrap_or_else(PoisonError::into_inner)(request))
            }
            Some(Reaction::Cut(_)) | None => Decision::Steps(self.decide_without_script(request)),
        }
    }

    fn decide_without_script(&self, request: &Request) -> Vec<Step> {
        if let Some(handler) = &self.manner.handler
            && let Some(steps) = handler(request)
        {
            return steps;
        }
        let is_usual = self.manner.is_lenient
            || request.is_hello()
            || self.is_misplaced(request)
            || usual::to_chatter(request).is_some();
        match is_usual {
            true => vec![Step::Usual],
            false => {
                let what = format!("blackpipe: {}", self.stage.unexpected(request));
                vec![error(59).saying(what).into()]
            }
        }
    }

    /// Decides by what a test has written. If that panics, it is a failure of the script, and the
    /// connection is closed.
    fn guarded(&self, request: &Request, decide: impl FnOnce() -> Decision) -> Decision {
        catch_unwind(AssertUnwindSafe(decide)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            self.stage.failed(format!("the test's code panicked at {request}: {text}"));
            Decision::Steps(vec![Step::HangUp])
        })
    }

    /// Whether it is a write, and this server a member that is not primary.
    fn is_misplaced(&self, request: &Request) -> bool {
        self.standing.borrow().role == Role::Secondary && usual::is_for_primary(request)
    }

    /// What the server says about anything but a hello if nobody tells it what to say.
    pub(super) fn usual(&self, request: &Request) -> bson::Document {
        match self.is_misplaced(request) {
            true => self.not_primary().into_reply(),
            false => usual::to_command(request),
        }
    }

    fn not_primary(&self) -> Failure {
        let failure = error(10107).saying("not primary");
        match self.standing.borrow().topology_version() {
            Some(version) => failure.with(bson::doc! { "topologyVersion": version }),
            None => failure,
        }
    }

    /// The id of the next message that the server sends.
    pub(super) fn next_id(&self) -> i32 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn note(&self, connection: usize, event: Event) {
        self.stage.note(self.member, connection, event);
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is counted as open.
struct Open(Arc<Play>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.log.send_modify(|log| log.open -= 1);
    }
}

/// An address for a server; with port 0, one with a free port.
pub(super) fn take(address: SocketAddr) -> ReservedAddress {
    ReservedAddress::reserve(address).unwrap_or_else(|error| nobody(address, &error))
}

fn nobody(address: SocketAddr, error: &std::io::Error) -> ! {
    panic!("no socket can listen at {address}: {error}")
}
