//! Connections from the proxy to servers, encrypted if the connection string says so.

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
    inbox::Inbox,
    sight::Sight,
    upstream::{Address, Upstream},
};

/// How long a server may take to accept a connection, or to say hello to the proxy itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a server.
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Makes connections to servers.
#[derive(Clone)]
pub(crate) struct Dialer {
    #[cfg(feature = "tls")]
    tls: Option<super::tls::Encryption>,
}

impl Dialer {
    #[cfg(feature = "tls")]
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, ProxyError> {
        let tls = upstream.tls.as_ref().map(super::tls::Encryption::new).transpose();
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

    pub(crate) async fn connect(&self, address: &Address) -> io::Result<Stream> {
        let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        timeout(PATIENCE, self.connect_at_last(address)).await.map_err(too_late)?
    }

    async fn connect_at_last(&self, address: &Address) -> io::Result<Stream> {
        let stream = TcpStream::connect((address.bare_host(), address.port())).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let encrypted = tls.connect(stream, address.bare_host()).await?;
            return Ok(Stream::Encrypted(Box::new(encrypted)));
        }
        Ok(Stream::Plain(stream))
    }

    /// Asks a server what it is.
    pub(crate) async fn hello(&self, address: &Address) -> io::Result<Document> {
        let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not say hello");
        let asked = async {
            match self.connect(address).await? {
                Stream::Plain(mut stream) => ask(&mut stream).await,
                #[cfg(feature = "tls")]
                Stream::Encrypted(mut stream) => ask(&mut *stream).await,
            }
        };
        timeout(PATIENCE, asked).await.map_err(too_late)?
    }
}

async fn ask<S: AsyncReadExt + AsyncWriteExt + Unpin>(stream: &mut S) -> io::Result<Document> {
    let hello = rawdoc! { "hello": 1, "$db": "admin" };
    let hello = OpMsg::new(hello.try_into().map_err(io::Error::other)?);
    let mut request = Vec::new();
    hello.encode(1, 0, &mut request).map_err(io::Error::other)?;
    stream.write_all(&request).await?;
    let mut inbox = Inbox::new();
    let reply = inbox.next(stream).await?;
    let reply = reply.ok_or_else(|| io::Error::other("it hung up on a hello"))?;
    let sight = Sight::of(reply);
    let document = sight.sound_document().and_then(|raw| Document::try_from(raw).ok());
    document.ok_or_else(|| io::Error::other("it answers a hello with something else"))
}
