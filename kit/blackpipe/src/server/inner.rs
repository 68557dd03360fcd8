//! One server: decides the response to each request and records it.

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
    FailureReply, ReceivedRequest, Role, ServerLog, SharedScript, Step, connection,
    default_replies, error, exchange::ScriptedResponse, hello_state::HelloState,
    transcript::TranscriptEvent, transport::Transport,
};
use blackpipe_base::{
    address::{Listener, ReservedAddress},
    message::Request,
    runtime::TaskRuntime,
};

/// Handler of a test: steps for a request, or `None` for the default reply.
pub(super) type Handler = dyn Fn(&Request) -> Option<Vec<Step>> + Send + Sync;
/// Rule that cuts requests: number of bytes by connection and command name.
pub(super) type CutRule = dyn Fn(usize, &str) -> Option<usize> + Send + Sync;

/// Response to requests that no script mentions.
#[derive(Clone, Default)]
pub(super) struct DefaultBehavior {
    pub(super) handler: Option<Arc<Handler>>,
    pub(super) cut: Option<Arc<CutRule>>,
    /// Accepts every command.
    pub(super) is_lenient: bool,
}

/// State of one server.
pub(super) struct ServerInner {
    pub(super) script: Arc<SharedScript>,
    pub(super) member: usize,
    pub(super) address: SocketAddr,
    pub(super) hello: watch::Sender<HelloState>,
    pub(super) log: watch::Sender<ServerLog>,
    pub(super) behavior: DefaultBehavior,
    pub(super) runtime: TaskRuntime,
    pub(super) next_id: AtomicI32,
    pub(super) tasks: Mutex<ServerTasks>,
}

#[derive(Debug, Default)]
pub(super) struct ServerTasks {
    /// The only owner: dropping it frees the address immediately.
    listener: Option<Arc<Listener>>,
    /// Reserved address of a stopped server.
    reserved: Option<ReservedAddress>,
    accepting: Option<AbortHandle>,
    serving: Vec<AbortHandle>,
}

/// Response that was decided for a request.
pub(super) enum RequestDecision {
    Steps(Vec<Step>),
    /// The test decides.
    AskTest(oneshot::Receiver<Vec<Step>>),
}

