//! The conversations of the RFCs and of MongoDB's specification, and malformed or forged messages.

use super::*;

struct Script {
    hash: Hash,
    nonce: &'static str,
    client_first: &'static str,
    server_first: &'static str,
    client_final: &'static str,
    server_final: &'static str,
}

/// RFC 5802, section 5.
const RFC_5802: Script = Script {
    hash: Hash::Sha1,
    nonce: "fyko+d2lbbFgONRv9qkxdawL",
    client_first: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    server_first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    client_final: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,\
                   p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    server_final: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
};

/// RFC 7677, section 3; MongoDB's specification gives the same for SCRAM-SHA-256.
const RFC_7677: Script = Script {
    hash: Hash::Sha256,
    nonce: "rOprNGfwEbeRWgbNEkqO",
    client_first: "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    server_first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                   s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    client_final: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                   p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    server_final: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
};

/// MongoDB's specification, SCRAM-SHA-1: the password is digested first.
const MONGODB_SHA_1: Script = Script {
    hash: Hash::Sha1,
    nonce: "fyko+d2lbbFgONRv9qkxdawL",
    client_first: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    server_first: "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,\
                   s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
    client_final: "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,\
                   p=MC2T8BvbmWRckDw8oWl5IVghwCY=",
    server_final: "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
};

fn play(script: &Script, client: ClientFirst) {
    assert_eq!(client.message(), script.client_first.as_bytes());
    let challenged = client.challenge(script.server_first.as_bytes()).unwrap();
    let keys = challenged.key_request().derive();
    let (message, answered) = challenged.answer(&keys);
    assert_eq!(String::from_utf8(message).unwrap(), script.client_final);
    answered.verify(script.server_final.as_bytes()).unwrap();
}

fn client(script: &Script) -> ClientFirst {
    ClientFirst::new(script.hash, "user", "pencil", script.nonce.to_owned()).unwrap()
}

fn answered(script: &Script) -> Answered {
    let challenged = client(script).challenge(script.server_first.as_bytes()).unwrap();
    let keys = challenged.key_request().derive();
    challenged.answer(&keys).1
}

fn challenge_error(server_first: &str) -> Cause {
    let Err(error) = client(&RFC_7677).challenge(server_first.as_bytes()) else {
        panic!("{server_first} was accepted")
    };
    error.cause().clone()
}

#[test]
fn conversation_of_rfc_5802_is_reproduced() {
    let password = Zeroizing::new(b"pencil".to_vec());
    let nonce = RFC_5802.nonce.to_owned();
    play(&RFC_5802, ClientFirst::with_prepared_password(Hash::Sha1, "user", password, nonce));
}

#[test]
fn conversation_of_rfc_7677_is_reproduced() {
    play(&RFC_7677, client(&RFC_7677));
}

#[test]
fn sha_1_conversation_of_the_specification_is_reproduced() {
    play(&MONGODB_SHA_1, client(&MONGODB_SHA_1));
}

#[test]
fn user_names_are_escaped_without_saslprep() {
    let client = ClientFirst::new(Hash::Sha256, "a=b,c\u{AD}d", "x", "N".to_owned()).unwrap();
    assert_eq!(client.message(), "n,,n=a=3Db=2Cc\u{AD}d,r=N".as_bytes());
}

#[test]
fn server_nonce_without_the_client_nonce_as_prefix_is_rejected() {
    // pitfall 45
    let rest = "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    for nonce in ["", "rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkq", "XrOprNGfwEbeRWgbNEkqOserver"]
    {
        assert_eq!(challenge_error(&format!("r={nonce},{rest}")), Cause::NonceMismatch, "{nonce}");
    }
}

#[test]
fn iteration_count_has_a_minimum_and_a_maximum() {
    // pitfall 45
    let start = "r=rOprNGfwEbeRWgbNEkqOserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=";
    let cause = |count: &str| challenge_error(&format!("{start}{count}"));
    assert_eq!(cause("4095"), Cause::TooFewIterations(4095));
    assert_eq!(cause("0"), Cause::TooFewIterations(0));
    assert_eq!(cause("2000001"), Cause::TooManyIterations(2_000_001));
    assert_eq!(cause("99999999999999999999"), Cause::TooManyIterations(u32::MAX));
    for text in ["", "-4096", "+4096", "4096x", " 4096"] {
        assert_eq!(cause(text), Cause::Malformed("the iteration count is not a number"), "{text}");
    }
    for count in ["4096", "2000000"] {
        assert!(client(&RFC_7677).challenge(format!("{start}{count}").as_bytes()).is_ok());
    }
}

#[test]
fn malformed_challenge_is_rejected() {
    for (challenge, what) in [
        ("", "no nonce in the challenge"),
        ("m=must,r=rOprNGfwEbeRWgbNEkqOs,s=QQ==,i=4096", "no nonce in the challenge"),
        ("s=QQ==,r=rOprNGfwEbeRWgbNEkqOs,i=4096", "no nonce in the challenge"),
        ("r=rOprNGfwEbeRWgbNEkqOs,i=4096", "no salt in the challenge"),
        ("r=rOprNGfwEbeRWgbNEkqOs,s=QQ==", "no iteration count in the challenge"),
        ("r=rOprNGfwEbeRWgbNEkqOs,s=*,i=4096", "the salt is not base64"),
        ("r=rOprNGfwEbeRWgbNEkqOs,s=,i=4096", "the salt is empty"),
    ] {
        assert_eq!(challenge_error(challenge), Cause::Malformed(what), "{challenge}");
    }
    let Err(error) = client(&RFC_7677).challenge(&[b'r', b'=', 0xff]) else { panic!("accepted") };
    assert_eq!(error.cause(), &Cause::Malformed("a message is not UTF-8"));
}

#[test]
fn invalid_server_signature_is_rejected() {
    // pitfall 45
    let cause = |server_final: &str| {
        answered(&RFC_7677).verify(server_final.as_bytes()).unwrap_err().cause().clone()
    };
    let of_another = "v=AAriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(cause(of_another), Cause::WrongSignature);
    assert_eq!(cause("v="), Cause::WrongSignature);
    assert_eq!(cause("v=6rri"), Cause::WrongSignature);
    assert_eq!(cause("v=!"), Cause::Malformed("the server's signature is not base64"));
    assert_eq!(cause(""), Cause::Malformed("no signature in the final message"));
    assert_eq!(cause("x=1,v=6rri"), Cause::Malformed("no signature in the final message"));
    assert_eq!(cause("e=invalid-proof"), Cause::ServerError("invalid-proof".to_owned()));
}
