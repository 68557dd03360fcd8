//! What a connection goes through.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::TcpStream,
};

/// What a connection goes through: TCP, or a pair of buffers within the test.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Who is at the other end, if that has an address.
    fn peer(&self) -> Option<SocketAddr>;

    /// Has the connection be reset when it is dropped, and not closed, if it knows the difference.
    fn reset_when_dropped(&mut self);
}

impl Transport for TcpStream {
    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn reset_when_dropped(&mut self) {
        // It fails only if the peer is gone.
        let _ = self.set_zero_linger();
    }
}

impl Transport for DuplexStream {
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    fn reset_when_dropped(&mut self) {}
}
