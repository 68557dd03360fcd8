//! Whole conversations with a simulated server.

use std::collections::VecDeque;

use bson::{Binary, Document, rawdoc, spec::BinarySubtype};

use super::{scram::MIN_ITERATIONS, *};

#[derive(Debug)]
enum Failure {
    Auth(AuthError),
    /// Command error or broken connection.
    Command,
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        Self::Auth(error)
    }
}

/// A server with one user, who may authenticate with one hash function.
struct SimulatedServer {
    hash: Hash,
    password: &'static str,
    salt: Vec<u8>,
    /// Behaves like servers before 4.4: `done` only after an empty exchange.
    long: bool,
    seen: Vec<(String, Document)>,
    client_first_bare: String,
    server_first: String,
    /// Replies sent instead of the correct ones, in order.
    overrides: VecDeque<RawDocumentBuf>,
}

const SERVER_NONCE: &str = "3rfcNHYJY1ZVvWVs7j";

impl SimulatedServer {
    fn new(hash: Hash, password: &'static str) -> Self {
        Self {
            hash,
            password,
            salt: b"sixteen byte salt".to_vec(),
            long: false,
            seen: Vec::new(),
            client_first_bare: String::new(),
            server_first: String::new(),
            overrides: VecDeque::new(),
        }
    }

    /// Replies to a `hello` with the fields of `opening`.
    fn hello(&mut self, opening: &Opening, mechanisms: Option<&[&str]>) -> RawDocumentBuf {
        let mut hello = rawdoc! { "hello": 1 };
        opening.append_to(&mut hello);
        let hello = Document::try_from(hello).unwrap();
        let mut reply = rawdoc! { "ok": 1.0 };
        if let (Some(mechanisms), Ok(user)) = (mechanisms, hello.get_str("saslSupportedMechs")) {
            assert_eq!(user, "admin.user");
            let mechanisms: bson::RawArrayBuf = mechanisms.iter().copied().collect();
            reply.append(cstr!("saslSupportedMechs"), mechanisms);
        }
        if let Ok(speculative) = hello.get_document("speculativeAuthenticate") {
            assert_eq!(speculative.get_str("db").ok(), Some("admin"));
            if speculative.get_str("mechanism").ok() == Some(self.hash.mechanism().as_str()) {
                reply.append(cstr!("speculativeAuthenticate"), self.challenge(speculative));
            }
        }
        reply
    }

    fn challenge(&mut self, command: &Document) -> RawDocumentBuf {
        let options = command.get_document("options").unwrap();
        assert_eq!(options.get_bool("skipEmptyExchange").ok(), Some(true));
        let first = String::from_utf8(command.get_binary_generic("payload").unwrap().clone());
        self.client_first_bare = first.unwrap().strip_prefix("n,,").unwrap().to_owned();
        let (_, nonce) = self.client_first_bare.split_once("r=").unwrap();
        let salt = BASE64.encode(&self.salt);
        self.server_first = format!("r={nonce}{SERVER_NONCE},s={salt},i={MIN_ITERATIONS}");
        reply(self.server_first.clone().into_bytes(), false)
    }

    fn proof(&self, command: &Document) -> Option<RawDocumentBuf> {
        let message = command.get_binary_generic("payload").unwrap().clone();
        if message.is_empty() {
            return Some(reply(Vec::new(), true));
        }
        // The server's side of the computation is a second client that knows the right password.
        let (_, nonce) = self.client_first_bare.split_once("r=").unwrap();
        let twin = ClientFirst::new(self.hash, "user", self.password, nonce.to_owned()).unwrap();
        let challenged = twin.challenge(self.server_first.as_bytes()).unwrap();
        let keys = challenged.key_request().derive();
        let (expected, answered) = challenged.answer(&keys);
        let signature = BASE64.encode(answered.server_signature());
        (message == expected).then(|| reply(format!("v={signature}").into_bytes(), !self.long))
    }

    fn commands(&self) -> Vec<&str> {
        self.seen.iter().map(|(_, command)| command.keys().next().unwrap().as_str()).collect()
    }
}

impl Exchange for SimulatedServer {
    type Error = Failure;

