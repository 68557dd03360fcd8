//! Load balancer in front of every `mongos` of a cluster: forwards bytes after a header of the PROXY protocol.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{Result, TestbedError};

/// Bound on the connection to a `mongos` on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A TCP load balancer on loopback, in this process, for clients with `loadBalanced=true`.
///
/// Each new connection goes to the next `mongos` that accepts one. It begins with a header of the PROXY protocol, as
/// `loadBalancerPort` requires; all other bytes, with or without TLS, are forwarded unchanged.
#[derive(Debug)]
pub struct LoadBalancer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Addresses of `loadBalancerPort`.
    targets: Vec<SocketAddr>,
    next: AtomicUsize,
    stopped: AtomicBool,
    /// Both sides of each open connection.
    connections: Mutex<Vec<Forwarding>>,
}

#[derive(Debug)]
struct Forwarding {
    number: usize,
    client: TcpStream,
    server: TcpStream,
}

impl LoadBalancer {
    pub(crate) fn start(targets: Vec<SocketAddr>) -> Result<Self> {
        let failed = |error: io::Error| TestbedError::io("the load balancer", &error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            targets,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let acceptor = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if acceptor.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&acceptor);
                // On an error the client's connection is closed.
                thread::spawn(move || client.and_then(|client| shared.forward(client)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns the address, `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a connection string for the load balancer (`loadBalanced=true`).
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?loadBalanced=true", self.address)
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.shared.connections().len()
    }

    /// Closes all connections, on both sides. New ones are accepted.
    pub fn close_connections(&self) {
        for connection in self.shared.connections().drain(..) {
            connection.close();
        }
    }
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the acceptor thread. If this fails, the thread ends with the process.
        let _ = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT);
        self.close_connections();
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<Forwarding>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to the next `mongos`, and forwards bytes until one side closes.
    fn forward(&self, client: TcpStream) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut server = self.connect(number)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from, to) = (client.peer_addr()?, server.peer_addr()?);
        let header =
            format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
        server.write_all(header.as_bytes())?;
        let open = Forwarding { number, client: client.try_clone()?, server: server.try_clone()? };
        {
            let mut connections = self.connections();
            if self.stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
            connections.push(open);
        }
        let (mut replies, mut requests) = ((&server, &client), (&client, &server));
        thread::scope(|scope| {
            scope.spawn(move || forward_bytes(&mut replies));
            forward_bytes(&mut requests);
        });
        self.connections().retain(|open| open.number != number);
        Ok(())
    }

    /// Tries each `mongos` once. The number of the connection determines the first.
    fn connect(&self, number: usize) -> io::Result<TcpStream> {
        let mut last = io::Error::other("there is no mongos");
        for attempt in 0..self.targets.len() {
            let target = self.targets[(number + attempt) % self.targets.len()];
            match TcpStream::connect_timeout(&target, CONNECT_TIMEOUT) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Forwarding {
    fn close(&self) {
        // The connection may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Copies bytes from one side to the other, and closes both at the end: no client of MongoDB half-closes.
fn forward_bytes((from, to): &mut (&TcpStream, &TcpStream)) {
    // An error ends the connection, too.
    let _ = io::copy(from, to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
