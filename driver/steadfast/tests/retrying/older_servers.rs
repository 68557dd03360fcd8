//! Servers before MongoDB 4.4, which send no error labels: the driver detects retryable errors by code.

use super::*;

/// Wire version of MongoDB 4.2.
const WIRE_4_2: i32 = 8;
/// Codes of retryable write errors.
const CODES: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

async fn deployment_of_4_2(role: Role) -> Deployment {
    let deployment = Deployment::start(role);
    deployment.set_hello_fields(doc! { "maxWireVersion": WIRE_4_2 });
    deployment
}

async fn insert(role: Role, faults: &[Fault]) -> (ObservedClient, Result<()>) {
    let deployment = deployment_of_4_2(role).await;
    deployment.inject(faults);
    let observed = ObservedClient::new(&deployment, "").await;
    let result = observed.run(&write("insert_one")).await;
    assert!(deployment.applied().values().all(|&times| times == 1), "{faults:?}");
    (observed, result)
}

#[tokio::test]
async fn a_write_is_retried_by_the_code_of_a_command_error() {
    for role in [Role::Primary, Role::Mongos] {
        let checks = CODES.map(|code| {
            tokio::spawn(async move {
                let (_, result) = insert(role, &[Fault::CommandError(code, UNLABELLED)]).await;
                assert!(result.is_ok(), "{role:?}, {code}: {result:?}");
                let twice = [Fault::CommandError(code, UNLABELLED); 2];
                let error = insert(role, &twice).await.1.unwrap_err();
                assert!(error.contains_label(RETRYABLE_WRITE_ERROR), "{code}: {error:?}");
                let labelled = |it: &steadfast::error::Attempt| it.labels == RETRYABLE;
                assert!(error.attempts().iter().all(labelled), "{code}: {error:?}");
            })
        });
        for check in checks {
            check.await.unwrap();
        }
    }
}

#[tokio::test]
async fn other_codes_are_not_retried() {
    for code in [2, 50, 64, 134, 217, 225, 11601] {
        let (observed, result) =
            insert(Role::Primary, &[Fault::CommandError(code, UNLABELLED)]).await;
        let error = result.expect_err("it is rejected");
        assert!(error.labels().is_empty(), "{code}: {error:?}");
        assert_eq!(observed.started("insert").len(), 1, "{code}");
    }
}

#[tokio::test]
async fn a_members_write_concern_error_is_retried_by_its_code() {
    with_each(retryable_writes(), |write| async move {
        for times in [1, 2] {
            let deployment = deployment_of_4_2(Role::Primary).await;
            deployment
                .inject(&[Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, UNLABELLED); 2][..times]);
            let observed = ObservedClient::new(&deployment, "").await;
            let result = observed.run(&write).await;
            assert!(deployment.applied().values().all(|&times| times == 1), "{}", write.name);
            assert_eq!(observed.started(write.command).len(), 2, "{}", write.name);
            assert_eq!(result.is_ok(), times == 1, "{}: {result:?}", write.name);
            if let Err(error) = result {
                let labelled = error.contains_label(RETRYABLE_WRITE_ERROR);
                assert!(labelled, "{}: {error:?}", write.name);
                assert_eq!(error.outcome(), Outcome::AppliedNotDurable, "{}", write.name);
                assert_eq!(error.attempts().len(), 2, "{}", write.name);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_write_concern_error_of_a_mongos_is_not_retried() {
    // pitfall 16
    let fault = Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, UNLABELLED);
    let (observed, result) = insert(Role::Mongos, &[fault]).await;
    let error = result.expect_err("not retried");
    assert_eq!(observed.started("insert").len(), 1);
    assert!(error.labels().is_empty(), "{error:?}");
    assert_eq!(error.outcome(), Outcome::AppliedNotDurable);
}

#[tokio::test]
async fn the_code_of_a_write_error_does_not_make_the_command_retryable() {
    // pitfall 16
    for role in [Role::Primary, Role::Mongos] {
        let (observed, result) =
            insert(role, &[Fault::WriteError(0, SHUTDOWN_IN_PROGRESS, UNLABELLED)]).await;
        let error = result.expect_err("the statement failed");
        assert_eq!(observed.started("insert").len(), 1, "{role:?}");
        assert!(error.labels().is_empty(), "{error:?}");
    }
}