    async fn command(
        &mut self,
        db: &str,
        command: RawDocumentBuf,
    ) -> Result<RawDocumentBuf, Failure> {
        let command = Document::try_from(command).unwrap();
        self.seen.push((db.to_owned(), command.clone()));
        if let Some(reply) = self.overrides.pop_front() {
            return Ok(reply);
        }
        match command.keys().next().unwrap().as_str() {
            "saslStart" if command.get_str("mechanism").ok() == Some("PLAIN") => {
                let payload = command.get_binary_generic("payload").unwrap();
                match payload == format!("\0user\0{}", self.password).as_bytes() {
                    true => Ok(reply(Vec::new(), true)),
                    false => Err(Failure::Command),
                }
            }
            "saslStart"
                if command.get_str("mechanism").ok() != Some(self.hash.mechanism().as_str()) =>
            {
                Err(Failure::Command)
            }
            "saslStart" => Ok(self.challenge(&command)),
            "saslContinue" => {
                assert_eq!(command.get_i32("conversationId").ok(), Some(7));
                self.proof(&command).ok_or(Failure::Command)
            }
            "authenticate" => Ok(rawdoc! { "dbname": "$external", "user": "CN=client", "ok": 1.0 }),
            other => panic!("unexpected command {other}"),
        }
    }
}

fn reply(payload: Vec<u8>, done: bool) -> RawDocumentBuf {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: payload };
    rawdoc! { "conversationId": 7, "payload": payload, "done": done, "ok": 1.0 }
}

fn credential(mechanism: Option<AuthMechanism>) -> Credential {
    let credential = Credential::builder().mechanism(mechanism).username("user".to_owned());
    credential.password("pencil".to_owned()).build()
}

fn new_authenticator(mechanism: Option<AuthMechanism>) -> Authenticator {
    Authenticator::new(&credential(mechanism)).unwrap()
}

/// Authenticates a connection without a reply to the speculative attempt.
async fn authenticate(
    authenticator: &Authenticator,
    server: &mut SimulatedServer,
) -> Result<(), Failure> {
    authenticator.finish(authenticator.open().unwrap(), &rawdoc! { "ok": 1.0 }, server).await
}

fn cause(result: Result<(), Failure>) -> Cause {
    match result {
        Err(Failure::Auth(error)) => error.cause().clone(),
        other => panic!("expected an AuthError, got {other:?}"),
    }
}

#[tokio::test]
async fn speculative_authentication_saves_a_round_trip() {
    for (mechanism, hash) in [
        (None, Hash::Sha256),
        (Some(AuthMechanism::ScramSha256), Hash::Sha256),
        (Some(AuthMechanism::ScramSha1), Hash::Sha1),
    ] {
        let (authenticator, mut server) =
            (new_authenticator(mechanism), SimulatedServer::new(hash, "pencil"));
        let opening = authenticator.open().unwrap();
        let reply = server.hello(&opening, None);
        authenticator.finish(opening, &reply, &mut server).await.unwrap();
        assert_eq!(server.commands(), ["saslContinue"]);
        assert_eq!(server.seen[0].0, "admin");
    }
}

