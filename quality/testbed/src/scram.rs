//! Authentication with SCRAM-SHA-256 as `__system`, the user of connections between members of a deployment.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::wire::Connection;

/// Content of the key file, which is the password of `__system`.
pub(crate) const KEY: &str = "c3RlYWRmYXN0IHRlc3QgYmVkIGtleQ==";

/// Database that `__system` authenticates to. The user is defined in `local`, which a `mongos` does not have; with
/// `enableTestCommands`, servers accept `admin` instead.
const AUTHENTICATION_DB: &str = "admin";

/// Authenticates the connection as `__system`, which may run every command. The server's signature is not
/// verified, because this process started the server.
pub(crate) fn authenticate(connection: &mut Connection) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nonce = format!("testbed{}x{count}", std::process::id());
    let first_bare = format!("n=__system,r={nonce}");
    let start = doc! {
        "saslStart": 1,
        "mechanism": "SCRAM-SHA-256",
        "payload": payload(format!("n,,{first_bare}")),
        "options": { "skipEmptyExchange": true },
    };
    let reply = connection.round_trip(AUTHENTICATION_DB, start)?;
    let challenge = text_of(&reply)?;
    let final_message = respond(&first_bare, &challenge)
        .ok_or_else(|| io::Error::other(format!("SCRAM challenge {challenge:?}")))?;
    let conversation = reply.get("conversationId").cloned().unwrap_or(Bson::Int32(1));
    let proceed = doc! {
        "saslContinue": 1,
        "conversationId": conversation,
        "payload": payload(final_message),
    };
    let reply = connection.round_trip(AUTHENTICATION_DB, proceed)?;
    match reply.get_bool("done") {
        Ok(true) => Ok(()),
        _ => Err(io::Error::other(format!("authentication as __system: {reply}"))),
    }
}

fn payload(text: String) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: text.into_bytes() }
}

fn text_of(reply: &Document) -> io::Result<String> {
    let bytes = reply
        .get_binary_generic("payload")
        .map_err(|_| io::Error::other(format!("authentication as __system: {reply}")))?;
    String::from_utf8(bytes.clone()).map_err(io::Error::other)
}

/// Computes the client's final message for a challenge `r=nonce,s=salt,i=iterations`.
fn respond(first_bare: &str, challenge: &str) -> Option<String> {
    respond_with(KEY, first_bare, challenge)
}

fn respond_with(password: &str, first_bare: &str, challenge: &str) -> Option<String> {
    let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
    let salt = STANDARD.decode(field("s=")?).ok()?;
    let iterations = field("i=")?.parse().ok()?;
    let mut salted_password = [0; 32];
    pbkdf2::pbkdf2::<Hmac<Sha256>>(password.as_bytes(), &salt, iterations, &mut salted_password)
        .ok()?;
    let client_key = hmac(&salted_password, "Client Key")?;
    let without_proof = format!("c=biws,r={}", field("r=")?);
    let message = format!("{first_bare},{challenge},{without_proof}");
    let signature = hmac(&Sha256::digest(client_key), &message)?;
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
    Some(format!("{without_proof},p={}", STANDARD.encode(proof)))
}

fn hmac(key: &[u8], message: &str) -> Option<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(message.as_bytes());
    Some(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_matches_the_example_of_rfc_7677() {
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let response = respond_with("pencil", "n=user,r=rOprNGfwEbeRWgbNEkqO", challenge);
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(response.as_deref(), Some(expected));
        assert_eq!(respond("n=user,r=x", "e=other-error"), None);
    }
}
