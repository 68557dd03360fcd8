//! Network side of a server: listener and connections.

mod connection;
mod deciding;
mod hello;
mod own_commands;

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{net::TcpStream, runtime::Handle, task::AbortHandle};

use super::{node::Power, server::Server};
use blackpipe_base::address::{Listener, ReservedAddress};

/// Listening address of a server, with its connections.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    server: Arc<Server>,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entrance: Entrance,
    connections: Vec<AbortHandle>,
    following: Option<AbortHandle>,
}

#[derive(Debug, Default)]
enum Entrance {
    /// Not listening. The address stays reserved.
    Shut(ReservedAddress),
    Open {
        listener: Arc<Listener>,
        accepting: AbortHandle,
    },
    /// The address is released, or another program has it.
    #[default]
    Gone,
}

impl Door {
    /// Starts to listen, and follows the process state of the server from then on. Must be called
    /// in the context of the runtime.
    pub(crate) fn open(
        server: Arc<Server>,
        seat: ReservedAddress,
        runtime: Handle,
    ) -> io::Result<Arc<Self>> {
        let address = seat.address;
        let state = State { entrance: Entrance::Shut(seat), ..State::default() };
        let door = Arc::new(Self { address, server, runtime, state: Mutex::new(state) });
        door.admit()?;
        let mut power = door.server.host.power();
        let this = Arc::downgrade(&door);
        let following = door.runtime.spawn(async move {
            while power.changed().await.is_ok() {
                let Some(door) = this.upgrade() else { return };
                door.follow();
            }
        });
        door.state().following = Some(following.abort_handle());
        Ok(door)
    }

    /// The server that the connections reach.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Starts or stops listening according to the process state of the server.
    pub(crate) fn follow(self: &Arc<Self>) {
        let power = *self.server.host.power().borrow();
        match power {
            Power::On => {
                // If another program took the address in the meantime, the server stays
                // unreachable.
                let _ = self.admit();
            }
            Power::Frozen => {}
            Power::Off => self.shut(),
        }
    }

    /// Accepts connections.
    fn admit(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.state();
        let seat = match std::mem::take(&mut state.entrance) {
            Entrance::Shut(seat) => seat,
            open @ Entrance::Open { .. } => {
                state.entrance = open;
                return Ok(());
            }
            Entrance::Gone => ReservedAddress::reserve(self.address)?,
        };
        let _context = self.runtime.enter();
        let listener = Arc::new(seat.listen()?);
        // Only the endpoint owns the listener, so dropping it there closes the socket at once.
        let accepting = accept_all(Arc::downgrade(self), Arc::downgrade(&listener));
        let accepting = self.runtime.spawn(accepting);
        state.entrance = Entrance::Open { listener, accepting: accepting.abort_handle() };
        Ok(())
    }

    /// Stops listening, resets all connections and keeps the address reserved.
    fn shut(&self) {
        let mut state = self.state();
        let entrance = std::mem::take(&mut state.entrance);
        state.entrance = match entrance {
            Entrance::Open { listener, accepting } => {
                accepting.abort();
                drop(listener);
                let _context = self.runtime.enter();
                ReservedAddress::reserve(self.address).map_or(Entrance::Gone, Entrance::Shut)
            }
            shut => shut,
        };
        state.connections.drain(..).for_each(|connection| connection.abort());
    }

    /// Closes everything and releases the address.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if let Entrance::Open { accepting, .. } = std::mem::take(&mut state.entrance) {
            accepting.abort();
        }
        state.following.take().iter().for_each(AbortHandle::abort);
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
        if !matches!(state.entrance, Entrance::Open { .. }) {
            // The server was stopped while this connection was accepted.
            serving.abort();
            return;
        }
        state.connections.retain(|connection| !connection.is_finished());
        state.connections.push(serving);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept_all(door: Weak<Door>, at: Weak<Listener>) {
    loop {
        match poll_fn(|context| accept(&door, &at, context)).await {
            Ok((stream, peer)) => {
                let Some(door) = door.upgrade() else { return };
                // Each write is a whole message, so Nagle's algorithm only delays.
                let _ = stream.set_nodelay(true);
                door.serve(stream, peer);
            }
            // The system is out of a resource, such as file descriptors. It may recover soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Accepts the next connection. Pending forever once the listener is closed, because its task is
/// aborted then.
fn accept(
    door: &Weak<Door>,
    at: &Weak<Listener>,
    context: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let Some(door) = door.upgrade() else { return Poll::Pending };
    // Closing waits for this lock, so that no other task holds the listener afterwards.
    let _state = door.state();
    let Some(listener) = at.upgrade() else { return Poll::Pending };
    listener.poll_accept(context)
}
