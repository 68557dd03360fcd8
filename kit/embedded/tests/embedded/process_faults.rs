//! Killed, restarted and frozen servers.

use super::*;

#[tokio::test]
async fn kill_resets_connections_and_stops_listening() {
    let set = Deployment::replica_set(3).start();
    let mut client = connect(&set, 0).await;
    client.run(insert(1)).await;
    set.faults().kill(0);
    let (rest, end) = client.rest().await;
    assert!(rest.is_empty());
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let refused = TcpStream::connect(set.member(0).address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn restarted_member_catches_up_as_secondary() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
    connect(&set, 0).await.run(insert(1)).await;
    set.faults().kill(0);
    let primary = set.wait_for_primary().await;
    assert_ne!(primary, 0);
    let reply = connect(&set, primary).await.run(insert(2)).await;
    assert!(is_ok(&reply), "{reply}");
    let address = set.member(0).address();
    set.faults().restart(0);
    assert_eq!(set.member(0).address(), address);
    set.wait_for_replication().await;
    let mut client = connect(&set, 0).await;
    assert!(client.run(hello()).await.get_bool("secondary").unwrap());
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
}

#[tokio::test]
async fn server_can_be_restarted_repeatedly() {
    let server = Deployment::standalone().start();
    for round in 0..20 {
        let reply = connect(&server, 0).await.run(insert(round)).await;
        assert!(is_ok(&reply), "{reply}");
        server.faults().kill(0);
        server.faults().restart(0);
    }
    let found = connect(&server, 0).await.run(find()).await;
    assert_eq!(ids(&found).len(), 20, "what is in its log stays");
}

#[tokio::test]
async fn frozen_server_keeps_connections_and_replies_after_thaw() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    client.run(hello()).await;
    server.faults().freeze(0);
    let id = client.send(insert(1)).await;
    let silence = tokio::time::timeout(Duration::from_millis(100), client.receive()).await;
    assert!(silence.is_err(), "{silence:?}");
    server.faults().thaw(0);
    let reply = tokio::time::timeout(TEST_TIMEOUT, client.receive()).await.unwrap().unwrap();
    assert_eq!(reply.response_to, id);
    assert!(is_ok(&reply.document));
}

#[tokio::test]
async fn shutdown_command_stops_server() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
    let mut client = connect(&set, 0).await;
    let elsewhere = client.run(doc! { "shutdown": 1, "$db": "db" }).await;
    assert_eq!(code(&elsewhere), 13);
    client.send(doc! { "shutdown": 1, "$db": "admin" }).await;
    assert!(client.rest().await.0.is_empty());
    assert_ne!(set.wait_for_primary().await, 0);
    set.faults().restart(0);
    assert!(is_ok(&connect(&set, 0).await.run(hello()).await));
}

#[tokio::test]
async fn dropped_deployment_closes_ports_and_connections() {
    let set = Deployment::replica_set(3).start();
    let addresses: Vec<_> = set.members().iter().map(|it| it.address()).collect();
    let mut client = connect(&set, 0).await;
    client.run(hello()).await;
    let faults = set.faults();
    drop(set);
    assert!(tokio::time::timeout(TEST_TIMEOUT, client.rest()).await.unwrap().0.is_empty());
    for address in addresses {
        assert!(TcpStream::connect(address).await.is_err());
    }
    faults.restart(0);
}

#[tokio::test]
async fn start_errors_name_the_cause() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Deployment::standalone().ports(port..).try_start().unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(Deployment::replica_set(0).try_start().is_err());
    assert!(Deployment::replica_set(2).ports(65535..).try_start().is_err());
    assert!(Deployment::standalone().version("3.6").try_start().is_err());
}