#[tokio::test]
async fn speculative_authentication_verifies_the_server_signature() {
    // pitfall 45
    let (authenticator, mut server) =
        (new_authenticator(None), SimulatedServer::new(Hash::Sha256, "pencil"));
    let opening = authenticator.open().unwrap();
    let hello = server.hello(&opening, None);
    server
        .overrides
        .push_back(reply(b"v=AAriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec(), true));
    assert_eq!(
        cause(authenticator.finish(opening, &hello, &mut server).await),
        Cause::WrongSignature
    );

    // `done` before the server's signature.
    let opening = authenticator.open().unwrap();
    let mut challenge = Document::try_from(server.hello(&opening, None)).unwrap();
    challenge.get_document_mut("speculativeAuthenticate").unwrap().insert("done", true);
    let hello = RawDocumentBuf::try_from(&challenge).unwrap();
    assert_eq!(cause(authenticator.finish(opening, &hello, &mut server).await), Cause::EndedEarly);

    // A challenge whose nonce does not begin with the client's.
    let opening = authenticator.open().unwrap();
    let foreign = reply(b"r=foreign,s=QQ==,i=4096".to_vec(), false);
    let hello = rawdoc! { "ok": 1.0, "speculativeAuthenticate": foreign };
    assert_eq!(
        cause(authenticator.finish(opening, &hello, &mut server).await),
        Cause::NonceMismatch
    );
}

#[tokio::test]
async fn default_mechanism_is_negotiated_by_sasl_supported_mechs() {
    for (listed, hash) in [
        (Some(&["SCRAM-SHA-1", "SCRAM-SHA-256", "NEW"][..]), Hash::Sha256),
        (Some(&["SCRAM-SHA-1"][..]), Hash::Sha1),
        (Some(&["PLAIN"][..]), Hash::Sha1),
        (None, Hash::Sha1),
    ] {
        let (authenticator, mut server) =
            (new_authenticator(None), SimulatedServer::new(hash, "pencil"));
        let opening = authenticator.open().unwrap();
        let hello = server.hello(&opening, listed);
        // As if the server did not support the speculative attempt.
        let mut hello = Document::try_from(hello).unwrap();
        hello.remove("speculativeAuthenticate");
        let hello = RawDocumentBuf::try_from(&hello).unwrap();
        authenticator.finish(opening, &hello, &mut server).await.unwrap();
        assert_eq!(server.commands(), ["saslStart", "saslContinue"], "{listed:?}");
    }
}

#[tokio::test]
async fn failed_sha_256_does_not_fall_back_to_sha_1() {
    // pitfall 45: the user exists with SHA-1 only.
    for mechanism in [Some(AuthMechanism::ScramSha256), None] {
        let (authenticator, mut server) =
            (new_authenticator(mechanism), SimulatedServer::new(Hash::Sha1, "pencil"));
        let opening = authenticator.open().unwrap();
        let hello = rawdoc! { "ok": 1.0, "saslSupportedMechs": ["SCRAM-SHA-256", "SCRAM-SHA-1"] };
        let result = authenticator.finish(opening, &hello, &mut server).await;
        assert!(matches!(result, Err(Failure::Command)), "{result:?}");
        assert_eq!(server.seen.len(), 1);
        assert_eq!(server.seen[0].1.get_str("mechanism").ok(), Some("SCRAM-SHA-256"));
    }
}

#[tokio::test]
async fn explicit_mechanism_is_not_negotiated() {
    for mechanism in [AuthMechanism::ScramSha1, AuthMechanism::ScramSha256] {
        let mut hello = rawdoc! { "hello": 1 };
        new_authenticator(Some(mechanism)).open().unwrap().append_to(&mut hello);
        assert!(hello.get("saslSupportedMechs").unwrap().is_none());
        let speculative = hello.get_document("speculativeAuthenticate").unwrap();
        assert_eq!(speculative.get_str("mechanism").ok(), Some(mechanism.as_str()));
    }
}

#[tokio::test]
async fn server_without_skip_empty_exchange_gets_an_empty_message() {
    let (authenticator, mut server) =
        (new_authenticator(None), SimulatedServer::new(Hash::Sha1, "pencil"));
    server.long = true;
    authenticate(&authenticator, &mut server).await.unwrap();
    assert_eq!(server.commands(), ["saslStart", "saslContinue", "saslContinue"]);
    assert!(server.seen[2].1.get_binary_generic("payload").unwrap().is_empty());
}

#[tokio::test]
async fn conversation_without_done_is_an_error() {
    let mechanism = Some(AuthMechanism::ScramSha256);
    let (authenticator, mut server) =
        (new_authenticator(mechanism), SimulatedServer::new(Hash::Sha256, "pencil"));
    server.long = true;
    authenticate(&authenticator, &mut server).await.unwrap();

    let opening = authenticator.open().unwrap();
    let hello = server.hello(&opening, None);
    let honest = reply(Vec::new(), false);
    let mut endless = Endless { server: &mut server, honest };
    let result = authenticator.finish(opening, &hello, &mut endless).await;
    assert_eq!(cause(result), Cause::NotDone);
}

/// Replies correctly, but to the empty exchange with `done: false`.
struct Endless<'s> {
    server: &'s mut SimulatedServer,
    honest: RawDocumentBuf,
}

impl Exchange for Endless<'_> {
    type Error = Failure;

    async fn command(
        &mut self,
        db: &str,
        command: RawDocumentBuf,
    ) -> Result<RawDocumentBuf, Failure> {
        let is_empty = command.get_binary("payload").is_ok_and(|payload| payload.bytes.is_empty());
        match is_empty {
            true => Ok(self.honest.clone()),
            false => self.server.command(db, command).await,
        }
    }
}

#[tokio::test]
async fn wrong_password_is_a_server_error() {
    let (authenticator, mut server) =
        (new_authenticator(None), SimulatedServer::new(Hash::Sha256, "other"));
    let opening = authenticator.open().unwrap();
    let hello = server.hello(&opening, Some(&["SCRAM-SHA-256"]));
    let result = authenticator.finish(opening, &hello, &mut server).await;
    assert!(matches!(result, Err(Failure::Command)), "{result:?}");
    assert_eq!(authenticator.keys.len(), 0, "only proven keys are kept");
}

#[tokio::test]
async fn keys_are_derived_once_for_all_connections() {
    let mechanism = Some(AuthMechanism::ScramSha256);
    let (authenticator, mut server) =
        (new_authenticator(mechanism), SimulatedServer::new(Hash::Sha256, "pencil"));
    for _ in 0..3 {
        authenticate(&authenticator, &mut server).await.unwrap();
    }
    assert_eq!(authenticator.keys.len(), 1);
    server.salt = b"another".to_vec();
    authenticate(&authenticator, &mut server).await.unwrap();
    assert_eq!(authenticator.keys.len(), 2);
}

