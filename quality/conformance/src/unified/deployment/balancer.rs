//! Load balancer: a TCP proxy that connects each client connection to the next of its servers.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::background;

/// Protocol of the connections to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BalancerProtocol {
    /// The client's bytes only.
    Plain,
    /// A header of the PROXY protocol first, as the `loadBalancerPort` of `mongos` requires.
    ProxyHeader,
}

/// Starts a load balancer on a free port of the loopback interface. It runs until the process ends.
pub(super) fn start(
    servers: Vec<SocketAddr>,
    protocol: BalancerProtocol,
) -> io::Result<SocketAddr> {
    let listener = background().block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    background().spawn(async move {
        let servers: Arc<[SocketAddr]> = servers.into();
        for &server in servers.iter().cycle() {
            let Ok((client, _)) = listener.accept().await else { return };
            background().spawn(forward(client, server, protocol));
        }
    });
    Ok(address)
}

/// Copies bytes in both directions until one side is closed. An error of either side closes both.
async fn forward(
    mut client: TcpStream,
    server: SocketAddr,
    protocol: BalancerProtocol,
) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if protocol == BalancerProtocol::ProxyHeader {
        let header = proxy_header(client.peer_addr()?, client.local_addr()?);
        server.write_all(header.as_bytes()).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// Header of version 1 of the PROXY protocol, for a connection over IPv4.
fn proxy_header(client: SocketAddr, balancer: SocketAddr) -> String {
    let (from, to) = (client.ip(), balancer.ip());
    format!("PROXY TCP4 {from} {to} {} {}\r\n", client.port(), balancer.port())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn connections_alternate_and_begin_with_a_proxy_header() {
        background().block_on(async {
            let servers = [
                TcpListener::bind(("127.0.0.1", 0)).await.unwrap(),
                TcpListener::bind(("127.0.0.1", 0)).await.unwrap(),
            ];
            let addresses = servers.iter().map(|server| server.local_addr().unwrap()).collect();
            let start = move || start(addresses, BalancerProtocol::ProxyHeader).unwrap();
            let balancer = tokio::task::spawn_blocking(start).await.unwrap();
            for server in &servers {
                let mut client = TcpStream::connect(balancer).await.unwrap();
                client.write_all(b"hello").await.unwrap();
                let from = client.local_addr().unwrap();
                client.shutdown().await.unwrap();
                let (mut accepted, _) = server.accept().await.unwrap();
                let mut received = String::new();
                accepted.read_to_string(&mut received).await.unwrap();
                let ports = format!("{} {}", from.port(), balancer.port());
                assert_eq!(received, format!("PROXY TCP4 127.0.0.1 127.0.0.1 {ports}\r\nhello"));
            }
        });
    }
}
