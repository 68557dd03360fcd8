//! Deadlines, with the clock paused.

use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn innermost_timeout_applies() {
    let limit = |timeout: Duration, own| Some(TimeLimit { timeout, own });
    assert_eq!(TimeLimit::of(None, None), None);
    assert_eq!(TimeLimit::of(None, Some(MS)), limit(MS, false));
    assert_eq!(TimeLimit::of(Some(2 * MS), Some(MS)), limit(2 * MS, true));
    assert_eq!(TimeLimit::of(Some(Duration::ZERO), Some(MS)), limit(Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn deadline_passes_when_the_timeout_has_elapsed() {
    let deadline = Deadline::begin(10 * MS);
    assert_eq!(deadline.remaining(), Some(10 * MS));
    tokio::time::advance(9 * MS).await;
    assert!(!deadline.has_passed());
    tokio::time::advance(MS).await;
    assert!(deadline.has_passed());
    assert_eq!(deadline.remaining(), Some(Duration::ZERO));
    assert!(!deadline.renewed().has_passed());
}

#[tokio::test(start_paused = true)]
async fn zero_and_overflowing_timeouts_have_no_deadline() {
    for timeout in [Duration::ZERO, Duration::MAX] {
        let deadline = Deadline::begin(timeout);
        tokio::time::advance(Duration::from_secs(1_000_000)).await;
        assert!(!deadline.has_passed());
        assert_eq!((deadline.at(), deadline.remaining()), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn max_time_is_the_remaining_time_minus_the_round_trip() {
    let deadline = Some(Deadline::begin(50 * MS));
    tokio::time::advance(10 * MS).await;
    let millis = |max_time: MaxTime, round_trip| max_time.millis(deadline, round_trip);
    assert_eq!(millis(MaxTime::Remaining, None), Ok(Some(40)));
    assert_eq!(millis(MaxTime::Remaining, Some(15 * MS)), Ok(Some(25)));
    assert_eq!(millis(MaxTime::Remaining, Some(Duration::from_micros(15_500))), Ok(Some(24)));
    assert_eq!(millis(MaxTime::Omit, Some(15 * MS)), Ok(None));
    assert_eq!(millis(MaxTime::AtMost(20 * MS), Some(15 * MS)), Ok(Some(20)));
    assert_eq!(millis(MaxTime::AtMost(30 * MS), Some(15 * MS)), Ok(Some(25)));
    for max_time in [MaxTime::Remaining, MaxTime::Omit, MaxTime::AtMost(MS)] {
        assert_eq!(millis(max_time, Some(40 * MS)), Err(NoTimeLeft), "{max_time:?}");
        assert_eq!(millis(max_time, Some(41 * MS)), Err(NoTimeLeft), "{max_time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_max_time_is_not_sent() {
    for deadline in [None, Some(Deadline::begin(Duration::ZERO))] {
        assert_eq!(MaxTime::Remaining.millis(deadline, Some(MS)), Ok(None));
        assert_eq!(MaxTime::AtMost(5 * MS).millis(deadline, Some(9 * MS)), Ok(Some(5)));
    }
}

#[test]
fn timeout_error_contains_the_time_of_each_phase() {
    let spent = TimeSpent { selecting: 2 * MS, waiting: 240 * MS, ..TimeSpent::default() };
    let timeout = Timeout { timeout: 250 * MS, spent };
    assert_eq!(
        timeout.to_string(),
        "timed out after 250ms (timeoutMS): 2.0 ms server selection, 240.0 ms awaiting the reply"
    );
}

#[test]
fn wrapped_error_keeps_the_outcome() {
    let unreadable = Error::invalid_response("no such reply").with_server(&"db".parse().unwrap());
    let outcome = unreadable.outcome();
    assert!(!outcome.is_certainly_not_applied());
    let error = Deadline::begin(MS).exceeded(unreadable, TimeSpent::default());
    assert!(error.is_timeout());
    assert_eq!(error.outcome(), outcome);
}
