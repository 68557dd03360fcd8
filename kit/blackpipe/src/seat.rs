//! An address that is ours, whether anybody listens there or not: a server that is gone for a while
//! comes back where it was.

use std::{io, net::SocketAddr, ops::Deref};

use tokio::net::TcpSocket;

/// How many connections may wait to be taken.
const BACKLOG: u32 = 1024;

/// An address at which nobody listens, and which nobody else is given.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) address: SocketAddr,
    socket: TcpSocket,
}

impl Seat {
    /// Takes an address of this machine; with port 0, one with a free port.
    pub(crate) fn take(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Connections of before may still be about to end.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { address: socket.local_addr()?, socket })
    }

    /// Listens there. Needs to be called in the context of a runtime.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        self.socket.listen(BACKLOG).map(Listener::from)
    }
}

/// A socket that listens until this is dropped, and no longer.
///
/// To close it is not enough: while this process starts another, that one has copies of all its sockets
/// for a moment, and connections would still be taken, by nobody, and the address be in use.
#[derive(Debug)]
pub(crate) struct Listener(Option<tokio::net::TcpListener>);

impl From<tokio::net::TcpListener> for Listener {
    fn from(listener: tokio::net::TcpListener) -> Self {
        Self(Some(listener))
    }
}

impl Deref for Listener {
    type Target = tokio::net::TcpListener;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // What fails here is closed all the same.
        if let Some(Ok(listener)) = self.0.take().map(tokio::net::TcpListener::into_std) {
            let _ = stop(listener);
        }
    }
}

/// Has all copies of the socket listen no more.
#[cfg(unix)]
fn stop(listener: std::net::TcpListener) -> io::Result<()> {
    let socket = std::net::TcpStream::from(std::os::fd::OwnedFd::from(listener));
    socket.shutdown(std::net::Shutdown::Both)
}

/// Elsewhere, no process gets such copies.
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

    /// Another process that is about to be started has such a copy.
    #[tokio::test]
    async fn what_was_dropped_listens_no_more_though_somebody_has_a_copy_of_it() {
        let seat = Seat::take(([127, 0, 0, 1], 0).into()).unwrap();
        let address = seat.address;
        let listener = seat.listen().unwrap();
        let _copy = listener.as_fd().try_clone_to_owned().unwrap();
        TcpStream::connect(address).unwrap();
        drop(listener);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        TcpListener::bind(address).expect("the address is free");
    }
}
