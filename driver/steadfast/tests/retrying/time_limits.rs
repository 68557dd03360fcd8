//! Every action has a time limit if it is given one, or what it is called on has one; and the server
//! is told of it, once.

use std::time::Duration;

use steadfast::{
    IndexModel,
    bson::Bson,
    options::{Acknowledgment, WriteConcern},
};

use super::{every_action::every_action, *};

/// Longer than any test takes.
const LATER: Duration = Duration::from_secs(600);

/// What the servers were told of their time, with the names of the commands.
fn told(deployment: &Deployment) -> Vec<(String, Option<i64>)> {
    let told = |request: &common::Request| {
        assert!(!request.has_duplicate_fields, "{}", request.body);
        let number = |millis: &Bson| millis.as_i64().or(millis.as_i32().map(i64::from));
        let millis = request.body.get("maxTimeMS").map(|millis| number(millis).unwrap());
        (request.name.clone(), millis)
    };
    let log = deployment.server().log();
    log.requests.iter().filter(|request| !request.is_hello()).map(told).collect()
}

#[track_caller]
fn assert_all_told(deployment: &Deployment, at_least: usize) {
    let told = told(deployment);
    assert!(told.len() >= at_least, "{}", told.len());
    for (name, millis) in told {
        let millis = millis.unwrap_or_else(|| panic!("{name} has no time limit"));
        assert!((540_000..=600_000).contains(&millis), "{name}: {millis}");
    }
}

#[tokio::test]
async fn every_action_can_be_given_a_time_limit_and_tells_the_server() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let results = every_action!(watched.client, .timeout(LATER));
    assert_eq!(told(&deployment).len(), results.len());
    drop(watched.books.watch().timeout(LATER).await);
    assert_all_told(&deployment, results.len() + 1);
}

#[tokio::test]
async fn every_action_has_the_time_limit_of_its_client_and_tells_the_server() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "timeoutMS=600000").await;
    let results = every_action!(watched.client,);
    assert_all_told(&deployment, results.len());
}

#[tokio::test]
async fn every_action_in_a_transaction_shares_its_time_limit_and_may_have_none_of_its_own() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = watched.client.start_session().await.unwrap();
    session.start_transaction().timeout(LATER).await.unwrap();
    for (name, result) in every_action!(watched.client, .timeout(LATER).session(&mut session)) {
        let error = result.expect_err(name);
        assert!(error.is_invalid_argument(), "{name}: {error}");
    }
    assert_eq!(told(&deployment), []);
    let results = every_action!(watched.client, .session(&mut session));
    bounded(session.commit_transaction()).await.unwrap();
    assert_all_told(&deployment, results.len() + 1);
}

#[tokio::test]
async fn without_a_time_limit_no_action_tells_the_server_of_one() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    drop(every_action!(watched.client,));
    let mut session = watched.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    drop(every_action!(watched.client, .session(&mut session)));
    bounded(session.commit_transaction()).await.unwrap();
    for (name, millis) in told(&deployment) {
        assert_eq!(millis, None, "{name}");
    }
}

#[tokio::test]
async fn a_limit_of_the_older_sort_beside_a_time_limit_is_not_sent() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "timeoutMS=600000&w=2&wTimeoutMS=77").await;
    let (books, older) = (&watched.books, Duration::from_millis(77));
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

    let mut session = watched.client.start_session().await.unwrap();
    let start = session.start_transaction().max_commit_time(older).write_concern(limited);
    start.await.unwrap();
    drop(books.find(doc! {}).max_time(older).session(&mut session).await);
    drop(books.insert_many([doc! {}, doc! {}]).session(&mut session).await);
    bounded(session.commit_transaction()).await.unwrap();
    // A commit that is asked for again has a write concern of its own.
    bounded(session.commit_transaction()).await.unwrap();

    assert_all_told(&deployment, 18);
    for request in deployment.server().log().requests {
        let concern = request.body.get_document("writeConcern");
        assert!(!concern.is_ok_and(|it| it.contains_key("wtimeout")), "{}", request.body);
    }
}

#[tokio::test]
async fn a_time_limit_longer_than_servers_can_count_is_told_as_the_longest_that_they_can() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    bounded(watched.books.insert_one(doc! {}).timeout(century)).await.unwrap();
    // The server refuses more than 31 bits.
    assert_eq!(told(&deployment), [("insert".to_owned(), Some(i64::from(i32::MAX)))]);
}

