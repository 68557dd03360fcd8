//! Serves books over HTTP with `axum`: one client for all requests, a deadline for each, and a status code
//! that says what became of a write.
//!
//! Run it with `cargo run -p steadfast --example web_service`; end it with Ctrl-C. The connection string
//! comes from `STEADFAST_URI` (default: `mongodb://localhost:27017`), the address to listen on from
//! `LISTEN` (default: `127.0.0.1:3000`). It replaces the collection `steadfast_examples.catalogue`. Try:
//!
//! ```sh
//! curl -i localhost:3000/books --json '{ "_id": "0-452", "title": "1984", "year": 1949 }'
//! curl -i localhost:3000/books/0-452
//! ```
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{env, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use steadfast::{
    Client, Collection,
    bson::doc,
    error::{Error, Outcome},
    options::ClientOptions,
};
use tokio::net::TcpListener;

#[derive(Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    isbn: String,
    title: String,
    year: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let mut options = ClientOptions::parse(uri).await?;
    // No request waits longer than this for the database.
    options.timeout = Some(Duration::from_secs(5));
    // One client for the whole service: clones of it, and of its collections, share its connections.
    let client = Client::with_options(options)?;
    let books: Collection<Book> = client.database("steadfast_examples").collection("catalogue");
    books.drop().await?;

    let service = Router::new()
        .route("/books", post(add).get(list))
        .route("/books/{isbn}", get(read))
        .with_state(books);
    let address = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service).with_graceful_shutdown(interrupted()).await?;

    // Waits for operations that are still in progress, then closes the connections.
    client.shutdown().await;
    println!("stopped");
    Ok(())
}

async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        println!("Ctrl-C cannot be handled: {error}");
    }
}

type Books = State<Collection<Book>>;

async fn add(State(books): Books, Json(book): Json<Book>) -> Result<StatusCode, Failure> {
    books.insert_one(book).await?;
    Ok(StatusCode::CREATED)
}

async fn list(State(books): Books) -> Result<Json<Vec<Book>>, Failure> {
    let found = books.find(doc! {}).sort(doc! { "year": 1 }).limit(100).await?;
    Ok(Json(found.try_collect().await?))
}

async fn read(State(books): Books, Path(isbn): Path<String>) -> Result<Response, Failure> {
    let found = books.find_one(doc! { "_id": isbn }).await?;
    Ok(found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |it| Json(it).into_response()))
}

/// A driver error as a response.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, text) = match error.outcome() {
            _ if error.is_duplicate_key_error() => (StatusCode::CONFLICT, "it exists already"),
            Outcome::NotSent | Outcome::NotApplied if error.is_transient() => {
                (StatusCode::SERVICE_UNAVAILABLE, "nothing was written; try again later")
            }
            Outcome::NotSent | Outcome::NotApplied => {
                (StatusCode::INTERNAL_SERVER_ERROR, "nothing was written")
            }
            Outcome::MaybeApplied => {
                (StatusCode::GATEWAY_TIMEOUT, "it may have been written; read it before you repeat")
            }
            Outcome::AppliedNotDurable => (StatusCode::ACCEPTED, "written, not yet durable"),
        };
        // The details are for the log, not for the response.
        println!("{status}: {error}");
        (status, text).into_response()
    }
}
