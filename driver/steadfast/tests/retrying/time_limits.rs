//! Every action with a time-out, of its own or inherited, sends `maxTimeMS` once.

use std::time::Duration;

use steadfast::{
    IndexModel,
    bson::Bson,
    options::{Acknowledgment, WriteConcern},
};

use super::{every_action::every_action, *};

/// Time-out that no test reaches.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the names of the commands with their `maxTimeMS`.
fn max_times(deployment: &Deployment) -> Vec<(String, Option<i64>)> {
    let max_times = |request: &common::Request| {
        assert!(!request.has_duplicate_fields, "{}", request.body);
        let number = |millis: &Bson| millis.as_i64().or(millis.as_i32().map(i64::from));
        let millis = request.body.get("maxTimeMS").map(|millis| number(millis).unwrap());
        (request.name.clone(), millis)
    };
    let log = deployment.server().log();
    log.requests.iter().filter(|request| !request.is_hello()).map(max_times).collect()
}

#[track_caller]
fn assert_max_times(deployment: &Deployment, at_least: usize) {
    let max_times = max_times(deployment);
    assert!(max_times.len() >= at_least, "{}", max_times.len());
    for (name, millis) in max_times {
        let millis = millis.unwrap_or_else(|| panic!("{name} has no time limit"));
        assert!((540_000..=600_000).contains(&millis), "{name}: {millis}");
    }
}

#[tokio::test]
async fn every_action_sends_its_timeout_as_max_time_ms() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let results = every_action!(observed.client, .timeout(LONG_TIMEOUT));
    assert_eq!(max_times(&deployment).len(), results.len());
    drop(observed.books.watch().timeout(LONG_TIMEOUT).await);
    assert_max_times(&deployment, results.len() + 1);
}

#[tokio::test]
async fn every_action_sends_the_timeout_of_its_client_as_max_time_ms() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "timeoutMS=600000").await;
    let results = every_action!(observed.client,);
    assert_max_times(&deployment, results.len());
}

#[tokio::test]
async fn every_action_in_a_transaction_shares_its_timeout_and_rejects_its_own() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().timeout(LONG_TIMEOUT).await.unwrap();
    for (name, result) in
        every_action!(observed.client, .timeout(LONG_TIMEOUT).session(&mut session))
    {
        let error = result.expect_err(name);
        assert!(error.is_invalid_argument(), "{name}: {error}");
    }
    assert_eq!(max_times(&deployment), []);
    let results = every_action!(observed.client, .session(&mut session));
    bounded(session.commit_transaction()).await.unwrap();
    assert_max_times(&deployment, results.len() + 1);
}

#[tokio::test]
async fn without_a_timeout_no_action_sends_max_time_ms() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    drop(every_action!(observed.client,));
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    drop(every_action!(observed.client, .session(&mut session)));
    bounded(session.commit_transaction()).await.unwrap();
    for (name, millis) in max_times(&deployment) {
        assert_eq!(millis, None, "{name}");
    }
}

#[tokio::test]
async fn timeout_ms_overrides_max_time_ms_and_wtimeout() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "timeoutMS=600000&w=2&wTimeoutMS=77").await;
    let (books, older) = (&observed.books, Duration::from_millis(77));
    let index = || IndexModel::builder().keys(doc! { "x": 1 }).build();
    let set = doc! { "$set": { "x": 1 } };
    drop(books.find(doc! {}).max_time(older).await);
    drop(books.find_one(doc! {}).max_time(older).await);
    drop(books.aggregate([]).max_time(older).await);
    drop(books.distinct("x", doc! {}).max_time(older).await);
    drop(books.count_documents(doc! {}).max_time(older).await);
    drop(books.estimated_document_count().max_time(older).await);
    drop(books.find_one_and_update(doc! {}, set.clone()).max_time(older).await);
    drop(books.find_one_and_replace(doc! {}, doc! {}).max_time(older).await);
    drop(books.find_one_and_delete(doc! {}).max_time(older).await);
    drop(books.create_index(index()).max_time(older).await);
    drop(books.drop_index("x_1").max_time(older).await);
    drop(books.list_indexes().max_time(older).await);
    drop(books.insert_many([doc! {}, doc! {}]).await);
    let limited = WriteConcern::builder().w(Acknowledgment::Nodes(1)).w_timeout(older).build();
    drop(books.update_many(doc! {}, set).write_concern(limited.clone()).await);

    let mut session = observed.client.start_session().await.unwrap();
    let start = session.start_transaction().max_commit_time(older).write_concern(limited);
    start.await.unwrap();
    drop(books.find(doc! {}).max_time(older).session(&mut session).await);
    drop(books.insert_many([doc! {}, doc! {}]).session(&mut session).await);
    bounded(session.commit_transaction()).await.unwrap();
    // A repeated commit has another write concern.
    bounded(session.commit_transaction()).await.unwrap();

    assert_max_times(&deployment, 18);
    for request in deployment.server().log().requests {
        let concern = request.body.get_document("writeConcern");
        assert!(!concern.is_ok_and(|it| it.contains_key("wtimeout")), "{}", request.body);
    }
}