#[tokio::test]
async fn a_time_limit_beyond_all_bounds_is_none() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "serverSelectionTimeoutMS=9223372036854775807").await;
    bounded(watched.books.insert_one(doc! {}).timeout(Duration::MAX)).await.unwrap();
    bounded(watched.books.insert_many([doc! {}]).timeout(Duration::MAX)).await.unwrap();
    bounded(watched.books.find(doc! {}).timeout(Duration::MAX)).await.unwrap();
    let mut session = watched.client.start_session().await.unwrap();
    let books = &watched.books;
    let start = session.start_transaction().timeout(Duration::MAX);
    let run = start.and_run2(async |session: &mut steadfast::ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    assert!(
        told(&deployment).iter().all(|(_, millis)| millis.is_none()),
        "{:?}",
        told(&deployment)
    );
}

#[tokio::test]
async fn a_time_limit_too_short_for_anything_sends_nothing_and_spoils_nothing() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "maxPoolSize=1").await;
    watched.ping().await;
    let before = told(&deployment).len();
    for (name, result) in every_action!(watched.client, .timeout(Duration::from_nanos(1))) {
        let error = result.expect_err(name);
        assert!(error.is_timeout(), "{name}: {error:?}");
        assert_eq!(error.outcome(), Outcome::NotSent, "{name}: {error:?}");
    }
    assert_eq!(told(&deployment).len(), before);
    watched.ping().await;
    assert_eq!(deployment.server().log().opened, 2, "the monitor's and one for operations");
}

#[tokio::test]
async fn nothing_to_insert_is_refused_with_a_time_limit_too() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "timeoutMS=600000").await;
    let error = watched.books.insert_many(Vec::<Document>::new()).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert_eq!(told(&deployment), []);
}

#[tokio::test]
async fn a_write_that_nobody_answers_tells_of_its_time_limit() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "w=0").await;
    watched.books.insert_one(doc! {}).timeout(LATER).await.unwrap();
    watched.books.insert_many([doc! {}]).timeout(LATER).await.unwrap();
    let delete = watched.books.delete_one(doc! {}).hint(steadfast::options::Hint::Name("i".into()));
    delete.timeout(LATER).await.unwrap();
    deployment.server().wait_for(|log| !log.named("delete").is_empty()).await;
    assert_all_told(&deployment, 3);
}

#[tokio::test]
async fn calls_that_timed_out_are_counted_once_and_their_commands_have_ended() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::Silence; 2]);
    let soon = Duration::from_millis(100);
    let one = bounded(watched.books.insert_one(doc! {}).timeout(soon));
    let (one, ()) = tokio::join!(one, deployment.silent(&clock, "insert", 1, soon));
    one.unwrap_err();
    let many = bounded(watched.books.insert_many([doc! {}]).timeout(soon));
    let (many, ()) = tokio::join!(many, deployment.silent(&clock, "insert", 2, soon));
    many.unwrap_err();
    assert_eq!(watched.client.metrics().timeouts, 2);
    // Whose sessions nobody else gets: the server may still be at it.
    watched.books.insert_one(doc! {}).await.unwrap();
    let mut sessions: Vec<_> = watched.sessions("insert").iter().map(ToString::to_string).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
}

#[tokio::test]
async fn a_call_with_a_time_limit_that_is_dropped_ends_its_command_and_its_session() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "timeoutMS=600000").await;
    deployment.suffer(&[Fault::Silence]);
    let mut dropped = Box::pin(watched.books.insert_one(doc! {}).into_future());
    tokio::select! {
        ended = &mut dropped => panic!("{ended:?}"),
        _ = deployment.server().wait_for(|log| log.named("insert").len() == 1) => {}
    }
    drop(dropped);
    assert_eq!(watched.started("insert").len(), 1, "and it has ended");
    bounded(watched.books.insert_one(doc! {})).await.unwrap();
    let sessions = watched.sessions("insert");
    assert_ne!(sessions[0], sessions[1], "the first may still be under way");
    let connections = deployment.server().log().connections_of("insert");
    assert_ne!(connections[0], connections[1], "the reply of the first may still come");
}
