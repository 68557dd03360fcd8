//! Read-ahead: while an application reads large batches of a cursor, the next `getMore` is sent early.

use super::{
    Client, Clock, CommandEvent, Document, Gate, Role, Server, Step, bounded, client_with_commands,
    doc,
};

/// Number of documents in a large batch.
const MANY: usize = 8;

/// Batch of more than 1 MiB, or of a few bytes.
fn batch(kind: &str, id: i64, large: bool) -> Document {
    let text = "x".repeat(if large { 256 * 1024 } else { 1 });
    let documents = vec![doc! { "text": text }; MANY];
    doc! { "ok": 1, "cursor": { "id": id, "ns": "db.books", kind: documents } }
}

/// Server with a cursor of three batches after the first. `last` is the reply to the last `getMore`.
fn server(large: bool, last: Vec<Step>) -> Server {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Server::with_handler(Role::Primary, move |request| match request.name.as_str() {
        "find" => Some(vec![Step::Reply(batch("firstBatch", 7, large))]),
        "getMore" => match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 | 1 => Some(vec![Step::Reply(batch("nextBatch", 7, large))]),
            _ => Some(last.clone()),
        },
        "killCursors" => Some(vec![Step::Reply(doc! { "ok": 1, "cursorsKilled": [7_i64] })]),
        _ => None,
    })
}

fn end() -> Vec<Step> {
    vec![Step::Reply(batch("nextBatch", 0, true))]
}

async fn books(server: &Server) -> steadfast::Collection<Document> {
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    client.database("db").collection("books")
}

/// Waits for this number of `getMore` commands.
async fn wait_for_get_mores(server: &Server, count: usize) {
    server.wait_for(|log| log.named("getMore").len() >= count).await;
}