#[tokio::test]
async fn max_time_ms_is_capped_at_31_bits() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    bounded(observed.books.insert_one(doc! {}).timeout(century)).await.unwrap();
    // The server rejects values of more than 31 bits.
    assert_eq!(max_times(&deployment), [("insert".to_owned(), Some(i64::from(i32::MAX)))]);
}

#[tokio::test]
async fn a_timeout_of_duration_max_is_no_timeout() {
    let deployment = Deployment::primary();
    let observed =
        ObservedClient::new(&deployment, "serverSelectionTimeoutMS=9223372036854775807").await;
    bounded(observed.books.insert_one(doc! {}).timeout(Duration::MAX)).await.unwrap();
    bounded(observed.books.insert_many([doc! {}]).timeout(Duration::MAX)).await.unwrap();
    bounded(observed.books.find(doc! {}).timeout(Duration::MAX)).await.unwrap();
    let mut session = observed.client.start_session().await.unwrap();
    let books = &observed.books;
    let start = session.start_transaction().timeout(Duration::MAX);
    let run = start.and_run2(async |session: &mut steadfast::ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    assert!(
        max_times(&deployment).iter().all(|(_, millis)| millis.is_none()),
        "{:?}",
        max_times(&deployment)
    );
}

#[tokio::test]
async fn a_timeout_of_one_nanosecond_sends_nothing_and_keeps_the_connection() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxPoolSize=1").await;
    observed.ping().await;
    let before = max_times(&deployment).len();
    for (name, result) in every_action!(observed.client, .timeout(Duration::from_nanos(1))) {
        let error = result.expect_err(name);
        assert!(error.is_timeout(), "{name}: {error:?}");
        assert_eq!(error.outcome(), Outcome::NotSent, "{name}: {error:?}");
    }
    assert_eq!(max_times(&deployment).len(), before);
    observed.ping().await;
    assert_eq!(deployment.server().log().opened, 2, "the monitor's and one for operations");
}

#[tokio::test]
async fn an_empty_insert_many_with_a_timeout_is_rejected() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "timeoutMS=600000").await;
    let error = observed.books.insert_many(Vec::<Document>::new()).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert_eq!(max_times(&deployment), []);
}

#[tokio::test]
async fn an_unacknowledged_write_sends_its_timeout_as_max_time_ms() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "w=0").await;
    observed.books.insert_one(doc! {}).timeout(LONG_TIMEOUT).await.unwrap();
    observed.books.insert_many([doc! {}]).timeout(LONG_TIMEOUT).await.unwrap();
    let delete =
        observed.books.delete_one(doc! {}).hint(steadfast::options::Hint::Name("i".into()));
    delete.timeout(LONG_TIMEOUT).await.unwrap();
    deployment.server().wait_for(|log| !log.named("delete").is_empty()).await;
    assert_max_times(&deployment, 3);
}

#[tokio::test]
async fn calls_that_timed_out_are_counted_once_and_their_commands_have_ended() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::NoReply; 2]);
    let soon = Duration::from_millis(100);
    let one = bounded(observed.books.insert_one(doc! {}).timeout(soon));
    let (one, ()) = tokio::join!(one, deployment.expire_without_reply(&clock, "insert", 1, soon));
    one.unwrap_err();
    let many = bounded(observed.books.insert_many([doc! {}]).timeout(soon));
    let (many, ()) = tokio::join!(many, deployment.expire_without_reply(&clock, "insert", 2, soon));
    many.unwrap_err();
    assert_eq!(observed.client.metrics().timeouts, 2);
    // Dirty sessions are not reused, because the server may still execute the operation.
    observed.books.insert_one(doc! {}).await.unwrap();
    let mut sessions: Vec<_> =
        observed.sessions("insert").iter().map(ToString::to_string).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
}

#[tokio::test]
async fn a_dropped_call_with_a_timeout_ends_its_command_and_discards_its_session() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "timeoutMS=600000").await;
    deployment.inject(&[Fault::NoReply]);
    let mut dropped = Box::pin(observed.books.insert_one(doc! {}).into_future());
    tokio::select! {
        ended = &mut dropped => panic!("{ended:?}"),
        _ = deployment.server().wait_for(|log| log.named("insert").len() == 1) => {}
    }
    drop(dropped);
    assert_eq!(observed.started("insert").len(), 1, "and it has ended");
    bounded(observed.books.insert_one(doc! {})).await.unwrap();
    let sessions = observed.sessions("insert");
    assert_ne!(sessions[0], sessions[1], "the first may still be under way");
    let connections = deployment.server().log().connections_of("insert");
    assert_ne!(connections[0], connections[1], "the reply of the first may still come");
}
