//! The prose tests of retryable reads.
//!
//! Left out: 2.1 and 2.2, they need routers (servers that are played take their place in the tests
//! of retrying); 3.1, 3.3, 4 and 5, they are of backing off from overloaded servers, which is still
//! to come.

use steadfast::options::{ReadPreference, SelectionCriteria};

use super::*;

#[tokio::test]
async fn prose_1_a_read_is_tried_again_when_the_pool_is_cleared_while_it_waits() {
    let app_name = "retryable reads, prose 1";
    let watched = Watched::new(app_name, |options| {
        options.max_pool_size = Some(1);
        options.retry_reads = Some(true);
    })
    .await;
    let data = doc! {
        "failCommands": ["find"], "errorCode": 91, "blockConnection": true, "blockTimeMS": 1_000,
    };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let numbers = watched.collection("reads_prose_1");
    let find = || numbers.find_one(doc! {}).into_future();
    check_cleared_pool(&watched, "find", async { tokio::join!(find(), find()).into() }).await;
}

#[tokio::test]
async fn prose_3_2_a_read_that_fails_without_overload_is_tried_again_on_the_same_member() {
    let app_name = "retryable reads, prose 3.2";
    let watched = Watched::new(app_name, |options| {
        let preference = ReadPreference::primary_preferred(None);
        options.selection_criteria = Some(SelectionCriteria::from(preference));
        options.retry_reads = Some(true);
    })
    .await;
    let data = doc! { "failCommands": ["find"], "errorCode": 6, "errorLabels": ["RetryableError"] };
    let point = FailPoint::on_primary(1, data, app_name).await;
    bounded(watched.collection("reads_prose_3").find_one(doc! {})).await.unwrap();
    let primary = vec![address(point.members[0])];
    assert_eq!(watched.ends("find"), (primary.clone(), primary));
}
