//! Transports of connections.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::TcpStream,
};

/// Transport of a connection: TCP, or in-memory buffers.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the address of the peer, if it has one.
    fn peer(&self) -> Option<SocketAddr>;

    /// Resets the connection on drop instead of closing it, if the transport can.
    fn reset_when_dropped(&mut self);
}

impl Transport for TcpStream {
    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn reset_when_dropped(&mut self) {
        // Fails only if the peer is gone.
        let _ = self.set_zero_linger();
    }
}

impl Transport for DuplexStream {
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    fn reset_when_dropped(&mut self) {}
}
