//! Every method of the API, on a replica set of three members and on a standalone server.

#[path = "../../examples/tour.rs"]
#[allow(dead_code, unreachable_pub, reason = "a separate program")]
mod example;

#[tokio::test]
async fn every_method_works_on_a_replica_set() {
    testbed::require!(testbed::shared::servers());
    example::tour(&testbed::shared::uri().expect("a deployment")).await.unwrap();
}

#[tokio::test]
async fn every_method_works_on_a_standalone_server() {
    testbed::require!(V6_0);
    let server = testbed::shared::standalone().expect("a server");
    example::tour(&server.uri()).await.unwrap();
}
