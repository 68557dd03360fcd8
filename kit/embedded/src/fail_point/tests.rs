//! Fail points as on a server with test commands enabled.

use super::{
    command::{FailCommandAction, FailCommandEffect, MatchedCommand},
    *,
};
use blackpipe_base::codes::ErrorContext;

fn on(mode: impl Into<Bson>, data: Document) -> FailPoints {
    let points = FailPoints::new(7);
    points.configure(&fail_command(mode, data)).unwrap();
    points
}

fn fail_command(mode: impl Into<Bson>, data: Document) -> Document {
    doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data }
}

fn case(name: &str) -> MatchedCommand<'_> {
    MatchedCommand {
        name,
        namespace: "shop.orders",
        app_name: Some("till"),
        context: ErrorContext::default(),
    }
}

fn insert() -> MatchedCommand<'static> {
    MatchedCommand {
        context: ErrorContext { is_retryable_write: true, ..ErrorContext::default() },
        ..case("insert")
    }
}

fn failed(points: &FailPoints, case: MatchedCommand<'_>) -> Option<i32> {
    match points.effect_on(case)?.then {
        FailCommandAction::Reply(reply) => Some(reply.get_i32("code").unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn mode_limits_activations() {
    let data = || doc! { "failCommands": ["insert"], "errorCode": 2 };
    let times = on(doc! { "times": 2 }, data());
    assert_eq!((0..4).filter(|_| failed(&times, insert()).is_some()).count(), 2);
    assert!(!times.any_enabled());
    let skip = on(doc! { "skip": 2 }, data());
    let seen: Vec<_> = (0..4).map(|_| failed(&skip, insert()).is_some()).collect();
    assert_eq!(seen, [false, false, true, true]);
    let chance = || {
        let points = on(doc! { "activationProbability": 0.5 }, data());
        (0..40).map(|_| failed(&points, insert()).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(chance(), chance());
    assert!(chance().contains(&true) && chance().contains(&false));
}

#[test]
fn unmatched_commands_do_not_count() {
    let data = doc! {
        "failCommands": ["findAndModify"], "errorCode": 2, "appName": "till",
        "namespace": "shop.orders",
    };
    let points = on(doc! { "times": 1 }, data);
    assert_eq!(failed(&points, insert()), None);
    assert_eq!(failed(&points, MatchedCommand { app_name: None, ..case("findAndModify") }), None);
    assert_eq!(
        failed(&points, MatchedCommand { namespace: "shop.x", ..case("findAndModify") }),
        None
    );
    assert_eq!(failed(&points, case("findandmodify")), Some(2));
    let off = fail_command("off", Document::new());
    assert_eq!(points.configure(&off).unwrap(), doc! { "count": 1, "ok": 1.0 });
}

#[test]
fn default_error_labels_can_be_overridden() {
    let reply =
        |data: Document, case: MatchedCommand<'_>| match on("alwaysOn", data).effect_on(case) {
            Some(FailCommandEffect { then: FailCommandAction::Reply(reply), .. }) => reply,
            other => panic!("{other:?}"),
        };
    let data = doc! { "failCommands": ["insert"], "errorCode": 10107 };
    let added = reply(data.clone(), insert());
    assert_eq!(added.get_array("errorLabels").unwrap(), &[Bson::from("RetryableWriteError")]);
    assert_eq!(added.get_str("codeName").unwrap(), "NotWritablePrimary");
    assert!(!reply(data.clone(), case("insert")).contains_key("errorLabels"));
    let given = doc! { "errorLabels": ["Mine"] };
    let given = reply(data.clone().into_iter().chain(given).collect(), insert());
    assert_eq!(given.get_array("errorLabels").unwrap(), &[Bson::from("Mine")]);
    let none = doc! { "errorLabels": [] };
    let none = reply(data.into_iter().chain(none).collect(), insert());
    assert!(!none.contains_key("errorLabels"));
}

#[test]
fn fail_command_blocks_closes_and_adds_write_concern_error() {
    let block = doc! { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 50 };
    let failing = on("alwaysOn", block).effect_on(insert()).unwrap();
    assert_eq!(
        failing,
        FailCommandEffect {
            block: Some(Duration::from_millis(50)),
            then: FailCommandAction::Continue
        }
    );
    let close = doc! { "failCommands": ["insert"], "closeConnection": true, "errorCode": 2 };
    assert_eq!(
        on("alwaysOn", close).effect_on(insert()).unwrap().then,
        FailCommandAction::CloseConnection
    );
    let error = doc! { "code": 91, "errmsg": "it shuts down" };
    let concern = doc! { "failCommands": ["insert"], "writeConcernError": error.clone() };
    match on("alwaysOn", concern).effect_on(insert()).unwrap().then {
        FailCommandAction::AddConcernError(concern) => {
            assert_eq!((concern.error, concern.labels.len()), (error, 1));
        }
        other => panic!("{other:?}"),
    }
    let forgot = doc! { "failCommands": ["insert"], "blockConnection": true };
    assert_eq!(failed(&on("alwaysOn", forgot), insert()), Some(72));
}

#[test]
fn configure_fail_point_is_exempt_from_fail_command() {
    let points = on("alwaysOn", doc! { "failAllCommands": true, "errorCode": 2 });
    assert_eq!(failed(&points, case("configureFailPoint")), None);
    assert_eq!(failed(&points, case("ping")), Some(2));
}

#[test]
fn invalid_fail_point_data_is_rejected() {
    let points = FailPoints::new(0);
    let rejected = |name: &str, mode: Bson| {
        points.configure(&doc! { "configureFailPoint": name, "mode": mode }).unwrap_err().message
    };
    assert_eq!(rejected("nonsense", "off".into()), "nonsense not found");
    assert_eq!(rejected("failCommand", "sometimes".into()), "unknown mode: sometimes");
    let negative = rejected("failCommand", doc! { "times": -1 }.into());
    assert_eq!(negative, "'times' option to 'mode' must be positive");
    let missing = points.configure(&doc! { "configureFailPoint": "failCommand" }).unwrap_err();
    assert_eq!(missing.code, Code::ILLEGAL_OPERATION);
}

#[tokio::test(start_paused = true)]
async fn wait_for_fail_point_waits_for_activations() {
    let points = on("alwaysOn", doc! { "failCommands": ["ping"], "errorCode": 2 });
    let wait = doc! { "waitForFailPoint": "failCommand", "timesEntered": 1, "maxTimeMS": 1000 };
    let fault = points.wait(&wait).await.unwrap_err();
    assert_eq!(fault.code, Code::MAX_TIME_MS_EXPIRED);
    let (waited, _) = tokio::join!(points.wait(&wait), async { points.effect_on(case("ping")) });
    waited.unwrap();
}
