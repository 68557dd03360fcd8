//! Connections from the proxy to servers, with TLS if the connection string asks for it.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use bson::{Document, rawdoc};
use steadfast_wire::OpMsg;

use super::{
    error::ProxyError,
    message_buffer::MessageBuffer,
    message_view::MessageView,
    upstream::{Address, Upstream},
};

/// Time-out for a connection to a server, and for the proxy's own `hello`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a server.
pub(crate) enum ServerStream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Connects to servers.
#[derive(Clone)]
pub(crate) struct Dialer {
    #[cfg(feature = "tls")]
    tls: Option<super::tls::TlsDialer>,
}

impl Dialer {
    #[cfg(feature = "tls")]
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, ProxyError> {
        let tls = upstream.tls.as_ref().map(super::tls::TlsDialer::new).transpose();
        Ok(Self { tls: tls.map_err(ProxyError::Upstream)? })
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, ProxyError> {
        match upstream.tls {
            None => Ok(Self {}),
            Some(_) => {
                let problem = "TLS needs the feature `tls` of the crate `blackpipe`";
                Err(ProxyError::Upstream(problem.to_owned()))
            }
        }
    }

    pub(crate) async fn connect(&self, address: &Address) -> io::Result<ServerStream> {
        let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s");
        timeout(CONNECT_TIMEOUT, self.connect_without_timeout(address)).await.map_err(too_late)?
    }

    async fn connect_without_timeout(&self, address: &Address) -> io::Result<ServerStream> {
        let stream = TcpStream::connect((address.bare_host(), address.port())).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let encrypted = tls.connect(stream, address.bare_host()).await?;
            return Ok(ServerStream::Encrypted(Box::new(encrypted)));
        }
        Ok(ServerStream::Plain(stream))
    }

    /// Sends `hello` to a server and returns its reply.
    pub(crate) async fn hello(&self, address: &Address) -> io::Result<Document> {
        let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "no reply to hello within 10 s");
        let asked = async {
            match self.connect(address).await? {
                ServerStream::Plain(mut stream) => exchange_hello(&mut stream).await,
                #[cfg(feature = "tls")]
                ServerStream::Encrypted(mut stream) => exchange_hello(&mut *stream).await,
            }
        };
        timeout(CONNECT_TIMEOUT, asked).await.map_err(too_late)?
    }
}

async fn exchange_hello<S: AsyncReadExt + AsyncWriteExt + Unpin>(
    stream: &mut S,
) -> io::Result<Document> {
    let hello = rawdoc! { "hello": 1, "$db": "admin" };
    let hello = OpMsg::new(hello.try_into().map_err(io::Error::other)?);
    let mut request = Vec::new();
    hello.encode(1, 0, &mut request).map_err(io::Error::other)?;
    stream.write_all(&request).await?;
    let mut buffer = MessageBuffer::new();
    let reply = buffer.next(stream).await?;
    let reply =
        reply.ok_or_else(|| io::Error::other("connection closed instead of a reply to hello"))?;
    let view = MessageView::of(reply);
    let document = view.validated_document().and_then(|raw| Document::try_from(raw).ok());
    document.ok_or_else(|| io::Error::other("invalid reply to hello"))
}
