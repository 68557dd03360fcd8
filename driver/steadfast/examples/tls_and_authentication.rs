//! Connects with TLS and a user name and password (SCRAM), and recognizes a wrong password.
//!
//! Run it with `cargo run -p steadfast --example tls_and_authentication`. The connection string comes
//! from `STEADFAST_URI` (default: `mongodb://localhost:27017`). Three more variables are optional:
//! `STEADFAST_CA_FILE` (PEM file of the certificate authority), `STEADFAST_USER` and `STEADFAST_PASSWORD`.
//! The connection string can contain the same: `tls=true&tlsCAFile=ca.pem`, and `user:password@` before
//! the host.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{env, path::PathBuf};

use steadfast::{
    Client,
    bson::{Bson, Document, doc},
    error::Result,
    options::{ClientOptions, Credential, Tls, TlsOptions},
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let mut options = ClientOptions::parse(uri).await?;

    // Certificates and host names are verified. Without a CA file, the platform's authorities are trusted.
    if let Ok(file) = env::var("STEADFAST_CA_FILE") {
        let tls = TlsOptions::builder().ca_file_path(PathBuf::from(file)).build();
        options.tls = Some(Tls::Enabled(tls));
    }
    // A password in the environment or a file stays out of the source and of the connection string. Without
    // a `mechanism`, the client negotiates SCRAM-SHA-256 or SCRAM-SHA-1.
    if let (Ok(user), Ok(password)) = (env::var("STEADFAST_USER"), env::var("STEADFAST_PASSWORD")) {
        let credential = Credential::builder()
            .username(user)
            .password(password)
            .source("admin".to_owned())
            .build();
        options.credential = Some(credential);
    }
    println!("TLS: {}", if matches!(options.tls, Some(Tls::Enabled(_))) { "yes" } else { "no" });
    let user = options.credential.as_ref().and_then(|credential| credential.username.as_deref());
    println!("user: {}", user.unwrap_or("none"));

    let status = connection_status(options.clone()).await?;
    let users = status.get_document("authInfo")?.get_array("authenticatedUsers")?;
    if users.is_empty() {
        println!("connected without authentication");
    }
    for user in users.iter().filter_map(Bson::as_document) {
        println!("authenticated as {} of {}", user.get_str("user")?, user.get_str("db")?);
    }

    // A failed authentication is an error of the first operation, not of the client.
    if let Some(credential) = &mut options.credential {
        credential.password = Some("not the password".to_owned());
        match connection_status(options).await {
            Err(error) if error.is_auth_error() => println!("wrong password: {error}"),
            Err(error) => return Err(error),
            Ok(_) => println!("the server accepts any password"),
        }
    }
    Ok(())
}

async fn connection_status(options: ClientOptions) -> Result<Document> {
    let client = Client::with_options(options)?;
    let status = client.database("admin").run_command(doc! { "connectionStatus": 1 }).await;
    client.shutdown().await;
    status
}
