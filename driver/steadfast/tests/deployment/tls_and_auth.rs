//! TLS and authentication on real servers that require them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast::{
    Client,
    bson::{Document, doc},
    error::{Error, Result},
    event::{EventHandler, command::CommandEvent, sdam::SdamEvent},
    options::{AuthMechanism, ClientOptions, Credential, Tls, TlsOptions},
};
use testbed::{Mongod, Options, TestCa, User};

use crate::common::{Clock, Recorder, bounded};

const PASSWORD: &str = "pencil:/?#[]@ü";

async fn options(server: &Mongod) -> ClientOptions {
    ClientOptions::parse(server.uri()).await.unwrap()
}

async fn ping(options: ClientOptions) -> Result<Document> {
    let client = Client::with_options(options)?;
    let reply = client.database("admin").run_command(doc! { "connectionStatus": 1 }).await;
    client.shutdown().await;
    reply
}

/// Returns the error of a client without a suitable server. Its server selection time-out expires after the first
/// failed check.
async fn selection_error(mut options: ClientOptions, clock: &Clock) -> Error {
    let (heartbeats, limit) = (Recorder::new(), Duration::from_secs(5));
    options.server_selection_timeout = Some(limit);
    options.sdam_event_handler = Some(heartbeats.handler());
    let client = Client::with_options(options).unwrap();
    let admin = client.database("admin");
    let status = bounded(admin.run_command(doc! { "connectionStatus": 1 }));
    let (ended, ()) = tokio::join!(status, async {
        let failed = |event: &SdamEvent| matches!(event, SdamEvent::ServerHeartbeatFailed(_));
        heartbeats.wait_for(1, failed).await;
        clock.pass(limit).await;
    });
    ended.unwrap_err()
}

fn credential(name: &str, password: &str, mechanism: Option<AuthMechanism>) -> Credential {
    Credential::builder()
        .username(name.to_owned())
        .password(password.to_owned())
        .mechanism(mechanism)
        .build()
}

fn user_of(reply: &Document) -> String {
    let info = reply.get_document("authInfo").unwrap();
    let users = info.get_array("authenticatedUsers").unwrap();
    let user = users.first().expect("an authenticated user").as_document().unwrap();
    user.get_str("user").unwrap().to_owned()
}

fn assert_selection_failed(outcome: Result<Document>) -> Error {
    let error = outcome.expect_err("a wrong password is rejected");
    assert!(error.is_auth_error(), "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("127.0.0.1"), "it names the server: {shown}");
    assert!(!shown.contains("pencil"), "it keeps the password to itself: {shown}");
    error
}

#[tokio::test]
async fn scram_accepts_the_right_password_and_rejects_others() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(
        Options::new()
            .user(User::new("both", PASSWORD))
            .user(User::new("old", PASSWORD).mechanisms(&["SCRAM-SHA-1"]))
            .user(User::new("new", PASSWORD).mechanisms(&["SCRAM-SHA-256"])),
    )
    .unwrap();
    let sha1 = Some(AuthMechanism::ScramSha1);
    let sha256 = Some(AuthMechanism::ScramSha256);
    for (name, mechanism) in [
        ("both", None),
        ("both", sha1),
        ("both", sha256),
        ("old", None),
        ("old", sha1),
        ("new", None),
        ("new", sha256),
    ] {
        let mut right = options(&server).await;
        right.credential = Some(credential(name, PASSWORD, mechanism));
        let reply =
            ping(right).await.unwrap_or_else(|error| panic!("{name} {mechanism:?}: {error}"));
        assert_eq!(user_of(&reply), name);

        let mut wrong = options(&server).await;
        wrong.credential = Some(credential(name, "pencils", mechanism));
        assert_selection_failed(ping(wrong).await);
    }
    // pitfall 45: the driver does not fall back to the weaker mechanism.
    let mut weaker = options(&server).await;
    weaker.credential = Some(credential("old", PASSWORD, sha256));
    assert_selection_failed(ping(weaker).await);

    let mut anonymous = options(&server).await;
    anonymous.credential = None;
    let client = Client::with_options(anonymous).unwrap();
    let error = client.database("a").collection::<Document>("b").find_one(doc! {}).await;
    assert_eq!(error.unwrap_err().code(), Some(13), "Unauthorized");
}