#[tokio::test]
async fn malformed_replies_are_rejected() {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() };
    for (reply, what) in [
        (rawdoc! { "ok": 1.0 }, Cause::Malformed("no payload")),
        (rawdoc! { "payload": "text", "ok": 1.0 }, Cause::Malformed("no payload")),
        (
            rawdoc! { "payload": payload.clone(), "done": 1, "ok": 1.0 },
            Cause::Malformed("no field `done`"),
        ),
        (
            rawdoc! { "payload": payload.clone(), "done": false, "ok": 1.0 },
            Cause::Malformed("no conversation id"),
        ),
        (rawdoc! { "ok": 0.0, "errmsg": "no" }, Cause::ServerError("no".to_owned())),
        (rawdoc! { "ok": "yes" }, Cause::ServerError("no reason given".to_owned())),
    ] {
        let authenticator = new_authenticator(Some(AuthMechanism::ScramSha256));
        let mut server = SimulatedServer::new(Hash::Sha256, "pencil");
        server.overrides.push_back(reply);
        assert_eq!(cause(authenticate(&authenticator, &mut server).await), what);
    }
}

#[tokio::test]
async fn plain_sends_the_password_in_one_message_to_external() {
    let (authenticator, mut server) = (
        new_authenticator(Some(AuthMechanism::Plain)),
        SimulatedServer::new(Hash::Sha256, "pencil"),
    );
    let opening = authenticator.open().unwrap();
    let mut hello = rawdoc! { "hello": 1 };
    opening.append_to(&mut hello);
    assert_eq!(hello, rawdoc! { "hello": 1 });
    authenticator.finish(opening, &rawdoc! { "ok": 1.0 }, &mut server).await.unwrap();
    assert_eq!(server.commands(), ["saslStart"]);
    assert_eq!(server.seen[0].0, "$external");

    server.overrides.push_back(reply(Vec::new(), false));
    assert_eq!(cause(authenticate(&authenticator, &mut server).await), Cause::NotDone);
}

#[tokio::test]
async fn x509_authenticates_with_the_hello_or_after_it() {
    let credential = Credential::builder().mechanism(AuthMechanism::MongoDbX509).build();
    let authenticator = Authenticator::new(&credential).unwrap();
    let mut server = SimulatedServer::new(Hash::Sha256, "pencil");
    let opening = authenticator.open().unwrap();
    let mut hello = rawdoc! {};
    opening.append_to(&mut hello);
    let command = rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
    assert_eq!(hello, rawdoc! { "speculativeAuthenticate": command });
    let answered = rawdoc! { "speculativeAuthenticate": { "user": "CN=client" }, "ok": 1.0 };
    authenticator.finish(opening, &answered, &mut server).await.unwrap();
    assert!(server.seen.is_empty());

    authenticate(&authenticator, &mut server).await.unwrap();
    assert_eq!(server.commands(), ["authenticate"]);
    assert_eq!(server.seen[0].0, "$external");
}

#[test]
fn unsupported_mechanism_error_lists_the_supported_ones() {
    let gssapi =
        Credential::builder().mechanism(AuthMechanism::Gssapi).username("user".to_owned()).build();
    let aws = Credential::builder().mechanism(AuthMechanism::MongoDbAws).build();
    let oidc = Credential::builder()
        .mechanism(AuthMechanism::MongoDbOidc)
        .mechanism_properties(bson::doc! { "ENVIRONMENT": "test" })
        .build();
    for (credential, name) in [(gssapi, "GSSAPI"), (aws, "MONGODB-AWS"), (oidc, "MONGODB-OIDC")] {
        let error = Authenticator::new(&credential).unwrap_err();
        assert_eq!(error.cause(), &Cause::Unsupported);
        let text = error.to_string();
        assert!(text.starts_with(name) && text.contains("SCRAM-SHA-256"), "{text}");
    }
}

#[test]
fn incomplete_credential_is_rejected_before_anything_is_sent() {
    let nameless = Credential::builder().password("x".to_owned()).build();
    let text = Authenticator::new(&nameless).unwrap_err().to_string();
    assert!(text.contains("user name"), "{text}");
    let wordless = Credential::builder().username("user".to_owned()).build();
    let text = Authenticator::new(&wordless).unwrap_err().to_string();
    assert!(text.contains("password"), "{text}");
}

#[test]
fn nonces_are_unique_and_have_24_random_bytes() {
    let nonces: std::collections::BTreeSet<_> = (0..100).map(|_| random_nonce().unwrap()).collect();
    assert_eq!(nonces.len(), 100);
    assert!(nonces.iter().all(|nonce| nonce.len() == 32 && !nonce.contains(',')));
}

#[test]
fn debug_output_omits_secrets() {
    // pitfall 40
    let authenticator = new_authenticator(None);
    let shown = format!("{authenticator:?} {:?}", authenticator.open().unwrap());
    assert!(!shown.contains("pencil"), "{shown}");
}
