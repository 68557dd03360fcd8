//! Requests whose response the test decides.

use super::*;

#[tokio::test]
async fn test_inspects_a_request_before_replying() {
    let server = Server::start();
    let pending = server.receives(insert("db.things"));
    server.expect(find("db.things"));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    let request = pending.arrives().await;
    assert_eq!((request.namespace().as_str(), request.connection), ("db.things", 1));
    // Another client is served while this request waits.
    Client::of(&server).await.run(doc! { "find": "things", "$db": "db" }).await;
    request.reply(done());
    assert_eq!(client.receive().await.unwrap().document, done());
    server.finish();
}

#[tokio::test]
async fn received_request_accepts_all_steps() {
    let server = Server::start();
    let (first, second) = (server.receives(insert("db.things")), server.receives(any()));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    first.arrives().await.then([error(11600)]);
    assert_eq!(client.receive().await.unwrap().document.get_i32("code").unwrap(), 11600);
    client.send(ping()).await;
    second.arrives().await.hang_up();
    assert_eq!(client.rest().await.0, [0_u8; 0]);
    server.finish();
}

#[tokio::test]
async fn dropped_received_request_gets_no_reply() {
    let server = Server::start();
    let pending = server.receives(insert("db.things"));
    let mut client = Client::of(&server).await;
    let unanswered = client.send(insert_one()).await;
    drop(pending.arrives().await);
    let answered = client.send(ping()).await;
    assert_ne!(unanswered, answered);
    assert_eq!(client.receive().await.unwrap().response_to, answered);
}

#[tokio::test]
async fn client_disconnect_ends_a_pending_request() {
    let server = Server::start();
    let gate = Gate::closed();
    server.expect(insert("db.things").then(wait_for(&gate)));
    let pending = server.receives(find("db.things"));
    for command in [insert_one(), doc! { "find": "things", "$db": "db" }] {
        Client::of(&server).await.send(command).await;
    }
    let request = pending.arrives().await;
    server.wait_for(|log| log.open == 0).await;
    request.reply_default();
    server.finish();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "timed out waiting for insert db.things")]
async fn waiting_for_a_missing_request_times_out() {
    let server = Server::start();
    server.receives(insert("db.things")).arrives().await;
}
