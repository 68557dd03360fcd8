//! Pipelines, in tables. Expected documents and error codes are those of servers.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp, bson, doc};

use super::{Collections, Destination, Pipeline, WhenMatched, WhenNotMatched};
use crate::{Environment, Fault};

fn environment() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 5, increment: 1 }, 7)
}

struct Others;

impl Collections for Others {
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>> {
        assert_eq!(database, "db");
        if collection != "others" {
            return Vec::new();
        }
        let others = [
            doc! { "_id": 10, "k": 1, "next": 11 },
            doc! { "_id": 11, "k": [1, 2], "next": 12 },
            doc! { "_id": 12 },
            doc! { "_id": 13, "k": null },
        ];
        others.map(Arc::new).to_vec()
    }
}

fn documents() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "a": 1, "b": { "c": 1, "d": [{ "e": 1 }, { "e": 2 }, 5] }, "arr": [1, 2] },
        doc! { "_id": 2, "a": 2, "b": 5, "arr": [] },
        doc! { "_id": 3, "arr": null },
        doc! { "_id": 4, "a": 1, "arr": [{ "x": 1 }] },
    ]
}

fn stages(pipeline: Bson) -> Vec<Document> {
    let Bson::Array(stages) = pipeline else { panic!("not a pipeline: {pipeline}") };
    stages.into_iter().map(|it| it.as_document().expect("a stage").clone()).collect()
}

fn run(pipeline: Bson) -> Result<Vec<Document>, Fault> {
    let env = environment();
    let documents = documents().into_iter().map(Arc::new).collect();
    Pipeline::parse(&stages(pipeline), "db", &env)?.run(documents, &Others, &env)
}

fn gives(pipeline: Bson, expected: &[Document]) {
    let outcome = run(pipeline.clone()).unwrap_or_else(|fault| panic!("{pipeline}: {fault}"));
    assert_eq!(outcome, expected, "{pipeline}");
}

fn fails_with(table: Vec<(Bson, i32)>) {
    for (stage, code) in table {
        let outcome = run(bson!([stage.clone()])).map_err(|it| it.code.number);
        assert_eq!(outcome.err(), Some(code), "{stage}");
    }
}

#[test]
fn project_includes_excludes_and_computes() {
    let first = |project: Bson| run(bson!([{ "$project": project }, { "$limit": 1 }]));
    let table = vec![
        (bson!({ "a": 1 }), doc! { "_id": 1, "a": 1 }),
        (bson!({ "_id": 0, "b.d.e": true }), doc! { "b": { "d": [{ "e": 1 }, { "e": 2 }] } }),
        (bson!({ "b": 0, "arr": 0 }), doc! { "_id": 1, "a": 1 }),
        (bson!({ "_id": 0, "a": 1, "b": { "z": "$a" } }), doc! { "a": 1, "b": { "z": 1 } }),
        (
            bson!({ "b.d.z": "$a" }),
            doc! { "_id": 1, "b": { "d": [{ "z": 1 }, { "z": 1 }, { "z": 1 }] } },
        ),
        (bson!({ "a": 1, "_id": "$a" }), doc! { "a": 1, "_id": 1 }),
        (bson!({ "x": "$missing" }), doc! { "_id": 1 }),
    ];
    for (project, expected) in table {
        assert_eq!(first(project.clone()), Ok(vec![expected]), "{project}");
    }
    fails_with(vec![
        (bson!({ "$project": {} }), 51272),
        (bson!({ "$project": { "a": 1, "b": 0 } }), 31254),
        (bson!({ "$project": { "a": 0, "b": 1 } }), 31253),
        (bson!({ "$project": { "a": 0, "b": "$a" } }), 31310),
        (bson!({ "$project": { "a": 0, "b": { "$add": ["$a", 1] } } }), 31252),
        (bson!({ "$project": { "b": 1, "b.c": 1 } }), 31249),
        (bson!({ "$project": { "b.c": 1, "b": 1 } }), 31250),
        (bson!({ "$project": { "a": { "$foo": 1 } } }), 31325),
        (bson!({ "$project": { "a": {} } }), 51270),
        (bson!({ "$addFields": { "a": 1, "a.b": 1 } }), 40176),
        (bson!({ "$addFields": { "a": {} } }), 40180),
        (bson!({ "$unset": [] }), 31119),
    ]);
}

