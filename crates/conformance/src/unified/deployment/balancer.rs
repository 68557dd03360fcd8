//! A load balancer: a TCP proxy that connects each client connection to the next of its servers.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::background;

/// Starts a load balancer on a free port of the loopback interface, for the life of the process.
pub(super) fn start(servers: Vec<SocketAddr>) -> io::Result<SocketAddr> {
    let listener = background().block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    background().spawn(async move {
        let servers: Arc<[SocketAddr]> = servers.into();
        for &server in servers.iter().cycle() {
            let Ok((client, _)) = listener.accept().await else { return };
            background().spawn(forward(client, server));
        }
    });
    Ok(address)
}

/// Copies both ways until one side is gone; what that means, the other side sees by itself.
async fn forward(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
