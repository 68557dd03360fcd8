//! Load shedding and injected latency.

use super::*;

#[tokio::test]
async fn requests_beyond_rate_get_overload_labels() {
    let server = Deployment::standalone().request_rate(0.0001, 2.0).start();
    // The rate is negligible, so only the burst capacity counts.
    server.faults().request_rate(0, 0.0001, 2.0);
    let mut client = connect(&server, 0).await;
    assert!(is_ok(&client.run(insert(1)).await));
    assert!(is_ok(&client.run(insert(2)).await));
    let shed = client.run(insert(3)).await;
    assert_eq!(code(&shed), 462);
    assert_eq!(labels(&shed), ["SystemOverloadedError", "RetryableError"]);
    assert!(is_ok(&client.run(hello()).await), "hello is exempt");
    server.faults().clear_rate_limits(0);
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
}

#[tokio::test]
async fn rate_limit_is_set_by_set_parameter() {
    let server = Deployment::standalone().version("8.2").start();
    let mut client = connect(&server, 0).await;
    let set = |name: &str, value: bson::Bson| {
        doc! { "setParameter": 1, name: value, "$db": "admin" }
    };
    let was = client.run(set("ingressRequestAdmissionRatePerSec", 1.into())).await;
    assert_eq!(was.get_i32("was").unwrap(), i32::MAX);
    client.run(set("externalClientBaseBackoffMS", 50.into())).await;
    client.run(set("ingressRequestAdmissionBurstCapacitySecs", 0.000_001.into())).await;
    client.run(set("ingressRequestRateLimiterEnabled", true.into())).await;
    let shed = client.run(insert(1)).await;
    assert_eq!((code(&shed), shed.get_i64("baseBackoffMS").unwrap()), (462, 50));
    server.faults().clear_rate_limits(0);
    let negative = client.run(set("ingressRequestAdmissionBurstCapacitySecs", (-1).into())).await;
    assert_eq!(code(&negative), 2);
    let unknown = client.run(set("nonsense", 1.into())).await;
    assert!(unknown.get_str("errmsg").unwrap().contains("unrecognized parameter [nonsense]"));
    let fixed = client.run(set("enableTestCommands", true.into())).await;
    assert!(fixed.get_str("errmsg").unwrap().contains("not allowed to change"));
}

#[tokio::test]
async fn connections_beyond_rate_are_closed() {
    let server = Deployment::standalone().start();
    server.faults().connection_rate(0, 0.0001, 1.0);
    let mut first = connect(&server, 0).await;
    assert!(is_ok(&first.run(hello()).await));
    let (rest, _) = connect(&server, 0).await.rest().await;
    assert!(rest.is_empty());
    assert!(is_ok(&first.run(hello()).await), "who is there stays");
    server.faults().clear_rate_limits(0);
    assert!(is_ok(&connect(&server, 0).await.run(hello()).await));
}

#[tokio::test(start_paused = true)]
async fn latency_delays_request_and_reply() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    client.run(hello()).await;
    server.faults().latency(0, Duration::from_secs(100), Duration::from_secs(10));
    let began = tokio::time::Instant::now();
    assert!(is_ok(&client.run(insert(1)).await));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(110) && took < Duration::from_secs(120), "{took:?}");
}

#[tokio::test]
async fn require_api_version_is_enforced() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    client.run(doc! { "setParameter": 1, "requireApiVersion": true, "$db": "admin" }).await;
    assert_eq!(code(&client.run(insert(1)).await), 498_870);
    let mut stable = insert(1);
    stable.insert("apiVersion", "1");
    assert!(is_ok(&client.run(stable).await));
}
