//! Arbitrary bytes sent to the scripted server: it never panics, the connection ends with that of
//! the client, and another connection is still served.

#![no_main]

use std::cell::LazyCell;

use blackpipe::{
    message::{MessageReader, reply_document},
    server::{Role, Server},
};
use libfuzzer_sys::fuzz_target;
use steadfast_wire::{MessageWriter, MsgFlags};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    runtime::{Builder, Runtime},
};

thread_local! {
    static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| {
        Builder::new_current_thread().enable_all().build().expect("a runtime")
    });
}

fuzz_target!(|data: &[u8]| {
    RUNTIME.with(|runtime| runtime.block_on(exchange(data)));
});

async fn exchange(data: &[u8]) {
    let server = Server::builder().role(Role::Primary).streaming(true).lenient().start();
    let mut malformed_client = connect(&server);
    let mut other = connect(&server);
    // The client writes a bounded number of bytes and reads all replies.
    let (mut read, mut write) = tokio::io::split(&mut malformed_client);
    let mut replies = Vec::new();
    let _ = tokio::join!(read.read_to_end(&mut replies), async {
        let _ = write.write_all(data).await;
        write.shutdown().await
    });
    let mut replies = replies.as_slice();
    let mut inbox = MessageReader::new();
    while let Ok(Some(_)) = inbox.next(&mut replies).await {}
    assert!(inbox.buffered().is_empty(), "all replies are complete");

    other.write_all(&ping()).await.expect("an open connection");
    let reply = MessageReader::new().next(&mut other).await.expect("a message").expect("a reply");
    assert_eq!(reply_document(reply).expect("a reply"), (bson::doc! { "ok": 1 }, 1));
    drop((malformed_client, other));
    let log = server.wait_for(|log| log.open == 0).await;
    assert_eq!(log.opened, 2);
    server.finish();
}

fn connect(server: &Server) -> DuplexStream {
    let (near, far) = tokio::io::duplex(4_096);
    server.serve(far);
    near
}

fn ping() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = MessageWriter::request(&mut bytes, 1, MsgFlags::empty());
    message.body().append_i32("ping", 1).expect("a field");
    message.body().append_str("$db", "db").expect("a field");
    message.finish().expect("a short message");
    bytes
}