#[test]
fn add_fields_keeps_the_position_of_existing_fields() {
    gives(
        bson!([{ "$limit": 1 }, { "$set": { "b.c": 9, "new.x": "$a", "a": "$$REMOVE" } }, { "$unset": "b.d" }]),
        &[doc! { "_id": 1, "b": { "c": 9 }, "arr": [1, 2], "new": { "x": 1 } }],
    );
    gives(
        bson!([{ "$skip": 1 }, { "$limit": 1 }, { "$addFields": { "b.c": 5 } }]),
        &[doc! { "_id": 2, "a": 2, "b": { "c": 5 }, "arr": [] }],
    );
}

#[test]
fn group_and_bucket_accumulate() {
    gives(
        bson!([{ "$group": {
            "_id": "$a", "n": { "$sum": 1 }, "ids": { "$push": "$_id" }, "last": { "$last": "$arr" },
            "max": { "$max": "$_id" }, "set": { "$addToSet": "$missing" },
            "top": { "$topN": { "n": 1, "sortBy": { "_id": -1 }, "output": "$_id" } },
        } }, { "$sort": { "_id": 1 } }]),
        &[
            doc! { "_id": null, "n": 1, "ids": [3], "last": null, "max": 3, "set": [], "top": [3] },
            doc! { "_id": 1, "n": 2, "ids": [1, 4], "last": [{ "x": 1 }], "max": 4, "set": [], "top": [4] },
            doc! { "_id": 2, "n": 1, "ids": [2], "last": [], "max": 2, "set": [], "top": [2] },
        ],
    );
    gives(bson!([{ "$sortByCount": "$a" }, { "$limit": 1 }]), &[doc! { "_id": 1, "count": 2 }]);
    gives(
        bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [0, 2, 3], "default": "other" } }]),
        &[
            doc! { "_id": 0, "count": 2 },
            doc! { "_id": 2, "count": 1 },
            doc! { "_id": "other", "count": 1 },
        ],
    );
    gives(
        bson!([{ "$bucketAuto": { "groupBy": "$_id", "buckets": 3 } }]),
        &[
            doc! { "_id": { "min": 1, "max": 2 }, "count": 1 },
            doc! { "_id": { "min": 2, "max": 3 }, "count": 1 },
            doc! { "_id": { "min": 3, "max": 4 }, "count": 2 },
        ],
    );
    gives(bson!([{ "$match": { "_id": 77 } }, { "$count": "n" }]), &[]);
    fails_with(vec![
        (bson!({ "$group": { "n": { "$sum": 1 } } }), 15955),
        (bson!({ "$group": { "_id": null, "n": 1 } }), 40234),
        (bson!({ "$group": { "_id": null, "n": { "$foo": 1 } } }), 15952),
        (bson!({ "$group": { "_id": null, "n": { "$sum": [1, 2] } } }), 40237),
        (bson!({ "$bucket": { "groupBy": "$a", "boundaries": [2, 0] } }), 40194),
        (bson!({ "$bucketAuto": { "groupBy": "$a", "buckets": 0 } }), 40243),
        (bson!({ "$bucketAuto": { "groupBy": "$a", "buckets": 2, "granularity": "R5" } }), 238),
        (bson!({ "$count": "a.b" }), 40160),
    ]);
}

#[test]
fn unwind_reports_the_array_index() {
    let ids =
        |unwind: Bson| run(bson!([{ "$unwind": unwind }, { "$project": { "arr": 1, "i": 1 } }]));
    assert_eq!(
        ids(bson!({ "path": "$arr", "includeArrayIndex": "i" })),
        Ok(vec![
            doc! { "_id": 1, "arr": 1, "i": 0_i64 },
            doc! { "_id": 1, "arr": 2, "i": 1_i64 },
            doc! { "_id": 4, "arr": { "x": 1 }, "i": 0_i64 },
        ])
    );
    let kept = ids(bson!({ "path": "$arr", "preserveNullAndEmptyArrays": true })).expect("it runs");
    assert_eq!(kept[2..4], [doc! { "_id": 2 }, doc! { "_id": 3, "arr": null }]);
    fails_with(vec![
        (bson!({ "$unwind": "arr" }), 28818),
        (bson!({ "$unwind": {} }), 28812),
        (bson!({ "$unwind": { "path": "$arr", "includeArrayIndex": "$i" } }), 28822),
    ]);
}

