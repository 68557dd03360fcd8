//! How often a write was executed, told from what was forwarded and what came back.

use super::*;

const ID: [u8; 16] = [7; 16];

fn insert(txn_number: Option<i64>) -> Command<'static> {
    Command {
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

fn done() -> Outcome {
    Outcome { ok: true, n: Some(2), changed: Some(2), ..Outcome::default() }
}

fn refused() -> Outcome {
    Outcome { code: Some(10107), ..Outcome::default() }
}

/// Sends a command once; the server gets it and says this, if anything.
fn send(ledger: &mut Ledger, command: Command<'_>, outcome: Option<Outcome>) -> bool {
    let server: Arc<str> = "127.0.0.1:27017".into();
    let Arrival { number, is_retry, .. } = ledger.arrived(&server, 1, &command, "shop.orders");
    ledger.delivered(number, Delivery::Whole);
    if let Some(outcome) = outcome {
        ledger.answered(number, outcome);
    }
    is_retry
}

#[test]
fn a_retry_that_is_answered_from_the_record_is_no_second_execution() {
    let mut ledger = Ledger::default();
    assert!(!send(&mut ledger, insert(Some(1)), Some(done())));
    assert!(send(&mut ledger, insert(Some(1)), Some(Outcome { retried: 2, ..done() })));
    let [write] = ledger.writes_of("insert", "shop.orders")[..] else { panic!("one write") };
    assert_eq!((write.attempts, write.deliveries, write.acknowledged), (2, 2, 2));
    assert_eq!((write.executions, write.from_record, write.statements_executed), (1, 1, 2));
    let count = ledger.count("insert", "shop.orders");
    assert_eq!((count.deliveries, count.executions, count.from_record), (2, 1, 1));
}

#[test]
fn a_write_whose_reply_never_came_was_executed_if_the_record_says_so() {
    let mut ledger = Ledger::default();
    send(&mut ledger, insert(Some(1)), None);
    send(&mut ledger, insert(Some(1)), Some(Outcome { retried: 2, ..done() }));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.deliveries, write.executions, write.from_record), (2, 1, 1));
    assert_eq!(write.statements_executed, 2);
}

#[test]
fn half_a_batch_that_was_done_before_is_finished() {
    let mut ledger = Ledger::default();
    let failed =
        Outcome { write_errors: 1, first_write_error: Some(1), changed: Some(1), ..done() };
    send(&mut ledger, insert(Some(1)), Some(failed));
    send(&mut ledger, insert(Some(1)), Some(Outcome { retried: 1, ..done() }));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.executions, write.from_record, write.statements_executed), (2, 0, 2));
    assert!(!ledger.anything_applied_twice());
}

#[test]
fn an_error_is_no_execution_and_two_real_ones_are_told() {
    let mut ledger = Ledger::default();
    send(&mut ledger, insert(Some(1)), Some(refused()));
    assert_eq!(ledger.count("insert", "shop.orders").executions, 0);
    send(&mut ledger, insert(Some(1)), Some(done()));
    assert!(!ledger.anything_applied_twice());
    send(&mut ledger, insert(Some(1)), Some(done()));
    assert!(ledger.anything_applied_twice());
    assert_eq!(ledger.count("insert", "shop.orders").refused, 1);
}

#[test]
fn a_write_of_which_every_statement_fails_is_not_executed() {
    let mut ledger = Ledger::default();
    let duplicate = Outcome {
        write_errors: 1,
        first_write_error: Some(0),
        n: Some(0),
        changed: Some(0),
        ..done()
    };
    send(&mut ledger, insert(Some(1)), Some(duplicate));
    let write = ledger.writes().next().unwrap();
    assert_eq!((write.executions, write.acknowledged, write.refused), (0, 0, 1));
    let count = ledger.count("insert", "shop.orders");
    assert_eq!((count.executions, count.refused), (0, 1));
}

#[test]
fn writes_without_a_number_are_each_their_own() {
    let mut ledger = Ledger::default();
    assert!(!send(&mut ledger, insert(None), Some(done())));
    assert!(!send(&mut ledger, insert(None), Some(done())));
    assert_eq!(ledger.writes().count(), 0);
    assert_eq!(ledger.count("insert", "shop.orders").executions, 2);
}

