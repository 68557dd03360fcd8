//! Executions derived from deliveries and replies.

use super::*;

const ID: [u8; 16] = [7; 16];

fn insert(txn_number: Option<i64>) -> CommandView<'static> {
    CommandView {
        name: "insert",
        target: Some("orders"),
        database: "shop",
        lsid: Some(ID),
        txn_number,
        in_transaction: false,
        ordered: true,
        statements: 2,
    }
}

fn done() -> ReplySummary {
    ReplySummary { ok: true, n: Some(2), changed: Some(2), ..ReplySummary::default() }
}

fn rejected() -> ReplySummary {
    ReplySummary { code: Some(10107), ..ReplySummary::default() }
}

/// Delivers a command once and records a reply, if any. Returns `true` for a retry.
fn send(ledger: &mut Ledger, command: CommandView<'_>, outcome: Option<ReplySummary>) -> bool {
    let server: Arc<str> = "127.0.0.1:27017".into();
    let RecordedRequest { number, is_retry, .. } =
        ledger.arrived(&server, 1, &command, "shop.orders");
    ledger.delivered(number, Delivery::Whole);
    if let Some(outcome) = outcome {
        ledger.answered(number, outcome);
    }
    is_retry
}

#[test]
fn retry_from_the_session_record_is_not_an_execution() {
    let mut ledger = Ledger::default();
    assert!(!send(&mut ledger, insert(Some(1)), Some(done())));
    assert!(send(&mut ledger, insert(Some(1)), Some(ReplySummary { retried: 2, ..done() })));
    let [write] = ledger.writes_of("insert", "shop.orders")[..] else { panic!("one write") };
    assert_eq!((write.attempts, write.deliveries, write.acknowledged), (2, 2, 2));
    assert_eq!((write.executions, write.from_record, write.statements_executed), (1, 1, 2));
    let count = ledger.count("insert", "shop.orders");
    assert_eq!((count.deliveries, count.executions, count.from_record), (2, 1, 1));
}

#[test]
fn session_record_proves_the_execution_of_an_unanswered_write() {
    let mut ledger = Ledger::default();
    send(&mut ledger, insert(Some(1)), None);
    send(&mut ledger, insert(Some(1)), Some(ReplySummary { retried: 2, ..done() }));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.deliveries, write.executions, write.from_record), (2, 1, 1));
    assert_eq!(write.statements_executed, 2);
}

#[test]
fn partially_executed_batch_is_completed_by_a_retry() {
    let mut ledger = Ledger::default();
    let failed =
        ReplySummary { write_errors: 1, first_write_error: Some(1), changed: Some(1), ..done() };
    send(&mut ledger, insert(Some(1)), Some(failed));
    send(&mut ledger, insert(Some(1)), Some(ReplySummary { retried: 1, ..done() }));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.executions, write.from_record, write.statements_executed), (2, 0, 2));
    assert!(!ledger.anything_applied_twice());
}

#[test]
fn errors_are_not_executions_and_double_executions_are_detected() {
    let mut ledger = Ledger::default();
    send(&mut ledger, insert(Some(1)), Some(rejected()));
    assert_eq!(ledger.count("insert", "shop.orders").executions, 0);
    send(&mut ledger, insert(Some(1)), Some(done()));
    assert!(!ledger.anything_applied_twice());
    send(&mut ledger, insert(Some(1)), Some(done()));
    assert!(ledger.anything_applied_twice());
    assert_eq!(ledger.count("insert", "shop.orders").errors, 1);
}

#[test]
fn write_with_only_failed_statements_is_not_an_execution() {
    let mut ledger = Ledger::default();
    let duplicate = ReplySummary {
        write_errors: 1,
        first_write_error: Some(0),
        n: Some(0),
        changed: Some(0),
        ..done()
    };
    send(&mut ledger, insert(Some(1)), Some(duplicate));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.executions, write.acknowledged, write.errors), (0, 0, 1));
    let count = ledger.count("insert", "shop.orders");
    assert_eq!((count.executions, count.errors), (0, 1));
}

