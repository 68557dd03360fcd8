//! Convenient transactions, which are retried until they are committed.

use super::*;

#[tokio::test]
async fn contended_counters_add_up() {
    testbed::require!(testbed::shared::servers());
    const TASKS: i32 = 6;
    const ROUNDS: i32 = 15;
    let client = client().await;
    let counters = counter(&client, "contended").await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (client, counters) = (client.clone(), counters.clone());
            tokio::spawn(async move {
                let mut session = client.start_session().await.unwrap();
                for _ in 0..ROUNDS {
                    let run =
                        session.start_transaction().and_run(&counters, |session, counters| {
                            Box::pin(async move {
                                let found =
                                    counters.find_one(doc! {}).session(&mut *session).await?;
                                let n = found.expect("the document exists").get_i32("n").unwrap();
                                let set = doc! { "$set": { "n": n + 1 } };
                                counters.update_one(doc! {}, set).session(session).await
                            })
                        });
                    assert_eq!(run.await.unwrap().modified_count, 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&counters).await, TASKS * ROUNDS);
}

#[tokio::test]
async fn and_run2_retries_after_a_write_conflict_and_only_the_last_run_is_applied() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "run_again").await;
    let mut rival = begin(&client).await;
    counters.update_one(doc! {}, increment_n()).session(&mut rival).await.unwrap();
    let (sender, conflict) = oneshot::channel();
    let (mut sender, mut runs) = (Some(sender), 0);
    let mut session = client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        runs += 1;
        counters.insert_one(doc! {}).session(&mut *session).await?;
        let done = counters.update_one(doc! { "_id": 0 }, increment_n()).session(session).await;
        if let (Err(_), Some(sender)) = (&done, sender.take()) {
            sender.send(()).unwrap();
        }
        done
    });
    let rival = async {
        conflict.await.expect("the first run meets with a conflict");
        rival.commit_transaction().await.unwrap();
    };
    let (done, ()) = bounded(async { tokio::join!(run, rival) }).await;
    done.unwrap();
    assert!(runs > 1);
    assert_eq!(count(&counters).await, 2);
    assert_eq!(counters.count_documents(doc! {}).await.unwrap(), 2, "one insert is left");
}

#[tokio::test]
async fn a_custom_error_aborts_the_transaction_and_is_returned() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "own_error").await;
    let mut session = client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        counters.update_one(doc! {}, increment_n()).session(session).await?;
        Err::<(), _>(Error::custom("not today"))
    });
    let error = run.await.unwrap_err();
    assert_eq!(error.get_custom::<&str>(), Some(&"not today"));
    assert_eq!(session.transaction_state(), TransactionState::Aborted);
    assert_eq!(count(&counters).await, 0);
}

#[tokio::test]
async fn a_callback_may_abort_the_transaction() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "own_end").await;
    let mut session = client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        counters.update_one(doc! {}, increment_n()).session(&mut *session).await?;
        session.abort_transaction().await?;
        Ok(7)
    });
    assert_eq!(run.await.unwrap(), 7);
    assert_eq!(count(&counters).await, 0);
}