#[test]
fn statements_of_a_transaction_are_no_retries_of_each_other() {
    let mut ledger = Ledger::default();
    let within = |name| Command { name, in_transaction: true, ..insert(Some(1)) };
    assert!(!send(&mut ledger, within("insert"), Some(done())));
    assert!(!send(&mut ledger, within("insert"), Some(done())));
    assert!(!send(&mut ledger, within("commitTransaction"), Some(done())));
    assert!(send(&mut ledger, within("commitTransaction"), Some(done())));
}

#[test]
fn a_transaction_is_committed_once_however_often_that_is_asked_for() {
    let mut ledger = Ledger::default();
    let end = |name| Command { name, in_transaction: true, statements: 0, ..insert(Some(1)) };
    let ended = Outcome { ok: true, ..Outcome::default() };
    send(&mut ledger, end("commitTransaction"), None);
    assert!(send(&mut ledger, end("commitTransaction"), Some(ended)));
    assert!(send(&mut ledger, end("commitTransaction"), Some(ended)));
    // An abort is another write, though it has the same number.
    assert!(!send(&mut ledger, end("abortTransaction"), Some(refused())));
    let [write] = ledger.writes().collect::<Vec<_>>()[..] else { panic!("one write") };
    assert_eq!((write.attempts, write.deliveries, write.acknowledged), (3, 3, 2));
    assert_eq!((write.executions, write.from_record, write.refused), (1, 1, 0));
    assert_eq!(ledger.count("commitTransaction", "shop.orders").executions, 1);
    assert_eq!(ledger.count("abortTransaction", "shop.orders").refused, 1);
}

#[test]
fn memory_is_bounded_whatever_clients_send() {
    let mut ledger = Ledger::default();
    let server: Arc<str> = "a:1".into();
    for nth in 0..60_000_i64 {
        let name = format!("command {nth}");
        let command = Command { name: &name, ..insert(Some(nth)) };
        ledger.arrived(&server, 1, &command, "shop.orders");
    }
    assert_eq!(ledger.entries.len(), MOST_ENTRIES);
    assert_eq!((ledger.writes.len(), ledger.order.len()), (MOST_WRITES, MOST_WRITES));
    assert_eq!(ledger.kinds.len(), MOST_KINDS + 1);
    assert_eq!(ledger.entries().last().unwrap().number, 59_999);
    let long = "x".repeat(LONGEST_NAME_BYTES + 1);
    for nth in 0..10 {
        let name = Command { name: ANY_OTHER, ..insert(None) };
        ledger.arrived(&server, 1, &name, &format!("shop.orders{nth}"));
        let arrival = ledger.arrived(&server, 1, &Command { name: &long, ..name }, &long);
        assert_eq!(&*arrival.namespace, ANY_OTHER);
    }
    assert_eq!(ledger.kinds.len(), MOST_KINDS + 1);
}

#[test]
fn writes_keep_their_names_however_many_collections_there_are() {
    let mut ledger = Ledger::default();
    let server: Arc<str> = "a:1".into();
    for nth in 0..MOST_KINDS {
        ledger.arrived(&server, 1, &insert(None), &format!("shop.orders{nth}"));
    }
    let arrival = ledger.arrived(&server, 1, &insert(Some(1)), "shop.orders");
    assert_eq!((&*arrival.command, &*arrival.namespace), ("insert", "shop.orders"));
    assert!(ledger.arrived(&server, 1, &insert(Some(1)), "shop.orders").is_retry);
    assert_eq!(ledger.writes_of("insert", "shop.orders").len(), 1);
}

#[test]
fn a_write_that_changes_nothing_may_be_executed_again() {
    let mut ledger = Ledger::default();
    let nothing = Outcome { changed: Some(0), ..done() };
    send(&mut ledger, insert(Some(1)), Some(nothing));
    send(&mut ledger, insert(Some(1)), Some(nothing));
    assert!(!ledger.anything_applied_twice());
    assert_eq!(ledger.count("insert", "shop.orders").executions, 2);
}
