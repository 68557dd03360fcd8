//! Statement errors with codes that neither list has.

use blackpipe::server::{Request, Role, Server, Step};
use steadfast_patterns::local_writes::{LocalWriteError, Receipt};

use super::*;

/// `AtlasError`, which a server raises when the space quota is used up.
const OVER_QUOTA: i32 = 8000;
/// A code that neither list has.
const UNLISTED: i32 = 99_999;

/// Starts a server that rejects documents with the field `bad`, with this code if there is one.
fn server(code: Option<i32>) -> Server {
    let handler = move |request: &Request| {
        if request.name != "insert" {
            return None;
        }
        let documents = request.body.get_array("documents").unwrap();
        let is_bad = |document: &Bson| {
            document.as_document().is_some_and(|document| document.contains_key("bad"))
        };
        let rejected = (0..).zip(documents).filter(|(_, document)| is_bad(document));
        let error = |(index, _): (i32, &Bson)| {
            code.map(|code| doc! { "index": index, "code": code, "errmsg": "no" })
        };
        let errors: Vec<_> = rejected.filter_map(error).collect();
        let written = i32::try_from(documents.len() - errors.len()).unwrap();
        let mut reply = doc! { "ok": 1, "n": written };
        if !errors.is_empty() {
            reply.insert("writeErrors", errors);
        }
        Some(vec![Step::Reply(reply)])
    };
    Server::builder().role(Role::Primary).handler(handler).start()
}

/// Starts two datacenters that reject documents with these codes.
async fn two(codes: [Option<i32>; 2]) -> ([Server; 2], LocalWriter) {
    let servers = codes.map(server);
    let mut builder =
        LocalWriter::builder().acknowledged_within(TEST_TIMEOUT).probe_every(TEST_TIMEOUT);
    for (name, server) in ["alfa", "bravo"].into_iter().zip(&servers) {
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let messages = client.database("app").collection::<Document>("messages");
        builder = builder.datacenter(name, &messages);
    }
    (servers, builder.build().unwrap())
}

/// Inserts a bad document: by itself, or as one of three.
async fn insert_bad(writer: &LocalWriter, is_batch: bool) -> Result<Receipt, LocalWriteError> {
    let bad = doc! { "message_id": 1, "bad": true };
    if !is_batch {
        return writer.insert(&bad).await;
    }
    let mut results = writer.insert_many([message(2), bad, message(3)]).await;
    assert_eq!(results[0].as_ref().unwrap().datacenter(), "alfa");
    assert_eq!(results[2].as_ref().unwrap().datacenter(), "alfa");
    results.remove(1)
}

#[tokio::test]
async fn quota_error_of_a_statement_marks_the_datacenter_down() {
    for is_batch in [false, true] {
        let (_servers, writer) = two([Some(OVER_QUOTA), None]).await;
        let receipt = insert_bad(&writer, is_batch).await.unwrap();
        assert_eq!(receipt.datacenter(), "bravo");
        assert_eq!(up(&writer), [false, true]);
    }
}

#[tokio::test]
async fn document_with_an_unlisted_code_goes_to_the_next_datacenter() {
    for is_batch in [false, true] {
        let (_servers, writer) = two([Some(UNLISTED), None]).await;
        let receipt = insert_bad(&writer, is_batch).await.unwrap();
        assert_eq!(receipt.datacenter(), "bravo");
        assert_eq!(receipt.failed()[0].error.code(), Some(UNLISTED));
        assert_eq!(up(&writer), [true, true]);
        let metrics = writer.metrics();
        assert_eq!((metrics.switched, metrics.rejected, metrics.all_down), (1, 0, 0));
        assert_eq!(metrics.datacenter("alfa").unwrap().failed, 1);
    }
}

#[tokio::test]
async fn document_with_an_unlisted_code_everywhere_is_rejected() {
    for is_batch in [false, true] {
        let (_servers, writer) = two([Some(UNLISTED), Some(UNLISTED)]).await;
        let error = insert_bad(&writer, is_batch).await.unwrap_err();
        let LocalWriteError::Rejected { attempts, .. } = &error else { panic!("{error}") };
        let tried: Vec<_> = attempts.iter().map(|attempt| &*attempt.datacenter).collect();
        assert_eq!(tried, ["alfa", "bravo"]);
        assert_eq!(up(&writer), [true, true]);
        let metrics = writer.metrics();
        assert_eq!((metrics.switched, metrics.rejected, metrics.all_down), (0, 1, 0));
    }
}

#[tokio::test]
async fn document_that_a_failed_datacenter_may_accept_is_not_rejected() {
    for is_batch in [false, true] {
        let (_servers, writer) = two([Some(UNLISTED), Some(OVER_QUOTA)]).await;
        let error = insert_bad(&writer, is_batch).await.unwrap_err();
        let LocalWriteError::AllDown { attempts, .. } = &error else { panic!("{error}") };
        assert_eq!(attempts.len(), 2);
        assert_eq!(up(&writer), [true, false]);
        assert_eq!(writer.metrics().all_down, 1);
    }
}
