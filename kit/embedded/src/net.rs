//! Network side of a server: listener and connections.

mod connection;
mod dispatch;
mod hello;
mod server_commands;

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{net::TcpStream, runtime::Handle, task::AbortHandle};

use super::{node::ProcessState, server::Server};
use blackpipe_base::address::{Listener, ReservedAddress};

/// Listening address of a server, with its connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    server: Arc<Server>,
    runtime: Handle,
    state: Mutex<EndpointState>,
}

#[derive(Debug, Default)]
struct EndpointState {
    listen_state: ListenState,
    connections: Vec<AbortHandle>,
    process_watcher: Option<AbortHandle>,
}

#[derive(Debug, Default)]
enum ListenState {
    /// Not listening. The address stays reserved.
    Closed(ReservedAddress),
    Open {
        listener: Arc<Listener>,
        accepting: AbortHandle,
    },
    /// The address is released, or another program has it.
    #[default]
    Released,
}

impl Endpoint {
    /// Starts to listen, and follows the process state of the server from then on. Must be called
    /// in the context of the runtime.
    pub(crate) fn open(
        server: Arc<Server>,
        reserved: ReservedAddress,
        runtime: Handle,
    ) -> io::Result<Arc<Self>> {
        let address = reserved.address;
        let state = EndpointState {
            listen_state: ListenState::Closed(reserved),
            ..EndpointState::default()
        };
        let endpoint = Arc::new(Self { address, server, runtime, state: Mutex::new(state) });
        endpoint.accept_connections()?;
        let mut process_state = endpoint.server.host.process_state();
        let this = Arc::downgrade(&endpoint);
        let process_watcher = endpoint.runtime.spawn(async move {
            while process_state.changed().await.is_ok() {
                let Some(endpoint) = this.upgrade() else { return };
                endpoint.follow_process_state();
            }
        });
        endpoint.state().process_watcher = Some(process_watcher.abort_handle());
        Ok(endpoint)
    }

    /// The server that the connections reach.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Starts or stops listening according to the process state of the server.
    pub(crate) fn follow_process_state(self: &Arc<Self>) {
        let process_state = *self.server.host.process_state().borrow();
        match process_state {
            ProcessState::Running => {
                // If another program took the address in the meantime, the server stays
                // unreachable.
                let _ = self.accept_connections();
            }
            ProcessState::Frozen => {}
            ProcessState::Killed => self.stop_listening(),
        }
    }

    /// Accepts connections.
    fn accept_connections(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.state();
        let reserved = match std::mem::take(&mut state.listen_state) {
            ListenState::Closed(reserved) => reserved,
            open @ ListenState::Open { .. } => {
                state.listen_state = open;
                return Ok(());
            }
            ListenState::Released => ReservedAddress::reserve(self.address)?,
        };
        let _context = self.runtime.enter();
        let listener = Arc::new(reserved.listen()?);
        // Only the endpoint owns the listener, so dropping it there closes the socket at once.
        let accepting = accept_all(Arc::downgrade(self), Arc::downgrade(&listener));
        let accepting = self.runtime.spawn(accepting);
        state.listen_state = ListenState::Open { listener, accepting: accepting.abort_handle() };
        Ok(())
    }

    /// Stops listening, resets all connections and keeps the address reserved.
    fn stop_listening(&self) {
        let mut state = self.state();
        let listen_state = std::mem::take(&mut state.listen_state);
        state.listen_state = match listen_state {
            ListenState::Open { listener, accepting } => {
                accepting.abort();
                drop(listener);
                let _context = self.runtime.enter();
                ReservedAddress::reserve(self.address)
                    .map_or(ListenState::Released, ListenState::Closed)
            }
            stop_listening => stop_listening,
        };
        state.connections.drain(..).for_each(|connection| connection.abort());
    }

    /// Closes everything and releases the address.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if let ListenState::Open { accepting, .. } = std::mem::take(&mut state.listen_state) {
            accepting.abort();
        }
        state.process_watcher.take().iter().for_each(AbortHandle::abort);
        state.connections.drain(..).for_each(|connection| connection.abort());
    }

    /// Closes all connections. New ones are accepted.
    pub(crate) fn close_connections(&self) {
        self.state().connections.drain(..).for_each(|connection| connection.abort());
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        let serving = connection::serve(self.server.clone(), stream, peer);
        let serving = self.runtime.spawn(serving).abort_handle();
        let mut state = self.state();
        if !matches!(state.listen_state, ListenState::Open { .. }) {
            // The server was stopped while this connection was accepted.
            serving.abort();
            return;
        }
        state.connections.retain(|connection| !connection.is_finished());
        state.connections.push(serving);
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept_all(endpoint: Weak<Endpoint>, at: Weak<Listener>) {
    loop {
        match poll_fn(|context| accept(&endpoint, &at, context)).await {
            Ok((stream, peer)) => {
                let Some(endpoint) = endpoint.upgrade() else { return };
                // Each write is a whole message, so Nagle's algorithm only delays.
                let _ = stream.set_nodelay(true);
                endpoint.serve(stream, peer);
            }
            // The system is out of a resource, such as file descriptors. It may recover soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Accepts the next connection. Pending forever once the listener is closed, because its task is
/// aborted then.
fn accept(
    endpoint: &Weak<Endpoint>,
    at: &Weak<Listener>,
    context: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let Some(endpoint) = endpoint.upgrade() else { return Poll::Pending };
    // Closing waits for this lock, so that no other task holds the listener afterwards.
    let _state = endpoint.state();
    let Some(listener) = at.upgrade() else { return Poll::Pending };
    listener.poll_accept(context)
}
