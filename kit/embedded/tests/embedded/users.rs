//! Authentication. Tests with drivers are in the driver's crate.

use super::*;

#[tokio::test]
async fn unauthenticated_client_may_run_few_commands() {
    let server = Deployment::standalone().auth("root", "secret").start();
    assert!(server.uri().starts_with("mongodb://root:secret@127.0.0.1:"), "{}", server.uri());
    let mut client = connect(&server, 0).await;
    assert!(is_ok(&client.run(hello()).await));
    let rejected = client.run(insert(1)).await;
    assert_eq!(code(&rejected), 13);
    assert_eq!(rejected.get_str("errmsg").unwrap(), "Command insert requires authentication");
    let status = client.run(doc! { "connectionStatus": 1, "$db": "admin" }).await;
    assert!(is_ok(&status));
}

#[tokio::test]
async fn hello_lists_sasl_mechanisms_of_user() {
    let server = Deployment::standalone().auth("root", "secret").start();
    let mut client = connect(&server, 0).await;
    let mut asked = hello();
    asked.insert("saslSupportedMechs", "admin.root");
    let reply = client.run(asked.clone()).await;
    let names = reply.get_array("saslSupportedMechs").unwrap();
    assert_eq!(names, &["SCRAM-SHA-256", "SCRAM-SHA-1"].map(bson::Bson::from));
    asked.insert("saslSupportedMechs", "admin.nobody");
    assert!(!client.run(asked).await.contains_key("saslSupportedMechs"));
}

#[tokio::test]
async fn unknown_users_and_mechanisms_are_rejected() {
    let server = Deployment::standalone().auth("root", "secret").start();
    let mut client = connect(&server, 0).await;
    let payload =
        |text: &str| Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() };
    let start = |mechanism: &str, first: &str| {
        doc! { "saslStart": 1, "mechanism": mechanism, "payload": payload(first), "$db": "admin" }
    };
    let unknown_user = client.run(start("SCRAM-SHA-256", "n,,n=nobody,r=abcdefgh")).await;
    assert_eq!(code(&unknown_user), 18);
    assert_eq!(code(&client.run(start("PLAIN", "")).await), 334);
    let known = client.run(start("SCRAM-SHA-256", "n,,n=root,r=abcdefgh")).await;
    assert!(is_ok(&known) && !known.get_bool("done").unwrap());
    let x509 = doc! { "authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external" };
    assert_eq!(code(&client.run(x509).await), 334);
}

#[tokio::test]
async fn users_are_created_on_primary_and_shared() {
    let set = Deployment::replica_set(2).start();
    let create = doc! { "createUser": "u", "pwd": "p", "roles": ["read"], "$db": "shop" };
    assert_eq!(code(&connect(&set, 1).await.run(create.clone()).await), 10107);
    assert!(is_ok(&connect(&set, 0).await.run(create).await));
    let info = connect(&set, 1).await.run(doc! { "usersInfo": "u", "$db": "shop" }).await;
    assert_eq!(info.get_array("users").unwrap().len(), 1);
}