#[tokio::test]
async fn the_next_get_more_is_sent_while_a_large_batch_is_read() {
    let server = server(true, end());
    let mut cursor = bounded(books(&server).await.find(doc! {})).await.unwrap();
    // No `getMore` is sent while the first batch is read.
    for _ in 0..MANY {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    assert_eq!(server.log().named("getMore").len(), 0);
    assert!(bounded(cursor.advance()).await.unwrap());
    assert_eq!(server.log().named("getMore").len(), 1);
    // After a part of the second batch was read, at most one batch is requested ahead.
    for _ in 1..4 {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    wait_for_get_mores(&server, 2).await;
    let mut read = MANY + 4;
    while bounded(cursor.advance()).await.unwrap() {
        assert_eq!(cursor.current().get_str("text").unwrap().len(), 256 * 1024);
        read += 1;
        let (begun, ended) = (read.div_ceil(MANY), server.log().named("getMore").len());
        assert!(ended <= begun, "{ended} batches were asked for while the {begun}th was read");
    }
    assert_eq!(read, 4 * MANY);
    assert_eq!(server.log().named("getMore").len(), 3);
    assert_eq!(server.log().named("killCursors").len(), 0);
}

#[tokio::test]
async fn no_get_more_is_sent_while_a_small_batch_is_read() {
    let server = server(false, end());
    let mut cursor = bounded(books(&server).await.find(doc! {})).await.unwrap();
    for read in 0..3 * MANY {
        assert!(bounded(cursor.advance()).await.unwrap());
        assert_eq!(server.log().named("getMore").len(), read / MANY);
    }
}

#[tokio::test]
async fn no_batch_is_read_ahead_with_a_batch_size_a_limit_or_a_timeout() {
    let server = server(true, vec![Step::Reply(batch("nextBatch", 7, true))]);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let minute = std::time::Duration::from_secs(60);
    let mut cursors = vec![
        bounded(books.find(doc! {}).batch_size(100)).await.unwrap(),
        bounded(books.find(doc! {}).limit(1000)).await.unwrap(),
        bounded(books.find(doc! {}).timeout(minute)).await.unwrap(),
    ];
    for cursor in &mut cursors {
        let before = server.log().named("getMore").len();
        for _ in 0..2 * MANY {
            assert!(bounded(cursor.advance()).await.unwrap());
        }
        bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
        assert_eq!(server.log().named("getMore").len(), before + 1);
    }
}

#[tokio::test]
async fn an_error_of_a_batch_read_ahead_is_raised_after_the_current_batch() {
    let rejected = doc! { "ok": 0, "code": 43, "codeName": "CursorNotFound", "errmsg": "gone" };
    let server = server(true, vec![Step::Reply(rejected)]);
    let mut cursor = bounded(books(&server).await.find(doc! {})).await.unwrap();
    for read in 0..3 * MANY {
        assert!(bounded(cursor.advance()).await.unwrap());
        if read == 2 * MANY + 4 {
            wait_for_get_mores(&server, 3).await;
        }
    }
    let error = bounded(cursor.advance()).await.unwrap_err();
    assert_eq!(error.code(), Some(43));
}

#[tokio::test]
async fn a_cursor_dropped_with_a_pending_read_ahead_is_killed() {
    let gate = Gate::closed();
    let late = vec![Step::WaitFor(gate.clone()), Step::Reply(batch("nextBatch", 7, true))];
    let server = server(true, late);
    let mut cursor = bounded(books(&server).await.find(doc! {})).await.unwrap();
    for _ in 0..2 * MANY + 5 {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    wait_for_get_mores(&server, 3).await;
    drop(cursor);
    server.wait_for(|log| log.named("killCursors").len() == 1).await;
    gate.open();
}

/// Returns the name of the command that ended with this event.
fn ended(event: &CommandEvent) -> Option<&str> {
    match event {
        CommandEvent::Succeeded(event) => Some(&event.command_name),
        CommandEvent::Failed(event) => Some(&event.command_name),
        _ => None,
    }
}

#[tokio::test]
async fn a_cursor_whose_last_batch_was_read_ahead_is_not_killed() {
    let server = server(true, end());
    let (client, commands) = client_with_commands(&server.uri("")).await;
    let books = client.database("db").collection::<Document>("books");
    let mut cursor = bounded(books.find(doc! {})).await.unwrap();
    for _ in 0..2 * MANY + 5 {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    commands.wait_for(3, |event| ended(event) == Some("getMore")).await;
    drop(cursor);
    // The background commands of the cursor have started; the shutdown waits for them.
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    bounded(client.shutdown()).await;
    assert_eq!(server.log().named("killCursors").len(), 0);
}

#[tokio::test]
async fn a_cursor_dropped_with_a_pending_read_ahead_returns_its_session() {
    let gate = Gate::closed();
    let asked_for = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::with_handler(Role::Primary, {
        let gate = gate.clone();
        move |request| match request.name.as_str() {
            "find" => Some(vec![Step::Reply(batch("firstBatch", 7, true))]),
            "getMore" => match asked_for.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Some(vec![Step::Reply(batch("nextBatch", 7, true))]),
                _ => {
                    let killed = doc! { "ok": 0, "code": 237, "codeName": "CursorKilled" };
                    Some(vec![Step::WaitFor(gate.clone()), Step::Reply(killed)])
                }
            },
            "killCursors" => {
                gate.open();
                Some(vec![Step::Reply(doc! { "ok": 1, "cursorsKilled": [7_i64] })])
            }
            _ => None,
        }
    });
    let (client, commands) = client_with_commands(&server.uri("")).await;
    let books = client.database("db").collection::<Document>("books");
    let mut cursor = bounded(books.find(doc! {})).await.unwrap();
    for _ in 0..MANY + 5 {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    wait_for_get_mores(&server, 2).await;
    // The reply to the read-ahead `getMore` and `endSessions` have a time-out of one second each.
    let _clock = Clock::stopped();
    drop(cursor);
    commands.wait_for(1, |event| ended(event) == Some("killCursors")).await;
    commands.wait_for(2, |event| ended(event) == Some("getMore")).await;
    // The cursor has released its connection when this command has a reply.
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    bounded(client.shutdown()).await;
    let log = server.log();
    let session = log.named("find")[0].body.get_document("lsid").unwrap().clone();
    let given_back = log.named("endSessions")[0].body.get_array("endSessions").unwrap().clone();
    assert!(given_back.contains(&session.into()), "{given_back:?}");
}
