//! A replica set behind the proxy: clients hear of the proxy's addresses only.

use blackpipe::proxy::Proxy;
use bson::{Document, doc};
use tokio::net::TcpSocket;

use crate::{
    client::{Client, ping},
    upstream::Upstream,
};

fn hello() -> Document {
    doc! { "hello": 1, "$db": "admin" }
}

#[tokio::test]
async fn addresses_become_the_proxys_own_wherever_they_stand() {
    let (one, two) = (Upstream::start().await, Upstream::start().await);
    let hosts = [one.address.to_string(), two.address.to_string()];
    let said = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [&hosts[0]], "arbiters": [&hosts[1]],
        "me": &hosts[0], "primary": &hosts[1],
    };
    one.say_hello_with(said);
    let proxy = one.proxy().await;
    let members = proxy.members();
    assert_eq!(members.len(), 2);
    let fronts = [members[0].0.to_string(), members[1].0.to_string()];
    assert_eq!(proxy.uri(), format!("mongodb://{},{}/?replicaSet=rs", fronts[0], fronts[1]));

    let mut client = Client::of(&proxy).await;
    let heard = client.run(hello()).await.unwrap();
    let expected = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [&fronts[0]], "arbiters": [&fronts[1]],
        "me": &fronts[0], "primary": &fronts[1],
    };
    assert_eq!(heard, expected);

    one.answer_with(doc! { "ok": 0.0, "errmsg": format!("not primary; see {}", hosts[1]) });
    let refused = client.run(ping()).await.unwrap();
    assert_eq!(refused.get_str("errmsg").unwrap(), format!("not primary; see {}", fronts[1]));
    // The other member's place leads to it.
    two.answer_with(doc! { "ok": 1.0, "two": true });
    let reply = Client::at(members[1].0).await.run(ping()).await.unwrap();
    assert!(reply.get_bool("two").unwrap());
}

#[tokio::test]
async fn a_member_that_joins_gets_a_place_before_clients_hear_of_it() {
    let (one, two) = (Upstream::start().await, Upstream::start().await);
    let alone = doc! {
        "ok": 1.0, "setName": "rs", "hosts": [one.address.to_string()],
        "me": one.address.to_string(),
    };
    one.say_hello_with(alone.clone());
    let proxy = one.proxy().await;
    assert_eq!(proxy.members().len(), 1);
    let mut client = Client::of(&proxy).await;
    let mut both = alone;
    both.insert("hosts", vec![one.address.to_string(), two.address.to_string()]);
    one.say_hello_with(both);
    let heard = client.run(hello()).await.unwrap();
    let hosts = heard.get_array("hosts").unwrap();
    let new: std::net::SocketAddr = hosts[1].as_str().unwrap().parse().unwrap();
    assert_eq!(proxy.members()[1].0, new);
    Client::at(new).await.run(ping()).await.unwrap();
}

#[tokio::test]
async fn every_hello_of_a_stream_is_changed() {
    let upstream = Upstream::start().await;
    let me = upstream.address.to_string();
    upstream.say_hello_with(doc! { "ok": 1.0, "setName": "rs", "hosts": [&me], "me": &me });
    let proxy = upstream.proxy().await;
    upstream.answer_times(3);
    let mut client = Client::of(&proxy).await;
    client.send(hello()).await;
    for _ in 0..3 {
        let heard = client.reply().await.unwrap();
        assert_eq!(heard.get_str("me").unwrap(), proxy.members()[0].0.to_string());
    }
}

#[tokio::test]
async fn servers_that_are_down_and_ports_that_are_taken_are_told() {
    // An address that is taken, and at which nobody listens.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let error = Proxy::before(nobody.to_string()).start().await.unwrap_err();
    assert!(error.to_string().contains(&nobody.to_string()), "{error}");
    let upstream = Upstream::start().await;
    let uri = upstream.address.to_string();
    let taken = Proxy::before(&uri).listen(upstream.address).start().await.unwrap_err();
    assert!(taken.to_string().contains("cannot listen on"), "{taken}");

    // One of two is enough.
    let proxy = Proxy::before(format!("{nobody},{uri}")).start().await.unwrap();
    Client::at(proxy.members()[1].0).await.run(ping()).await.unwrap();
    Client::at(proxy.members()[0].0).await.run(ping()).await.unwrap_err();
    let port = proxy.members()[0].0;
    proxy.shutdown().await;
    std::net::TcpListener::bind(port).expect("the port is free again");
}
