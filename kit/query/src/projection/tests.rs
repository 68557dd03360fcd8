//! Projected documents.

use bson::{DateTime, Document, Timestamp, doc};

use super::Projection;
use crate::{Environment, Filter};

fn environment() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1)
}

fn apply(projection: Document, filter: Document, document: &Document) -> Document {
    let env = environment();
    let filter = Filter::parse(&filter, &env).unwrap();
    Projection::parse(&projection, &env).unwrap().apply(document, &filter, &env).unwrap()
}

#[test]
fn projection_keeps_document_order() {
    let document = doc! { "_id": 1, "a": 2, "b": { "c": 3, "d": { "e": 4, "f": 5 } }, "g": 6 };
    for (projection, expected) in [
        (doc! {}, document.clone()),
        (doc! { "g": 1, "a": true }, doc! { "_id": 1, "a": 2, "g": 6 }),
        (doc! { "a": 1, "_id": 0 }, doc! { "a": 2 }),
        (doc! { "_id": 1 }, doc! { "_id": 1 }),
        (doc! { "b": 0, "_id": 0 }, doc! { "a": 2, "g": 6 }),
        (doc! { "b": 0, "_id": 1 }, doc! { "_id": 1, "a": 2, "g": 6 }),
        (doc! { "b.d.e": 1 }, doc! { "_id": 1, "b": { "d": { "e": 4 } } }),
        (
            doc! { "b": { "d": { "e": 1 }, "c": 1 } },
            doc! { "_id": 1, "b": { "c": 3, "d": { "e": 4 } } },
        ),
        (
            doc! { "a": 0, "g": 0, "b.d": { "f": 0 } },
            doc! { "_id": 1, "b": { "c": 3, "d": { "e": 4 } } },
        ),
        (doc! { "a.x": 1 }, doc! { "_id": 1 }),
        (doc! { "a.x": 0, "b": 0 }, doc! { "_id": 1, "a": 2, "g": 6 }),
    ] {
        assert_eq!(apply(projection.clone(), doc! {}, &document), expected, "{projection}");
    }
}

#[test]
fn projection_applies_to_array_elements() {
    let document = doc! { "_id": 1, "a": [{ "b": 1, "c": 2 }, 5, [{ "b": 3 }]], "n": [1, 2, 3, 4] };
    for (projection, expected) in [
        (doc! { "a.b": 1 }, doc! { "_id": 1, "a": [{ "b": 1 }, [{ "b": 3 }]] }),
        (doc! { "a.b": 0, "n": 0 }, doc! { "_id": 1, "a": [{ "c": 2 }, 5, [{}]] }),
        (doc! { "a.0": 1 }, doc! { "_id": 1, "a": [{}, [{}]] }),
        (doc! { "n": { "$slice": 2 }, "a": 0 }, doc! { "_id": 1, "n": [1, 2] }),
        (doc! { "n": { "$slice": -3 }, "_id": 1 }, doc! { "_id": 1, "n": [2, 3, 4] }),
        (doc! { "n": { "$slice": [-3, 2] }, "a": 0 }, doc! { "_id": 1, "n": [2, 3] }),
        (doc! { "n": { "$slice": [1, 9] }, "_id": 1 }, doc! { "_id": 1, "n": [2, 3, 4] }),
        (doc! { "n": { "$elemMatch": { "$gt": 2 } } }, doc! { "_id": 1, "n": [3] }),
        (doc! { "n": { "$elemMatch": { "$gt": 9 } } }, doc! { "_id": 1 }),
        (
            doc! { "n": { "$elemMatch": { "$gt": 2 } }, "a": 1, "_id": 0 },
            doc! { "a": [{ "b": 1, "c": 2 }, 5, [{ "b": 3 }]], "n": [3] },
        ),
    ] {
        assert_eq!(apply(projection.clone(), doc! {}, &document), expected, "{projection}");
    }
    let all_but = apply(doc! { "a": { "$slice": 1 } }, doc! {}, &document);
    assert_eq!(all_but, doc! { "_id": 1, "a": [{ "b": 1, "c": 2 }], "n": [1, 2, 3, 4] });
}

#[test]
fn positional_projection_returns_the_matched_element() {
    let document = doc! { "_id": 1, "a": [{ "b": 1 }, { "b": 2 }], "n": [7, 8] };
    let a = apply(doc! { "a.$": 1 }, doc! { "a.b": 2 }, &document);
    assert_eq!(a, doc! { "_id": 1, "a": [{ "b": 2 }] });
    // The position applies to any array.
    let n = apply(doc! { "n.$": 1, "_id": 0 }, doc! { "a.b": 2 }, &document);
    assert_eq!(n, doc! { "n": [8] });

    let env = environment();
    let projection = Projection::parse(&doc! { "a.$": 1 }, &env).unwrap();
    let filter = Filter::parse(&doc! { "_id": 1 }, &env).unwrap();
    let fault = projection.apply(&document, &filter, &env).unwrap_err();
    assert_eq!(fault.code.number, 51246);
}

#[test]
fn invalid_projections_fail_with_server_codes() {
    for (projection, code) in [
        (doc! { "a": 1, "b": 0 }, 31254),
        (doc! { "a": 0, "b": 1 }, 31253),
        (doc! { "a": 1, "a.b": 1 }, 31249),
        (doc! { "a.b": 1, "a": 1 }, 31250),
        (doc! { "a": {} }, 51270),
        (doc! { "a": 0, "b": "$c" }, 31310),
        (doc! { "a": 0, "b": { "$add": ["$c", 1] } }, 31252),
        (doc! { "a.b": { "$elemMatch": { "c": 1 } } }, 31275),
        (doc! { "a": { "$elemMatch": 5 } }, 31274),
        (doc! { "a.$": 0 }, 31395),
        (doc! { "a.$": 1, "b.$": 1 }, 31276),
        (doc! { "a.$.b": 1 }, 31394),
        (doc! { "a.$": 1, "b": { "$elemMatch": { "c": 1 } } }, 31255),
        (doc! { "a.$": "x" }, 31308),
        (doc! { "a.$": { "b": 1 } }, 31271),
        (doc! { "$a": 1 }, 16410),
        (doc! { "": 1 }, 40352),
        (doc! { "a": { "$meta": "textScore" } }, 40218),
    ] {
        let fault = Projection::parse(&projection, &environment()).unwrap_err();
        assert_eq!(fault.code.number, code, "{projection}: {fault}");
    }
}
