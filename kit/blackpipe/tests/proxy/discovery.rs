//! Discovery through the proxy: clients see only addresses of the proxy.

use blackpipe::proxy::Proxy;
use bson::{Document, doc};
use tokio::net::TcpSocket;

use crate::{
    client::{RawClient, ping},
    fake_server::FakeServer,
};

fn hello() -> Document {
    doc! { "hello": 1, "$db": "admin" }
}

#[tokio::test]
async fn addresses_in_replies_are_rewritten() {
    let (one, two) = (FakeServer::start().await, FakeServer::start().await);
    let hosts = [one.address.to_string(), two.address.to_string()];
    let hello_fields = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [&hosts[0]], "arbiters": [&hosts[1]],
        "me": &hosts[0], "primary": &hosts[1],
    };
    one.say_hello_with(hello_fields);
    let proxy = one.proxy().await;
    let members = proxy.members();
    assert_eq!(members.len(), 2);
    let fronts = [members[0].0.to_string(), members[1].0.to_string()];
    assert_eq!(proxy.uri(), format!("mongodb://{},{}/?replicaSet=rs", fronts[0], fronts[1]));

    let mut client = RawClient::of(&proxy).await;
    let hello_reply = client.run(hello()).await.unwrap();
    let expected = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [&fronts[0]], "arbiters": [&fronts[1]],
        "me": &fronts[0], "primary": &fronts[1],
    };
    assert_eq!(hello_reply, expected);

    one.answer_with(doc! { "ok": 0.0, "errmsg": format!("not primary; see {}", hosts[1]) });
    let rejected = client.run(ping()).await.unwrap();
    assert_eq!(rejected.get_str("errmsg").unwrap(), format!("not primary; see {}", fronts[1]));
    // The address of the other member reaches it.
    two.answer_with(doc! { "ok": 1.0, "two": true });
    let reply = RawClient::at(members[1].0).await.run(ping()).await.unwrap();
    assert!(reply.get_bool("two").unwrap());
}

#[tokio::test]
async fn joining_member_gets_a_listener_before_clients_see_it() {
    let (one, two) = (FakeServer::start().await, FakeServer::start().await);
    let alone = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [one.address.to_string()],
        "me": one.address.to_string(),
    };
    one.say_hello_with(alone.clone());
    let proxy = one.proxy().await;
    assert_eq!(proxy.members().len(), 1);
    let mut client = RawClient::of(&proxy).await;
    let mut both = alone;
    both.insert("hosts", vec![one.address.to_string(), two.address.to_string()]);
    one.say_hello_with(both);
    let hello_reply = client.run(hello()).await.unwrap();
    let hosts = hello_reply.get_array("hosts").unwrap();
    let new: std::net::SocketAddr = hosts[1].as_str().unwrap().parse().unwrap();
    assert_eq!(proxy.members()[1].0, new);
    RawClient::at(new).await.run(ping()).await.unwrap();
}

#[tokio::test]
async fn streamed_hellos_are_rewritten() {
    let server = FakeServer::start().await;
    let me = server.address.to_string();
    server.say_hello_with(doc! { "ok": 1.0, "setName": "rs", "hosts": [&me], "me": &me });
    let proxy = server.proxy().await;
    server.answer_times(3);
    let mut client = RawClient::of(&proxy).await;
    client.send(hello()).await;
    for _ in 0..3 {
        let hello_reply = client.reply().await.unwrap();
        assert_eq!(hello_reply.get_str("me").unwrap(), proxy.members()[0].0.to_string());
    }
}

#[tokio::test]
async fn unreachable_servers_and_taken_ports_are_reported() {
    // A reserved address without a listener.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let unreachable = taken.local_addr().unwrap();
    let error = Proxy::builder(unreachable.to_string()).start().await.unwrap_err();
    assert!(error.to_string().contains(&unreachable.to_string()), "{error}");
    let server = FakeServer::start().await;
    let uri = server.address.to_string();
    let taken = Proxy::builder(&uri).listen(server.address).start().await.unwrap_err();
    assert!(taken.to_string().contains("cannot listen on"), "{taken}");

    // One reachable server of two is enough.
    let proxy = Proxy::builder(format!("{unreachable},{uri}")).start().await.unwrap();
    RawClient::at(proxy.members()[1].0).await.run(ping()).await.unwrap();
    RawClient::at(proxy.members()[0].0).await.run(ping()).await.unwrap_err();
    let port = proxy.members()[0].0;
    proxy.shutdown().await;
    std::net::TcpListener::bind(port).expect("the port is free again");
}
