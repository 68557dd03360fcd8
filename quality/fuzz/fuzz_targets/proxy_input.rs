//! Arbitrary bytes from the client and from the server: the proxy and its other connections
//! continue.
//!
//! The first byte is the number of the following bytes that the server sends. The client sends the
//! rest.

#![no_main]

use std::{cell::RefCell, time::Duration};

use blackpipe::proxy::{Proxy, Reaction, Rule};
use libfuzzer_sys::fuzz_target;
use steadfast_wire::OpMsg;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    time::timeout,
};

/// Time-out of one run. Exceeded only by a hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

struct ProxyUnderTest {
    runtime: Runtime,
    proxy: Proxy,
    server: TcpListener,
    bystander: TcpStream,
    /// Server side of the bystander's connection.
    bystander_server: TcpStream,
}

fuzz_target!(|data: &[u8]| {
    thread_local!(static PROXY: RefCell<ProxyUnderTest> = RefCell::new(ProxyUnderTest::new()));
    let Some((&server_bytes, rest)) = data.split_first() else { return };
    let (from_server, from_client) = rest.split_at(rest.len().min(usize::from(server_bytes)));
    PROXY.with_borrow_mut(|proxy| proxy.run(from_client, from_server));
});

impl ProxyUnderTest {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (proxy, server, bystander, bystander_server) = runtime.block_on(async {
            let server = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let address = server.local_addr().expect("a bound address").to_string();
            let greeted = async {
                let (mut stream, _) = server.accept().await.expect("a connection of the proxy");
                let _ = stream.read(&mut [0; 1024]).await;
                stream.write_all(&message(1)).await.expect("a reply");
            };
            let rule = Rule::new(Reaction::error(1)).command("insert");
            let starting = Proxy::builder(address).rule(rule).start();
            let (proxy, ()) = tokio::join!(starting, greeted);
            let proxy = proxy.expect("a running proxy");
            let bystander = TcpStream::connect(proxy.members()[0].0).await.expect("connected");
            let (bystander_server, _) = server.accept().await.expect("the bystander's connection");
            (proxy, server, bystander, bystander_server)
        });
        Self { runtime, proxy, server, bystander, bystander_server }
    }

    fn run(&mut self, from_client: &[u8], from_server: &[u8]) {
        let Self { runtime, proxy, server, bystander, bystander_server } = self;
        runtime.block_on(async {
            let mut client = TcpStream::connect(proxy.members()[0].0).await.expect("connected");
            let (mut upstream, _) = server.accept().await.expect("a connection of the proxy");
            // The proxy may close either connection.
            let _ = client.write_all(from_client).await;
            let _ = upstream.write_all(from_server).await;
            let _ = upstream.shutdown().await;
            drop(client);
            let passes = async {
                let ping = message(0);
                bystander.write_all(&ping).await.expect("an open connection");
                let mut passed = vec![0; ping.len()];
                bystander_server.read_exact(&mut passed).await.expect("a forwarded message");
                assert_eq!(passed, ping);
                bystander_server.write_all(&message(1)).await.expect("an open connection");
                bystander.read_exact(&mut passed).await.expect("a reply");
            };
            timeout(TEST_TIMEOUT, passes).await.expect("the bystander is served");
        });
    }
}

/// A message that is both a request and a reply.
fn message(response_to: i32) -> Vec<u8> {
    let body = bson::rawdoc! { "ping": 1, "$db": "admin", "ok": 1 };
    let body = body.try_into().expect("a document");
    let mut bytes = Vec::new();
    OpMsg::new(body).encode(1, response_to, &mut bytes).expect("a short message");
    bytes
}
