//! Tests with and without a runtime.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
};

use steadfast_wire::MsgFlags;

use super::*;

/// A blocking client: sends a command and returns the first bytes of the reply.
fn talk(server: &Server, command: &Document) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.socket_address()).unwrap();
    stream.write_all(&client::message(1, command, MsgFlags::empty())).unwrap();
    let mut bytes = vec![0; 1_000];
    let count = stream.read(&mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn server_works_without_a_runtime() {
    let server = Server::start();
    server.expect(insert("db.things").then(hang_up()));
    assert_eq!(talk(&server, &insert_one()), [0_u8; 0]);
    let log = server.wait_for_blocking(|log| log.open == 0);
    assert_eq!(log.named("insert").len(), 1);

    let pending = server.receives(insert("db.things"));
    thread::scope(|scope| {
        let client = scope.spawn(|| talk(&server, &insert_one()));
        pending.arrives_blocking().reply(done());
        assert!(!client.join().unwrap().is_empty());
    });
    server.finish();
}

#[test]
fn deployment_works_without_a_runtime() {
    let set = Deployment::replica_set(3);
    set.expect(insert("db.things").at(0));
    assert!(!talk(set.member(0), &insert_one()).is_empty());
    set.finish();
}

#[tokio::test]
async fn in_thread_server_works_in_a_blocked_runtime() {
    let server = Server::builder().in_thread().start();
    server.expect(insert("db.things"));
    assert!(!talk(&server, &insert_one()).is_empty());
    server.finish();
}

#[tokio::test(start_paused = true)]
async fn paused_clock_also_pauses_the_server() {
    let server = Server::start();
    server.expect(insert("db.things").then(delay(Duration::from_secs(3_600))).then(reply(done())));
    let began = std::time::Instant::now();
    let mut client = Client::of(&server).await;
    assert_eq!(client.run(insert_one()).await, done());
    assert!(began.elapsed() < Duration::from_secs(60), "the delay takes no time");
    server.finish();
}