#[test]
fn lookup_graph_lookup_and_union_with_join_collections() {
    let ids = |lookup: Bson| {
        let joined = run(bson!([{ "$lookup": lookup }])).expect("it runs");
        let ids = |it: &Document| {
            let found = it.get_array("r").expect("an array").iter();
            found
                .map(|it| it.as_document().and_then(|it| it.get_i32("_id").ok()).unwrap_or(0))
                .collect()
        };
        joined.iter().map(ids).collect::<Vec<Vec<i32>>>()
    };
    let equal = bson!({ "from": "others", "localField": "a", "foreignField": "k", "as": "r" });
    assert_eq!(ids(equal), [vec![10, 11], vec![11], vec![12, 13], vec![10, 11]]);
    let elements = bson!({ "from": "others", "localField": "arr", "foreignField": "k", "as": "r" });
    assert_eq!(ids(elements), [vec![10, 11], vec![12, 13], vec![12, 13], vec![]]);
    let correlated = bson!({
        "from": "others", "let": { "a": "$a" }, "as": "r",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$k", "$$a"] } } }],
    });
    assert_eq!(ids(correlated), [vec![10], vec![], vec![12], vec![10]]);
    let graph = run(bson!([{ "$limit": 1 }, { "$graphLookup": {
        "from": "others", "startWith": 10, "connectFromField": "next", "connectToField": "_id", "as": "g",
        "depthField": "d", "maxDepth": 1,
    } }, { "$project": { "g._id": 1, "g.d": 1 } }]));
    let reached = [doc! { "_id": 10, "d": 0_i64 }, doc! { "_id": 11, "d": 1_i64 }];
    assert_eq!(graph, Ok(vec![doc! { "_id": 1, "g": reached.to_vec() }]));
    let union = bson!({ "coll": "others", "pipeline": [{ "$limit": 1 }] });
    assert_eq!(run(bson!([{ "$unionWith": union }])).map(|it| it.len()), Ok(5));
    fails_with(vec![
        (bson!({ "$lookup": { "from": "others", "as": "r" } }), 9),
        (
            bson!({ "$lookup": { "from": "others", "pipeline": [{ "$out": "x" }], "as": "r" } }),
            51047,
        ),
        (bson!({ "$unionWith": { "coll": "others", "pipeline": [{ "$merge": "x" }] } }), 31441),
        (bson!({ "$graphLookup": { "from": "others" } }), 40105),
    ]);
}

#[test]
fn facets_read_the_same_documents() {
    gives(
        bson!([{ "$facet": { "n": [{ "$count": "n" }], "none": [{ "$match": { "a": 7 } }] } }]),
        &[doc! { "n": [{ "n": 4 }], "none": [] }],
    );
    fails_with(vec![
        (bson!({ "$facet": {} }), 40169),
        (bson!({ "$facet": { "a": [{ "$out": "x" }] } }), 40600),
        (bson!({ "$facet": { "a": [{ "$facet": { "b": [] } }] } }), 40600),
    ]);
}

#[test]
fn redact_removes_pruned_parts() {
    gives(
        bson!([{ "$limit": 1 }, { "$redact": {
            "$cond": [{ "$in": [{ "$ifNull": ["$e", 0] }, [0, 1]] }, "$$DESCEND", "$$PRUNE"],
        } }]),
        &[doc! { "_id": 1, "a": 1, "b": { "c": 1, "d": [{ "e": 1 }, 5] }, "arr": [1, 2] }],
    );
}

#[test]
fn limit_stops_earlier_stages() {
    // The second document would fail.
    gives(
        bson!([{ "$project": { "x": { "$divide": [1, { "$subtract": ["$a", 2] }] } } }, { "$limit": 1 }]),
        &[doc! { "_id": 1, "x": -1.0 }],
    );
    let skipped = run(bson!([{ "$sort": { "arr": 1, "b.d": 1 } }, { "$skip": 9 }]));
    assert_eq!(skipped.map_err(|it| it.code.number), Err(2), "an error is not skipped");
}

