//! Transactions: isolation and conflicts.

use steadfast_query::Code;

use super::*;
use crate::{call::TransactionArguments, oplog::TransactionId, transaction::InTransaction};

fn arguments(number: i64, starts: bool) -> TransactionArguments {
    TransactionArguments { number, multi_document: true, starts }
}

impl TestState {
    fn begin(&mut self, session: &SessionId, number: i64) -> Result<(), Fault> {
        self.state.enter_transaction(0, session, arguments(number, true), None, self.now)
    }

    /// Inserts a document in a session's transaction.
    fn insert_within(&mut self, session: &SessionId, id: i32) -> Result<(), Fault> {
        let member = self.state.member_mut(0);
        let mut transaction = member.take_transaction(session).unwrap();
        let mut changes = InTransaction { transaction: &mut transaction, member };
        let made = changes
            .reserve(&namespace(), &[&id.into()])
            .and_then(|()| changes.apply_change(insertion(id), None));
        member.put_transaction(session, transaction);
        made
    }

    fn commit(&mut self, session: &SessionId, number: i64) -> Result<OpTime, Fault> {
        let at = self.state.commit_transaction(0, session, number, self.now);
        self.state.replicate(self.now);
        at
    }
}

#[test]
fn transaction_changes_become_visible_together() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.begin(&one, 1).unwrap();
    lab.insert_within(&one, 1).unwrap();
    lab.insert_within(&one, 2).unwrap();
    assert_eq!(lab.ids(0), [0; 0]);
    let at = lab.commit(&one, 1).unwrap();
    for index in 0..3 {
        assert_eq!(lab.ids(index), [1, 2]);
    }
    assert_eq!(lab.commit(&one, 1).unwrap(), at, "a commit that is repeated is the same");
    assert_eq!(lab.state.executions()[0].count, 1);
}

#[test]
fn document_of_open_transaction_is_reserved() {
    let mut lab = TestState::new(3);
    let (one, two) = (session(1), session(2));
    lab.begin(&one, 1).unwrap();
    lab.begin(&two, 1).unwrap();
    lab.insert_within(&one, 1).unwrap();
    assert_eq!(lab.insert_within(&two, 1).unwrap_err().code, Code::WRITE_CONFLICT);
    assert_eq!(lab.insert(0, 1).unwrap_err().code, Code::WRITE_CONFLICT);
    lab.insert(0, 2).unwrap();
    lab.state.abort_transaction(0, &one, 1).unwrap();
    lab.insert(0, 1).unwrap();
}

#[test]
fn transaction_conflicts_with_later_change() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.begin(&one, 1).unwrap();
    lab.insert(0, 1).unwrap();
    assert_eq!(lab.insert_within(&one, 1).unwrap_err().code, Code::WRITE_CONFLICT);
}

#[test]
fn drop_conflicts_with_open_transaction() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.begin(&one, 1).unwrap();
    lab.insert_within(&one, 1).unwrap();
    let dropped = |lab: &mut TestState| {
        let mut direct = PrimaryWriter::new(&mut lab.state, 0, None, lab.now);
        direct.apply_change(Change::DropCollection { namespace: namespace() }, None)
    };
    assert_eq!(dropped(&mut lab).unwrap_err().code, Code::WRITE_CONFLICT);
    lab.commit(&one, 1).unwrap();
    dropped(&mut lab).unwrap();
}

