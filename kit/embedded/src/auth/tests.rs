//! SASL conversations as drivers have them, and malformed ones.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{scram::ScramCredential, *};

/// The example of RFC 7677, section 3.
const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const CHALLENGE: &[u8] =
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const PROOF: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SIGNATURE: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn users() -> Users {
    let users = Users::new(1, 4096);
    users.add_root("user", "pencil").unwrap();
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let known = ScramCredential::new(ScramHash::Sha256, b"pencil".to_vec(), salt, 4096);
    let name = UserName::new("admin", "user");
    users.with(&name, |user| user.credentials.insert(ScramHash::Sha256, Arc::new(known)));
    users
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

fn start(payload: &[u8], options: Document) -> Document {
    doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": binary(payload),
        "options": options,
    }
}

fn go_on(payload: &[u8]) -> Document {
    doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(payload) }
}

fn payload_and_done(reply: &Document) -> (&[u8], bool) {
    let payload = reply.get_binary_generic("payload").unwrap();
    (payload, reply.get_bool("done").unwrap())
}

#[test]
fn correct_password_authenticates() {
    let (users, mut auth) = (users(), AuthState::default());
    let options = doc! { "skipEmptyExchange": true };
    let reply = auth.sasl_start(&start(FIRST, options), "admin", &users, NONCE).unwrap();
    assert_eq!(payload_and_done(&reply), (CHALLENGE, false));
    assert_eq!(auth.user(), None);
    let reply = auth.sasl_continue(&go_on(PROOF)).unwrap();
    assert_eq!(payload_and_done(&reply), (SIGNATURE, true));
    assert_eq!(auth.user(), Some(&UserName::new("admin", "user")));
    let status = auth.status(&Document::new(), &users);
    let roles = status.get_document("authInfo").unwrap().get_array("authenticatedUserRoles");
    assert_eq!(roles.unwrap(), &[Bson::from(doc! { "role": "root", "db": "admin" })]);
    auth.log_out();
    assert_eq!(auth.user(), None);
}

#[test]
fn empty_exchange_ends_conversation_of_older_clients() {
    let (users, mut auth) = (users(), AuthState::default());
    auth.sasl_start(&start(FIRST, doc! {}), "admin", &users, NONCE).unwrap();
    let reply = auth.sasl_continue(&go_on(PROOF)).unwrap();
    assert_eq!(payload_and_done(&reply), (SIGNATURE, false));
    assert_eq!(auth.user(), None);
    let reply = auth.sasl_continue(&go_on(b"")).unwrap();
    assert_eq!(payload_and_done(&reply), (&b""[..], true));
    assert!(auth.user().is_some());
}

#[test]
fn login_failures_have_the_same_error() {
    let users = users();
    let begin = |first: &[u8], database: &str| {
        let mut auth = AuthState::default();
        let begun = auth.sasl_start(&start(first, doc! {}), database, &users, NONCE);
        begun.map(|_| auth)
    };
    assert_eq!(begin(b"n,,n=nobody,r=abc", "admin").unwrap_err(), failed());
    assert_eq!(begin(FIRST, "shop").unwrap_err(), failed());
    assert_eq!(begin(b"rubbish", "admin").unwrap_err(), failed());
    let wrong = String::from_utf8(PROOF.to_vec()).unwrap().replace("p=dHzb", "p=dHzc");
    let mut auth = begin(FIRST, "admin").unwrap();
    assert_eq!(auth.sasl_continue(&go_on(wrong.as_bytes())).unwrap_err(), failed());
    let fault = auth.sasl_continue(&go_on(PROOF)).unwrap_err();
    assert_eq!(fault.message, "No SASL session state found");
    let foreign = String::from_utf8(PROOF.to_vec()).unwrap().replace("r=rOpr", "r=xxxx");
    let mut auth = begin(FIRST, "admin").unwrap();
    assert_eq!(auth.sasl_continue(&go_on(foreign.as_bytes())).unwrap_err(), failed());
}

#[test]
fn unsupported_mechanism_is_named_in_error() {
    let command = doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": binary(b"") };
    let fault = AuthState::default().sasl_start(&command, "admin", &users(), NONCE).unwrap_err();
    assert_eq!(fault.code.number, 334);
    assert!(fault.message.contains("PLAIN"), "{fault}");
}

#[test]
fn users_are_created_updated_and_dropped() {
    let users = users();
    let run = |command: Document| {
        let name = command.keys().next().cloned().unwrap();
        commands::run(&name, &command, "shop", &users).expect("a command on users")
    };
    let roles = vec!["readWrite"];
    run(doc! { "createUser": "till", "pwd": "p", "roles": roles, "mechanisms": ["SCRAM-SHA-1"] })
        .unwrap();
    let name = UserName::new("shop", "till");
    assert_eq!(users.mechanisms(&name).unwrap(), ["SCRAM-SHA-1"]);
    let again = run(doc! { "createUser": "till", "pwd": "p", "roles": [] }).unwrap_err();
    assert_eq!(again.message, "User \"till@shop\" already exists");
    run(doc! { "updateUser": "till", "pwd": "q" }).unwrap();
    assert_eq!(users.mechanisms(&name).unwrap(), ["SCRAM-SHA-256", "SCRAM-SHA-1"]);
    run(doc! { "grantRolesToUser": "till", "roles": ["dbAdmin"] }).unwrap();
    run(doc! { "revokeRolesFromUser": "till", "roles": ["readWrite"] }).unwrap();
    let info = run(doc! { "usersInfo": "till" }).unwrap();
    let shown = info.get_array("users").unwrap()[0].as_document().unwrap();
    let dba = doc! { "role": "dbAdmin", "db": "shop" };
    assert_eq!(shown.get_array("roles").unwrap(), &[Bson::from(dba)]);
    assert!(!shown.contains_key("credentials"));
    run(doc! { "dropUser": "till" }).unwrap();
    let gone = run(doc! { "dropUser": "till" }).unwrap_err();
    assert_eq!(gone.message, "User 'till@shop' not found");
}

#[test]
fn invalid_user_definitions_are_rejected() {
    let users = users();
    let rejected = |more: Document| {
        let mut command = doc! { "createUser": "u", "pwd": "p", "roles": [] };
        command.extend(more);
        commands::run("createUser", &command, "shop", &users).unwrap().unwrap_err().code.number
    };
    assert_eq!(rejected(doc! { "roles": ["king"] }), 31);
    assert_eq!(rejected(doc! { "mechanisms": ["FOO"] }), 2);
    assert_eq!(rejected(doc! { "mechanisms": [] }), 2);
    assert_eq!(rejected(doc! { "bogus": 1 }), 40415);
    assert_eq!(rejected(doc! { "createUser": "" }), 2);
}