/// pitfall 40
#[tokio::test]
async fn a_password_is_neither_in_events_nor_in_debug_output() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new().user(User::new("ada", PASSWORD))).unwrap();
    let seen = Arc::new(Mutex::new(String::new()));
    let mut options = options(&server).await;
    options.credential = Some(credential("ada", PASSWORD, None));
    let log = Arc::clone(&seen);
    options.command_event_handler = Some(EventHandler::callback(move |event: CommandEvent| {
        log.lock().unwrap().push_str(&format!("{event:?}\n"));
    }));
    assert!(!format!("{options:?}").contains("pencil"));
    let client = Client::with_options(options).unwrap();
    let users = client.database("admin");
    let create = doc! { "createUser": "bob", "pwd": "pencil2", "roles": [] };
    users.run_command(create).await.unwrap();
    let again = doc! { "createUser": "bob", "pwd": "pencil2", "roles": [] };
    let rejected = users.run_command(again).await.unwrap_err();
    assert!(!format!("{rejected:?}").contains("pencil"));
    let seen = seen.lock().unwrap();
    assert!(seen.contains("createUser"), "the command's name is shown");
    assert!(!seen.contains("pencil"), "{seen}");
}

#[tokio::test]
async fn tls_certificates_are_verified_unless_disabled() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let other = TestCa::new().unwrap();
    let server = Mongod::standalone(Options::new().tls(&ca)).unwrap();
    let clock = Clock::stopped();
    let with = |tls: TlsOptions| {
        let server = &server;
        async move {
            let mut options = options(server).await;
            options.tls = Some(Tls::Enabled(tls));
            options
        }
    };
    let trusting = |ca: &TestCa| {
        let client = ca.client_file().to_owned();
        TlsOptions::builder()
            .ca_file_path(ca.ca_file().to_owned())
            .cert_key_file_path(client)
            .build()
    };
    ping(with(trusting(&ca)).await).await.unwrap();

    // pitfall 39: the platform authorities do not include the authority of the test.
    let unknown = selection_error(with(TlsOptions::builder().build()).await, &clock).await;
    assert!(unknown.to_string().to_lowercase().contains("certificate"), "{unknown}");
    let wrong = selection_error(with(trusting(&other)).await, &clock).await;
    assert!(wrong.to_string().contains("127.0.0.1"), "{wrong}");

    let mut blind = trusting(&other);
    blind.cert_key_file_path = Some(ca.client_file().to_owned());
    blind.allow_invalid_certificates = Some(true);
    ping(with(blind).await).await.unwrap();

    let mut plain = options(&server).await;
    plain.tls = None;
    let plain = selection_error(plain, &clock).await;
    assert!(plain.is_server_selection_error(), "{plain}");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_rejected_unless_invalid_hostnames_are_allowed() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let elsewhere = ca.certificate_for("elsewhere", &["elsewhere.example"]).unwrap();
    let server = Mongod::standalone(Options::new().tls_with_certificate(&ca, &elsewhere)).unwrap();
    let tls = TlsOptions::builder()
        .ca_file_path(ca.ca_file().to_owned())
        .cert_key_file_path(ca.client_file().to_owned());
    let mut strict = options(&server).await;
    strict.tls = Some(Tls::Enabled(tls.clone().build()));
    let mut waived = strict.clone();
    waived.tls = Some(Tls::Enabled(tls.allow_invalid_hostnames(true).build()));
    let strict = selection_error(strict, &Clock::stopped()).await;
    assert!(strict.to_string().to_lowercase().contains("certificate"), "{strict}");
    ping(waived).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_authenticates_with_x509() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let subject = ca.client_subject();
    let server = Mongod::standalone(Options::new().tls(&ca).user(User::x509(subject))).unwrap();
    let mut options = options(&server).await;
    options.tls = Some(Tls::Enabled(
        TlsOptions::builder()
            .ca_file_path(ca.ca_file().to_owned())
            .cert_key_file_path(ca.client_file().to_owned())
            .build(),
    ));
    options.credential = Some(Credential::builder().mechanism(AuthMechanism::MongoDbX509).build());
    let reply = ping(options).await.unwrap();
    assert_eq!(user_of(&reply), subject);
}