impl ServerInner {
    /// Starts to accept connections.
    pub(super) fn listen(self: &Arc<Self>, reserved: ReservedAddress) {
        let server = Arc::clone(self);
        let _context = self.runtime.handle.enter();
        let listener =
            Arc::new(reserved.listen().unwrap_or_else(|error| cannot_listen(self.address, &error)));
        let at = Arc::downgrade(&listener);
        let accepting = self.runtime.handle.spawn(async move {
            loop {
                let Ok(stream) = poll_fn(|context| server.accept(&at, context)).await else {
                    // The system may be out of file descriptors for a moment.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                // Nagle's algorithm would join partial replies.
                let _ = stream.set_nodelay(true);
                let serving = server.serve(stream);
                if at.strong_count() == 0 {
                    // The server was stopped while the connection was accepted.
                    serving.abort();
                }
            }
        });
        let mut tasks = self.tasks();
        tasks.listener = Some(listener);
        tasks.accepting = Some(accepting.abort_handle());
    }

    /// Accepts the next connection. Pending forever once the server is stopped; the task is aborted
    /// then.
    fn accept(
        &self,
        at: &Weak<Listener>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<TcpStream>> {
        // `stop` takes the same lock, so no accept holds the listener after it.
        let _tasks = self.tasks();
        let Some(listener) = at.upgrade() else { return Poll::Pending };
        listener.poll_accept(context).map_ok(|(stream, _)| stream)
    }

    /// Serves a connection in its own task.
    pub(super) fn serve(self: &Arc<Self>, stream: impl Transport) -> AbortHandle {
        let mut connection = 0;
        self.log.send_modify(|log| connection = log.opened());
        self.note(connection, TranscriptEvent::Opened(stream.peer()));
        let open = OpenConnectionGuard(Arc::clone(self));
        let serving = self.runtime.handle.spawn(async move {
            // The stream is closed before the end is recorded.
            let OpenConnectionGuard(server) = &open;
            connection::serve(server, stream, connection).await;
        });
        let mut tasks = self.tasks();
        tasks.serving.retain(|task| !task.is_finished());
        tasks.serving.push(serving.abort_handle());
        serving.abort_handle()
    }

    /// Stops listening, closes all connections and reserves the address.
    pub(super) fn stop(&self) {
        let mut tasks = self.tasks();
        tasks.accepting.take().iter().for_each(AbortHandle::abort);
        if let Some(listener) = tasks.listener.take() {
            drop(listener);
            tasks.reserved = ReservedAddress::reserve(self.address).ok();
        }
        tasks.serving.drain(..).for_each(|task| task.abort());
    }

    /// Starts to listen again.
    pub(super) fn resume(self: &Arc<Self>) {
        let reserved = self.tasks().reserved.take();
        self.listen(reserved.unwrap_or_else(|| reserve(self.address)));
    }

    /// Stops listening, closes all connections and releases the address.
    pub(super) fn end(&self) {
        self.stop();
        self.tasks().reserved = None;
    }

    pub(super) fn close_connections(&self) {
        self.tasks().serving.drain(..).for_each(|task| task.abort());
    }

    /// Returns the number of bytes after which to cut a request with this command name.
    pub(super) fn cut(&self, connection: usize, name: Option<&str>) -> Option<usize> {
        let by_rule = || self.behavior.cut.as_ref()?(connection, name?);
        self.script.take_cut(name, self.member).or_else(by_rule)
    }

    /// Decides the response to a request and records the request.
    pub(super) fn decide(&self, request: &Request) -> RequestDecision {
        let decision = self.guarded(request, || self.decide_response(request));
        self.log.send_modify(|log| log.requests.push(request.clone()));
        decision
    }

    fn decide_response(&self, request: &Request) -> RequestDecision {
        match self.script.take(request) {
            Some(ScriptedResponse::AskTest(test)) => {
                let (steps, decided) = oneshot::channel();
                // If the test dropped the receiver, the request gets no reply.
                let _ = test.send(ReceivedRequest { request: request.clone(), steps });
                RequestDecision::AskTest(decided)
            }
            Some(ScriptedResponse::Steps(steps)) if steps.is_empty() => {
                RequestDecision::Steps(vec![Step::DefaultReply])
            }
            Some(ScriptedResponse::Steps(steps)) => RequestDecision::Steps(steps),
            Some(ScriptedResponse::Computed(make)) => {
                RequestDecision::Steps(make.lock().unwrap_or_else(PoisonError::into_inner)(request))
            }
            Some(ScriptedResponse::CutRequest(_)) | None => {
                RequestDecision::Steps(self.decide_without_script(request))
            }
        }
    }

    fn decide_without_script(&self, request: &Request) -> Vec<Step> {
        if let Some(handler) = &self.behavior.handler
            && let Some(steps) = handler(request)
        {
            return steps;
        }
        let has_default_reply = self.behavior.is_lenient
            || request.is_hello()
            || self.is_write_on_secondary(request)
            || default_replies::to_driver_command(request).is_some();
        match has_default_reply {
            true => vec![Step::DefaultReply],
            false => {
                let what = format!("blackpipe: {}", self.script.unexpected(request));
                vec![error(59).with_message(what).into()]
            }
        }
    }

    /// Runs code of the test. A panic in it fails the script and closes the connection.
    fn guarded(
        &self,
        request: &Request,
        decide: impl FnOnce() -> RequestDecision,
    ) -> RequestDecision {
        catch_unwind(AssertUnwindSafe(decide)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panic without a message");
            self.script.failed(format!("code of the test panicked on {request}: {text}"));
            RequestDecision::Steps(vec![Step::HangUp])
        })
    }

    /// Returns `true` for a write on a secondary.
    fn is_write_on_secondary(&self, request: &Request) -> bool {
        self.hello.borrow().role == Role::Secondary && default_replies::is_write(request)
    }

    /// Returns the default reply to a command other than `hello`.
    pub(super) fn default_reply(&self, request: &Request) -> bson::Document {
        match self.is_write_on_secondary(request) {
            true => self.not_primary().into_reply(),
            false => default_replies::to_command(request),
        }
    }

    fn not_primary(&self) -> FailureReply {
        let failure = error(10107).with_message("not primary");
        match self.hello.borrow().topology_version() {
            Some(version) => failure.with(bson::doc! { "topologyVersion": version }),
            None => failure,
        }
    }

    /// Returns the `requestID` of the next message.
    pub(super) fn next_id(&self) -> i32 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn note(&self, connection: usize, event: TranscriptEvent) {
        self.script.note(self.member, connection, event);
    }

    fn tasks(&self) -> MutexGuard<'_, ServerTasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that counts an open connection.
struct OpenConnectionGuard(Arc<ServerInner>);

impl Drop for OpenConnectionGuard {
    fn drop(&mut self) {
        self.0.log.send_modify(|log| log.open -= 1);
    }
}

/// Reserves an address for a server. Port 0 selects a free port.
pub(super) fn reserve(address: SocketAddr) -> ReservedAddress {
    ReservedAddress::reserve(address).unwrap_or_else(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> ! {
    panic!("cannot listen on {address}: {error}")
}