#[test]
fn writes_without_txn_number_are_not_tracked() {
    let mut ledger = Ledger::default();
    assert!(!send(&mut ledger, insert(None), Some(done())));
    assert!(!send(&mut ledger, insert(None), Some(done())));
    assert_eq!(ledger.writes().count(), 0);
    assert_eq!(ledger.count("insert", "shop.orders").executions, 2);
}

#[test]
fn statements_of_a_transaction_are_not_retries() {
    let mut ledger = Ledger::default();
    let within = |name| CommandView { name, in_transaction: true, ..insert(Some(1)) };
    assert!(!send(&mut ledger, within("insert"), Some(done())));
    assert!(!send(&mut ledger, within("insert"), Some(done())));
    assert!(!send(&mut ledger, within("commitTransaction"), Some(done())));
    assert!(send(&mut ledger, within("commitTransaction"), Some(done())));
}

#[test]
fn repeated_commit_counts_one_execution() {
    let mut ledger = Ledger::default();
    let end = |name| CommandView { name, in_transaction: true, statements: 0, ..insert(Some(1)) };
    let ended = ReplySummary { ok: true, ..ReplySummary::default() };
    send(&mut ledger, end("commitTransaction"), None);
    assert!(send(&mut ledger, end("commitTransaction"), Some(ended)));
    assert!(send(&mut ledger, end("commitTransaction"), Some(ended)));
    // An abort is another write with the same number.
    assert!(!send(&mut ledger, end("abortTransaction"), Some(rejected())));
    let [write] = ledger.writes().collect::<Vec<_>>()[..] else { panic!("one write") };
    assert_eq!((write.attempts, write.deliveries, write.acknowledged), (3, 3, 2));
    assert_eq!((write.executions, write.from_record, write.errors), (1, 1, 0));
    assert_eq!(ledger.count("commitTransaction", "shop.orders").executions, 1);
    assert_eq!(ledger.count("abortTransaction", "shop.orders").errors, 1);
}

#[test]
fn ledger_memory_is_bounded() {
    let mut ledger = Ledger::default();
    let server: Arc<str> = "a:1".into();
    for nth in 0..60_000_i64 {
        let name = format!("command {nth}");
        let command = CommandView { name: &name, ..insert(Some(nth)) };
        ledger.arrived(&server, 1, &command, "shop.orders");
    }
    assert_eq!(ledger.entries.len(), MAX_ENTRIES);
    assert_eq!((ledger.writes.len(), ledger.order.len()), (MAX_WRITES, MAX_WRITES));
    assert_eq!(ledger.counters.len(), MAX_COUNTERS + 1);
    assert_eq!(ledger.entries().last().unwrap().number, 59_999);
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for nth in 0..10 {
        let name = CommandView { name: OTHERS, ..insert(None) };
        ledger.arrived(&server, 1, &name, &format!("shop.orders{nth}"));
        let arrival = ledger.arrived(&server, 1, &CommandView { name: &long, ..name }, &long);
        assert_eq!(&*arrival.namespace, OTHERS);
    }
    assert_eq!(ledger.counters.len(), MAX_COUNTERS + 1);
}

#[test]
fn tracked_writes_keep_their_namespace_beyond_the_counter_limit() {
    let mut ledger = Ledger::default();
    let server: Arc<str> = "a:1".into();
    for nth in 0..MAX_COUNTERS {
        ledger.arrived(&server, 1, &insert(None), &format!("shop.orders{nth}"));
    }
    let arrival = ledger.arrived(&server, 1, &insert(Some(1)), "shop.orders");
    assert_eq!((&*arrival.command, &*arrival.namespace), ("insert", "shop.orders"));
    assert!(ledger.arrived(&server, 1, &insert(Some(1)), "shop.orders").is_retry);
    assert_eq!(ledger.writes_of("insert", "shop.orders").len(), 1);
}

#[test]
fn repeated_write_without_effect_is_not_applied_twice() {
    let mut ledger = Ledger::default();
    let nothing = ReplySummary { changed: Some(0), ..done() };
    send(&mut ledger, insert(Some(1)), Some(nothing));
    send(&mut ledger, insert(Some(1)), Some(nothing));
    assert!(!ledger.anything_applied_twice());
    assert_eq!(ledger.count("insert", "shop.orders").executions, 2);
}