#[test]
fn duplicate_key_taken_meanwhile_fails_commit() {
    let mut lab = TestState::new(3);
    let unique = Change::CreateIndex {
        namespace: namespace(),
        specification: doc! { "v": 2, "key": { "k": 1 }, "name": "k_1", "unique": true },
    };
    lab.state.append(0, vec![unique], None, lab.now).unwrap();
    let keyed = |id: i32| Change::Insert {
        namespace: namespace(),
        document: Arc::new(doc! { "_id": id, "k": 1 }),
    };
    let make_within = |lab: &mut TestState, session: &SessionId, id| {
        let member = lab.state.member_mut(0);
        let mut transaction = member.take_transaction(session).unwrap();
        let mut changes = InTransaction { transaction: &mut transaction, member };
        changes.reserve(&namespace(), &[&bson(id)]).unwrap();
        changes.apply_change(keyed(id), None).unwrap();
        member.put_transaction(session, transaction);
    };
    let make = |lab: &mut TestState, id| {
        PrimaryWriter::new(&mut lab.state, 0, None, lab.now).apply_change(keyed(id), None)
    };
    let (one, two) = (session(1), session(2));
    lab.begin(&one, 1).unwrap();
    make_within(&mut lab, &one, 1);
    let id = TransactionId { session: one.clone(), number: 1 };
    lab.state.prepare_transaction(0, &id, lab.now).unwrap();
    assert_eq!(make(&mut lab, 2).unwrap_err().code, Code::WRITE_CONFLICT, "it is prepared");
    lab.advance_time(Duration::from_secs(120));
    assert_eq!(lab.commit(&one, 1).unwrap_err().code.number, 267);
    assert_eq!(lab.state.abort_transaction(0, &one, 1).unwrap_err().code.number, 267);
    lab.state.abort_prepared(0, &id, lab.now).unwrap();

    lab.begin(&two, 1).unwrap();
    make_within(&mut lab, &two, 1);
    make(&mut lab, 2).unwrap();
    assert_eq!(lab.commit(&two, 1).unwrap_err().code, Code::WRITE_CONFLICT);
    assert_eq!(lab.commit(&two, 1).unwrap_err().code, Code::NO_SUCH_TRANSACTION);
    assert_eq!(lab.ids(0), [2]);
}

#[test]
fn txn_numbers_must_increase() {
    let mut lab = TestState::new(3);
    let one = session(1);
    let code = |result: Result<(), Fault>| result.map_or_else(|fault| fault.code.number, |()| 0);
    lab.begin(&one, 5).unwrap();
    assert_eq!(code(lab.begin(&one, 4)), 225);
    assert_eq!(code(lab.begin(&one, 5)), 117);
    assert_eq!(code(lab.state.begin_retryable_write(0, &one, 4)), 225);
    assert_eq!(code(lab.state.begin_retryable_write(0, &one, 5)), 217);
    assert_eq!(code(lab.state.begin_retryable_write(0, &one, 6)), 0);
    let go_on = |lab: &mut TestState, number| {
        let arguments = arguments(number, false);
        code(lab.state.enter_transaction(0, &session(1), arguments, None, lab.now))
    };
    assert_eq!(go_on(&mut lab, 5), 225);
    assert_eq!(go_on(&mut lab, 6), 251);
    assert_eq!(go_on(&mut lab, 7), 251);
    lab.begin(&one, 8).unwrap();
    lab.commit(&one, 8).unwrap();
    assert_eq!(go_on(&mut lab, 8), 256);
    assert_eq!(code(lab.state.abort_transaction(0, &one, 8)), 256);
}

#[test]
fn open_transaction_ends_with_primary_or_lifetime() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.begin(&one, 1).unwrap();
    lab.insert_within(&one, 1).unwrap();
    lab.advance_time(Duration::from_secs(60));
    assert_eq!(lab.commit(&one, 1).unwrap_err().code, Code::NO_SUCH_TRANSACTION);
    lab.insert(0, 1).unwrap();

    lab.begin(&one, 2).unwrap();
    lab.insert_within(&one, 2).unwrap();
    lab.state.elect(1, lab.now).unwrap();
    lab.state.elect(0, lab.now).unwrap();
    assert_eq!(lab.commit(&one, 2).unwrap_err().code, Code::NO_SUCH_TRANSACTION);
}

#[test]
fn committed_transaction_is_known_after_failover() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.begin(&one, 1).unwrap();
    lab.insert_within(&one, 1).unwrap();
    lab.commit(&one, 1).unwrap();
    lab.state.elect(1, lab.now).unwrap();
    lab.state.commit_transaction(1, &one, 1, lab.now).unwrap();
    assert_eq!(lab.ids(1), [1]);
    assert_eq!(lab.state.executions().len(), 1);
}

#[test]
fn idle_session_expires() {
    let mut lab = TestState::new(3);
    let one = session(1);
    lab.state.use_session(&one, lab.now);
    lab.insert_as(0, 1, Some((&one, 5))).unwrap();
    lab.advance_time(Duration::from_secs(29 * 60));
    lab.state.use_session(&one, lab.now);
    assert!(lab.state.active(0, &one).is_some());
    lab.state.end_session(&one);
    lab.advance_time(Duration::from_secs(60));
    lab.state.use_session(&one, lab.now);
    assert!(lab.state.active(0, &one).is_some(), "a session that ended keeps its record");
    lab.advance_time(Duration::from_secs(30 * 60 + 1));
    lab.state.use_session(&one, lab.now);
    assert_eq!(lab.state.active(0, &one), None);
}
