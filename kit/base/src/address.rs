//! Addresses that stay reserved: a server that was stopped starts again on the same port.

use std::{io, net::SocketAddr, ops::Deref};

use tokio::net::TcpSocket;

/// Longest queue of connections that are not yet accepted.
const BACKLOG: u32 = 1024;

/// Bound address without a listener. Connecting to it fails; no other process gets it.
#[derive(Debug)]
pub struct ReservedAddress {
    /// Address with its port.
    pub address: SocketAddr,
    socket: TcpSocket,
}

impl ReservedAddress {
    /// Reserves an address of this machine. Port 0 stands for any free port.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be bound.
    pub fn reserve(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Connections of an earlier listener may still be closing.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { address: socket.local_addr()?, socket })
    }

    /// Starts to listen. Call it within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot listen.
    pub fn listen(self) -> io::Result<Listener> {
        self.socket.listen(BACKLOG).map(Listener::from)
    }
}

/// Listening socket that stops listening when it is dropped.
///
/// Closing is not enough: while this process starts another one, the child has copies of all sockets
/// for a moment. The kernel would still accept connections, and the address would stay in use.
#[derive(Debug)]
pub struct Listener(Option<tokio::net::TcpListener>);

impl From<tokio::net::TcpListener> for Listener {
    fn from(listener: tokio::net::TcpListener) -> Self {
        Self(Some(listener))
    }
}

impl Deref for Listener {
    type Target = tokio::net::TcpListener;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("present until dropped")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The socket is closed even if this fails.
        if let Some(Ok(listener)) = self.0.take().map(tokio::net::TcpListener::into_std) {
            let _ = stop(listener);
        }
    }
}

/// Shuts down all copies of the socket.
#[cfg(unix)]
fn stop(listener: std::net::TcpListener) -> io::Result<()> {
    let socket = std::net::TcpStream::from(std::os::fd::OwnedFd::from(listener));
    socket.shutdown(std::net::Shutdown::Both)
}

/// Other systems do not copy sockets to child processes.
#[cfg(not(unix))]
fn stop(listener: std::net::TcpListener) -> io::Result<()> {
    drop(listener);
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsFd,
    };

    use super::*;

    /// A child process has such a copy while it is started.
    #[tokio::test]
    async fn dropped_listener_refuses_connections_despite_a_copied_socket() {
        let reserved = ReservedAddress::reserve(([127, 0, 0, 1], 0).into()).unwrap();
        let address = reserved.address;
        let listener = reserved.listen().unwrap();
        let _copy = listener.as_fd().try_clone_to_owned().unwrap();
        TcpStream::connect(address).unwrap();
        drop(listener);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        TcpListener::bind(address).expect("the address is free");
    }
}
