//! Byte stream of a connection: TCP, Unix domain socket, or TLS over TCP.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use steadfast_core::address::ServerAddress;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{
    error::{Error, ErrorKind, NetworkFailure, Result},
    tls::TlsConnector,
};

/// An open stream to a server.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Stream {
    /// Opens a stream, without a time-out.
    pub(crate) async fn open(address: &ServerAddress, tls: Option<&TlsConnector>) -> Result<Self> {
        match address {
            ServerAddress::Tcp { host, .. } => {
                let tcp = connect_tcp(host, address.port().unwrap_or_default()).await?;
                match tls {
                    None => Ok(Self::Tcp(tcp)),
                    #[cfg(feature = "tls")]
                    Some(tls) => Ok(Self::Tls(Box::new(tls.connect(tcp, host).await?))),
                    #[cfg(not(feature = "tls"))]
                    Some(never) => never.unreachable(),
                }
            }
            #[cfg(unix)]
            ServerAddress::Unix { path } => {
                let stream = tokio::net::UnixStream::connect(path).await;
                stream.map(Self::Unix).map_err(Error::of_socket)
            }
            other => Err(Error::new(ErrorKind::InvalidArgument {
                message: format!("Unix domain sockets are not supported on this platform: {other}"),
            })),
        }
    }

    /// Returns `true` if the server closed the idle connection or sent unexpected bytes. Checks the
    /// readiness in the runtime, without a system call while nothing arrives. With TLS it returns
    /// `false`, because TLS itself may have sent bytes.
    pub(crate) fn is_closed_or_readable(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Self::Tcp(stream) => stream.try_read(&mut byte),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_read(&mut byte),
            #[cfg(feature = "tls")]
            Self::Tls(_) => return false,
        };
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Tries each address of the host in turn. Returns the error of the last.
async fn connect_tcp(host: &str, port: u16) -> Result<TcpStream> {
    let not_found = |error: io::Error| {
        let text = format!("cannot resolve the host \"{host}\": {error}");
        Error::network_io(NetworkFailure::HostNotFound, io::Error::new(error.kind(), text))
    };
    let addresses = tokio::net::lookup_host((host, port)).await.map_err(not_found)?;
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                set_options(&stream).map_err(Error::of_socket)?;
                return Ok(stream);
            }
            Err(error) => {
                let text = format!("cannot connect to {address}: {error}");
                failure = Some(Error::of_socket(io::Error::new(error.kind(), text)));
            }
        }
    }
    Err(failure.unwrap_or_else(|| not_found(io::ErrorKind::NotFound.into())))
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(120))
        .with_interval(Duration::from_secs(10));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Calls the same method on the stream of any variant.
macro_rules! on_each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            #[cfg(unix)]
            Stream::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_each!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
