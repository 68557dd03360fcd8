//! Runtimes: the test's own, or a thread of the deployment.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use steadfast_wire::MsgFlags;

use super::*;

/// Sends a command with blocking I/O and returns the first bytes of the reply.
fn talk(deployment: &Deployment, command: &Document) -> Vec<u8> {
    let mut stream = TcpStream::connect(deployment.member(0).address()).unwrap();
    stream.write_all(&client::message(1, command, MsgFlags::empty())).unwrap();
    let mut bytes = vec![0; 1_000];
    let count = stream.read(&mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn deployment_runs_without_tokio_runtime() {
    let set = Deployment::replica_set(3).start();
    assert!(!talk(&set, &insert(1)).is_empty());
    set.faults().step_down();
    assert!(!talk(&set, &hello()).is_empty());
}

#[tokio::test]
async fn in_thread_serves_blocked_runtime() {
    let set = Deployment::replica_set(3).in_thread().start();
    assert!(!talk(&set, &insert(1)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn deployment_uses_paused_clock() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_secs(3_600)).start();
    let began = Instant::now();
    set.faults().kill(0);
    assert_ne!(set.wait_for_primary().await, 0);
    assert!(began.elapsed() < Duration::from_secs(60), "the wait of an hour was not ended");
}

#[tokio::test]
async fn ports_can_be_chosen() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    if let Ok(server) = Deployment::standalone().ports(free..).try_start() {
        assert_eq!(server.member(0).address().port(), free);
        assert_eq!(server.direct_uri(0), format!("{}?directConnection=true", server.uri()));
    }
}
