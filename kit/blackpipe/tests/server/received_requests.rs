//! Requests that a test takes in its own hands.

use super::*;

#[tokio::test]
async fn a_test_looks_at_a_request_and_then_decides() {
    let server = Server::start();
    let coming = server.receives(insert("db.things"));
    server.expect(find("db.things"));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    let request = coming.arrives().await;
    assert_eq!((request.namespace().as_str(), request.connection), ("db.things", 1));
    // Another is served while this one waits.
    Client::of(&server).await.run(doc! { "find": "things", "$db": "db" }).await;
    request.reply(done());
    assert_eq!(client.receive().await.unwrap().document, done());
    server.finish();
}

#[tokio::test]
async fn a_test_does_with_a_request_whatever_a_script_does() {
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
async fn a_request_that_is_let_go_of_is_never_answered() {
    let server = Server::start();
    let coming = server.receives(insert("db.things"));
    let mut client = Client::of(&server).await;
    let unanswered = client.send(insert_one()).await;
    drop(coming.arrives().await);
    let answered = client.send(ping()).await;
    assert_ne!(unanswered, answered);
    assert_eq!(client.receive().await.unwrap().response_to, answered);
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_is_gone() {
    let server = Server::start();
    let gate = Gate::closed();
    server.expect(insert("db.things").then(wait_for(&gate)));
    let coming = server.receives(find("db.things"));
    for command in [insert_one(), doc! { "find": "things", "$db": "db" }] {
        Client::of(&server).await.send(command).await;
    }
    let request = coming.arrives().await;
    server.wait_for(|log| log.open == 0).await;
    request.reply_as_usual();
    server.finish();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "In vain the test waited for insert db.things")]
async fn a_request_that_does_not_come_is_not_waited_for_forever() {
    let server = Server::start();
    server.receives(insert("db.things")).arrives().await;
}