#[test]
fn invalid_stages_fail_with_server_codes() {
    fails_with(vec![
        (bson!({ "$foo": 1 }), 40324),
        (bson!({}), 40323),
        (bson!({ "$match": 1 }), 15959),
        (bson!({ "$limit": 0 }), 15958),
        (bson!({ "$limit": -1 }), 5_107_201),
        (bson!({ "$skip": -1 }), 5_107_200),
        (bson!({ "$sort": {} }), 15976),
        (bson!({ "$sort": { "a": 2 } }), 15975),
        (bson!({ "$sample": { "size": -1 } }), 28747),
        (bson!({ "$replaceRoot": {} }), 40414),
        (bson!({ "$replaceWith": "$a" }), 40228),
        (bson!({ "$merge": { "into": "m", "whenMatched": "foo" } }), 2),
        (bson!({ "$merge": { "into": "m", "whenMatched": [{ "$match": {} }] } }), 72),
        (
            bson!({ "$merge": { "into": "m", "whenMatched": "fail", "whenNotMatched": "discard" } }),
            51181,
        ),
        (bson!({ "$out": {} }), 16994),
    ]);
    let last = run(bson!([{ "$out": "x" }, { "$match": {} }])).map_err(|it| it.code.number);
    assert_eq!(last, Err(40601));
}

#[test]
fn destination_of_out_and_merge_is_parsed() {
    let env = environment();
    let parse = |it: Bson| Pipeline::parse(&stages(it), "db", &env).expect("a pipeline");
    let out = parse(bson!([{ "$out": { "db": "d", "coll": "c" } }])).destination();
    assert!(matches!(
        out,
        Destination::Out { database: Some(database), collection } if database == "d" && collection == "c"
    ));
    let merge = parse(bson!([{ "$merge": {
        "into": "c", "on": ["a", "b"], "let": { "extra": "$x" },
        "whenMatched": [{ "$set": { "sum": { "$add": ["$n", "$$new.n", "$$extra"] } } }],
        "whenNotMatched": "discard",
    } }]));
    let Destination::Merge(merge) = merge.destination() else { panic!("no $merge") };
    assert_eq!(merge.on.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(merge.when_not_matched, WhenNotMatched::Discard);
    assert!(matches!(merge.when_matched, WhenMatched::Pipeline(_)));
    let merged = merge.merged(&doc! { "_id": 1, "n": 1 }, &doc! { "n": 2, "x": 4 }, &env);
    assert_eq!(merged, Ok(Some(doc! { "_id": 1, "n": 1, "sum": 7 })));
}

#[test]
fn leading_match_and_documents_are_reported() {
    let env = environment();
    let parse = |it: Bson| Pipeline::parse(&stages(it), "db", &env).expect("a pipeline");
    assert!(parse(bson!([{ "$match": { "a": 1 } }])).leading_match().is_some());
    assert!(parse(bson!([{ "$limit": 1 }, { "$match": { "a": 1 } }])).leading_match().is_none());
    let given = parse(bson!([{ "$documents": [{ "x": 1 }] }]));
    assert!(!given.reads_collection());
    assert_eq!(given.run(Vec::new(), &Others, &env), Ok(vec![doc! { "x": 1 }]));
    assert_eq!(given.stage_names().collect::<Vec<_>>(), ["$documents"]);
}

#[test]
fn update_pipeline_permits_few_stages() {
    let mut env = environment();
    env.define(&doc! { "v": 5 }).expect("a variable");
    let update = stages(bson!([{ "$set": { "a": { "$add": ["$a", "$$v"] } } }, { "$unset": "b" }]));
    let update = Pipeline::parse_update(&update, &env).expect("an update");
    assert_eq!(
        update.apply_to(&doc! { "_id": 1, "a": 1, "b": 2 }, &env),
        Ok(doc! { "_id": 1, "a": 6 })
    );
    for stage in [bson!({ "$match": {} }), bson!({ "$limit": 1 }), bson!({ "$out": "x" })] {
        let fails = Pipeline::parse_update(&stages(bson!([stage])), &env);
        assert_eq!(fails.map_err(|it| it.code.number).err(), Some(72));
    }
}

#[test]
fn sample_returns_each_document_at_most_once() {
    let sampled =
        run(bson!([{ "$sample": { "size": 3 } }, { "$sort": { "_id": 1 } }])).expect("it runs");
    assert_eq!(sampled.len(), 3);
    let id = |it: &Document| it.get_i32("_id").unwrap_or(0);
    assert!(sampled.windows(2).all(|it| id(&it[0]) < id(&it[1])));
}

#[test]
fn pipeline_nesting_depth_is_limited() {
    let nest = bson!({ "$set": { "a.b.c": "$$ROOT" } });
    let replace = bson!({ "$replaceWith": { "a": { "b": "$$ROOT" } } });
    assert!(run(Bson::Array(vec![nest.clone(); 20])).is_ok());
    for stage in [nest, replace] {
        let fails = run(Bson::Array(vec![stage; 400]));
        assert_eq!(fails.map_err(|it| it.code.number).err(), Some(15));
    }
}
