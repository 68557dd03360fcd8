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

struct Bench {
    runtime: Runtime,
    proxy: Proxy,
    server: TcpListener,
    bystander: TcpStream,
    /// Server side of the bystander's connection.
    beside: TcpStream,
}

fuzz_target!(|data: &[u8]| {
    thread_local!(static BENCH: RefCell<Bench> = RefCell::new(Bench::new()));
    let Some((&said, rest)) = data.split_first() else { return };
    let (from_server, from_client) = rest.split_at(rest.len().min(usize::from(said)));
    BENCH.with_borrow_mut(|bench| bench.try_out(from_client, from_server));
});

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (proxy, server, bystander, beside) = runtime.block_on(async {
            let server = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let address = server.local_addr().expect("it is bound").to_string();
            let greeted = async {
                let (mut stream, _) = server.accept().await.expect("the proxy's own hello");
                let _ = stream.read(&mut [0; 1024]).await;
                stream.write_all(&message(1)).await.expect("an answer");
            };
            let rule = Rule::new(Reaction::error(1)).command("insert");
            let starting = Proxy::builder(address).rule(rule).start();
            let (proxy, ()) = tokio::join!(starting, greeted);
            let proxy = proxy.expect("it starts");
            let bystander = TcpStream::connect(proxy.members()[0].0).await.expect("connected");
            let (beside, _) = server.accept().await.expect("the bystander's");
            (proxy, server, bystander, beside)
        });
        Self { runtime, proxy, server, bystander, beside }
    }

    fn try_out(&mut self, from_client: &[u8], from_server: &[u8]) {
        let Self { runtime, proxy, server, bystander, beside } = self;
        runtime.block_on(async {
            let mut client = TcpStream::connect(proxy.members()[0].0).await.expect("connected");
            let (mut upstream, _) = server.accept().await.expect("the proxy comes");
            // The proxy may close either connection.
            let _ = client.write_all(from_client).await;
            let _ = upstream.write_all(from_server).await;
            let _ = upstream.shutdown().await;
            drop(client);
            let passes = async {
                let ping = message(0);
                bystander.write_all(&ping).await.expect("it is there");
                let mut passed = vec![0; ping.len()];
                beside.read_exact(&mut passed).await.expect("it came through");
                assert_eq!(passed, ping);
                beside.write_all(&message(1)).await.expect("it is there");
                bystander.read_exact(&mut passed).await.expect("an answer");
            };
            timeout(TEST_TIMEOUT, passes).await.expect("nobody else is held up");
        });
    }
}

/// A message that is both a request and a reply.
fn message(response_to: i32) -> Vec<u8> {
    let body = bson::rawdoc! { "ping": 1, "$db": "admin", "ok": 1 };
    let body = body.try_into().expect("a document");
    let mut bytes = Vec::new();
    OpMsg::new(body).encode(1, response_to, &mut bytes).expect("it is small");
    bytes
}
