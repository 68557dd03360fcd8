//! Invalid generic arguments are rejected with the error codes of a server.

use bson::{Timestamp, doc};

use super::*;

fn code_of(arguments: Document) -> i32 {
    let mut body = doc! { "find": "c" };
    body.extend(arguments);
    Call::read("find", "t", body).map_or_else(|fault| fault.code.number, |_| 0)
}

fn lsid() -> Document {
    doc! { "id": bson::Uuid::from_bytes([7; 16]) }
}

#[test]
fn transaction_arguments_require_each_other() {
    assert_eq!(code_of(doc! { "lsid": lsid(), "txnNumber": 4_i64 }), 0);
    assert_eq!(code_of(doc! { "lsid": lsid(), "txnNumber": 4 }), 14);
    assert_eq!(code_of(doc! { "lsid": lsid(), "txnNumber": -4_i64 }), 72);
    assert_eq!(code_of(doc! { "txnNumber": 4_i64 }), 72);
    assert_eq!(code_of(doc! { "lsid": lsid(), "autocommit": false }), 72);
    let started = doc! { "lsid": lsid(), "txnNumber": 4_i64, "startTransaction": true };
    assert_eq!(code_of(started.clone()), 72);
    let mut multi_document = started;
    multi_document.insert("autocommit", false);
    assert_eq!(code_of(multi_document), 0);
    assert_eq!(code_of(doc! { "lsid": lsid(), "txnNumber": 4_i64, "autocommit": true }), 72);
    assert_eq!(code_of(doc! { "lsid": 1 }), 14);
    assert_eq!(code_of(doc! { "lsid": {} }), 40414);
    assert_eq!(code_of(doc! { "lsid": { "id": 1 } }), 14);
}

#[test]
fn invalid_read_concerns_are_rejected() {
    let concern = |concern: Document| code_of(doc! { "readConcern": concern });
    let some = Timestamp { time: 1, increment: 1 };
    assert_eq!(concern(doc! {}), 0);
    assert_eq!(concern(doc! { "level": "foo" }), 9);
    assert_eq!(concern(doc! { "level": 1 }), 14);
    assert_eq!(concern(doc! { "x": 1 }), 72);
    assert_eq!(concern(doc! { "level": "linearizable", "afterClusterTime": some }), 72);
    assert_eq!(concern(doc! { "atClusterTime": some }), 72);
    assert_eq!(concern(doc! { "level": "snapshot", "atClusterTime": some }), 0);
    assert_eq!(concern(doc! { "afterClusterTime": Timestamp { time: 0, increment: 0 } }), 72);
    assert_eq!(code_of(doc! { "readConcern": "local" }), 9);
}

#[test]
fn invalid_write_concerns_are_rejected() {
    let concern = |concern: Document| code_of(doc! { "writeConcern": concern });
    assert_eq!(concern(doc! { "w": 51 }), 9);
    assert_eq!(concern(doc! { "w": -1 }), 9);
    assert_eq!(concern(doc! { "w": true }), 9);
    assert_eq!(concern(doc! { "w": 2.5 }), 0);
    assert_eq!(concern(doc! { "j": "x" }), 14);
    assert_eq!(concern(doc! { "wtimeout": -1 }), 0);
    assert_eq!(concern(doc! { "x": 1 }), 40415);
    assert_eq!(code_of(doc! { "writeConcern": "x" }), 14);
}

#[test]
fn max_time_read_preference_and_api_version_are_validated() {
    assert_eq!(code_of(doc! { "maxTimeMS": "x" }), 2);
    assert_eq!(code_of(doc! { "maxTimeMS": -1 }), 2);
    assert_eq!(code_of(doc! { "maxTimeMS": 2_147_483_648_i64 }), 2);
    assert_eq!(code_of(doc! { "maxTimeMS": 0.5 }), 2);
    assert_eq!(code_of(doc! { "maxTimeMS": 5.0 }), 0);
    assert_eq!(code_of(doc! { "$readPreference": "x" }), 14);
    assert_eq!(code_of(doc! { "$readPreference": { "mode": "x" } }), 2);
    assert_eq!(code_of(doc! { "apiVersion": "2" }), 322);
    assert_eq!(code_of(doc! { "apiStrict": true }), 4_886_600);
    assert_eq!(code_of(doc! { "apiVersion": 1 }), 14);
    assert_eq!(code_of(doc! { "$clusterTime": 1 }), 10065);
    assert_eq!(code_of(doc! { "$clusterTime": {} }), 4);
}

#[test]
fn err_info_has_effective_write_concern() {
    let body = doc! { "writeConcern": { "w": 3, "wtimeout": 200 } };
    let call = Call::read("insert", "t", body).unwrap();
    assert_eq!(
        call.write_concern.to_document(),
        doc! { "w": 3, "wtimeout": 200, "provenance": "clientSupplied" }
    );
    let call = Call::read("insert", "t", doc! {}).unwrap();
    assert_eq!(
        call.write_concern.to_document(),
        doc! { "w": "majority", "wtimeout": 0, "provenance": "implicitDefault" }
    );
}
