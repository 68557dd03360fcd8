//! Killed, restarted and frozen servers.

use super::*;

#[tokio::test]
async fn a_server_that_is_killed_resets_its_connections_and_is_not_to_be_reached() {
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
async fn another_is_elected_and_the_dead_one_comes_back_as_a_secondary_with_all_data() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
    connect(&set, 0).await.run(insert(1)).await;
    set.faults().kill(0);
    let primary = set.until_primary().await;
    assert_ne!(primary, 0);
    let reply = connect(&set, primary).await.run(insert(2)).await;
    assert!(is_ok(&reply), "{reply}");
    let address = set.member(0).address();
    set.faults().restart(0);
    assert_eq!(set.member(0).address(), address);
    set.until_replicated().await;
    let mut client = connect(&set, 0).await;
    assert!(client.run(hello()).await.get_bool("secondary").unwrap());
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
}

#[tokio::test]
async fn a_server_may_die_and_come_back_again_and_again() {
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
async fn a_frozen_server_keeps_its_connections_and_answers_when_it_goes_on() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    client.run(hello()).await;
    server.faults().freeze(0);
    let id = client.send(insert(1)).await;
    let silence = tokio::time::timeout(Duration::from_millis(100), client.receive()).await;
    assert!(silence.is_err(), "{silence:?}");
    server.faults().thaw(0);
    let reply = tokio::time::timeout(PATIENCE, client.receive()).await.unwrap().unwrap();
    assert_eq!(reply.response_to, id);
    assert!(is_ok(&reply.document));
}

#[tokio::test]
async fn the_command_shutdown_ends_a_server() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
    let mut client = connect(&set, 0).await;
    let elsewhere = client.run(doc! { "shutdown": 1, "$db": "db" }).await;
    assert_eq!(code(&elsewhere), 13);
    client.send(doc! { "shutdown": 1, "$db": "admin" }).await;
    assert!(client.rest().await.0.is_empty());
    assert_ne!(set.until_primary().await, 0);
    set.faults().restart(0);
    assert!(is_ok(&connect(&set, 0).await.run(hello()).await));
}

#[tokio::test]
async fn a_deployment_that_is_dropped_leaves_nothing_behind() {
    let set = Deployment::replica_set(3).start();
    let addresses: Vec<_> = set.members().iter().map(|it| it.address()).collect();
    let mut client = connect(&set, 0).await;
    client.run(hello()).await;
    let faults = set.faults();
    drop(set);
    assert!(tokio::time::timeout(PATIENCE, client.rest()).await.unwrap().0.is_empty());
    for address in addresses {
        assert!(TcpStream::connect(address).await.is_err());
    }
    faults.restart(0);
}

#[tokio::test]
async fn a_busy_port_is_said() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Deployment::standalone().ports(port..).try_start().unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(Deployment::replica_set(0).try_start().is_err());
    assert!(Deployment::replica_set(2).ports(65535..).try_start().is_err());
    assert!(Deployment::standalone().version("3.6").try_start().is_err());
}
