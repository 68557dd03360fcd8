//! Comparison of keys with the sort order of a real server, for values of all types.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use steadfast::{
    Client, Collection,
    bson::{
        Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp,
        doc, oid::ObjectId, spec::BinarySubtype,
    },
    options::ReadPreference,
};
use steadfast_patterns::duplicates::{Duplicates, Keep};
use steadfast_value::{BinaryOrder, compare};

async fn collection(name: &str) -> Collection<Document> {
    let uri = testbed::shared::uri().expect("a deployment");
    let client = Client::with_uri_str(uri).await.unwrap();
    let collection = client.database("distinct_reads").collection(name);
    collection.drop().await.unwrap();
    collection
}

fn numbers() -> impl Strategy<Value = Bson> {
    let decimal = |text: String| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    let near = prop_oneof![
        Just(0_i64),
        Just(1 << 53),
        Just(i64::MAX - 2),
        Just(i64::MIN + 2),
        any::<i64>().prop_map(|it| it / 4),
    ];
    prop_oneof![
        (near, -2_i64..=2, 0..5).prop_map(move |(base, step, kind)| {
            let number = base + step;
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            match kind {
                0 => Bson::Int64(number),
                1 => Bson::Int32(number as i32),
                2 => Bson::Double(number as f64),
                3 => decimal(format!("{number}.5")),
                _ => decimal(format!("{number}")),
            }
        }),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            0.1,
            1.5,
            f64::MIN_POSITIVE,
        ])
        .prop_map(Bson::Double),
        prop::sample::select(vec![
            "NaN",
            "Infinity",
            "-Infinity",
            "0.1",
            "-0",
            "1E+6000",
            "1E-6000"
        ])
        .prop_map(move |it| decimal(it.to_owned())),
    ]
}

fn scalars() -> impl Strategy<Value = Bson> {
    let bytes = prop::collection::vec(any::<u8>(), 0..3);
    let subtypes = vec![
        BinarySubtype::Generic,
        BinarySubtype::Function,
        BinarySubtype::Md5,
        BinarySubtype::UserDefined(0x80),
    ];
    prop_oneof![
        6 => numbers(),
        3 => "[aAzé€ ]{0,3}".prop_map(Bson::String),
        1 => "[ab]{0,1}".prop_map(Bson::Symbol),
        1 => any::<bool>().prop_map(Bson::Boolean),
        1 => (-3_i64..3).prop_map(|it| Bson::DateTime(DateTime::from_millis(it))),
        1 => (0_u32..3, 0_u32..3)
            .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        1 => any::<[u8; 12]>().prop_map(|it| Bson::ObjectId(ObjectId::from_bytes(it))),
        1 => (bytes, prop::sample::select(subtypes))
            .prop_map(|(bytes, subtype)| Bson::Binary(Binary { subtype, bytes })),
        1 => ("[ab]{1,2}", "[im]{0,1}").prop_map(|(pattern, options)| {
            let pattern = pattern.try_into().unwrap();
            let options = options.try_into().unwrap();
            Bson::RegularExpression(Regex { pattern, options })
        }),
        1 => "[ab]{0,2}".prop_map(Bson::JavaScriptCode),
        1 => ("[ab]{0,1}", 0..2).prop_map(|(code, n)| {
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope: doc! { "n": n } })
        }),
        1 => prop::sample::select(vec![Bson::MinKey, Bson::MaxKey, Bson::Null, Bson::Undefined]),
    ]
}

fn values() -> impl Strategy<Value = Bson> {
    scalars().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(("[ab]", inner.clone()), 0..3)
                .prop_map(|it| Bson::Document(it.into_iter().collect())),
            prop::collection::vec(inner, 0..3).prop_map(Bson::Array),
        ]
    })
}

/// Returns `count` values, the same in every run.
fn sample(count: usize) -> Vec<Bson> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let strategy = values();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Returns an ObjectId whose order differs from that of insertion.
fn scattered(n: usize) -> ObjectId {
    let n = u32::try_from(n).unwrap();
    let mut bytes = [0; 12];
    // The first bytes are the seconds of an old time.
    bytes[..4].copy_from_slice(&(n.wrapping_mul(2_654_435_761) >> 3).to_be_bytes());
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

#[tokio::test]
async fn server_sorts_values_of_all_types_as_keys_compare() {
    testbed::require!(testbed::shared::servers());
    let collection = collection("values").await;
    let values = sample(3_000);
    let documents =
        values.iter().enumerate().map(|(n, value)| doc! { "_id": scattered(n), "k": value });
    collection.insert_many(documents).await.unwrap();
    let mut found = collection
        .find(doc! {})
        .sort(doc! { "k": 1, "_id": 1 })
        .allow_disk_use(true)
        .await
        .unwrap();
    let mut before: Option<(Bson, ObjectId)> = None;
    let mut compared = 0;
    while found.advance().await.unwrap() {
        let document: Document = found.deserialize_current().unwrap();
        let (key, id) = (document["k"].clone(), document.get_object_id("_id").unwrap());
        // A server sorts an array by one of its elements.
        if matches!(key, Bson::Array(_)) {
            continue;
        }
        if let Some((other, other_id)) = before {
            let order = compare(&other, &key, &BinaryOrder).then_with(|| other_id.cmp(&id));
            assert!(order.is_lt(), "{other:?} comes before {key:?}");
            compared += 1;
        }
        before = Some((key, id));
    }
    assert!(compared > 1_500, "{compared}");
}

#[tokio::test]
async fn merged_deployments_have_the_sort_order_of_one_server() {
    testbed::require!(testbed::shared::servers());
    let parts =
        [collection("part_0").await, collection("part_1").await, collection("part_2").await];
    let whole = collection("whole").await;
    // Few keys, so that most events have several copies.
    let documents: Vec<_> = sample(60)
        .into_iter()
        .cycle()
        .take(600)
        .enumerate()
        .map(|(n, value)| doc! { "_id": scattered(n), "k": { "of": value }, "n": 1 })
        .collect();
    whole.insert_many(&documents).await.unwrap();
    for (n, part) in parts.iter().enumerate() {
        part.insert_many(documents.iter().skip(n).step_by(3)).await.unwrap();
    }
    for keep in [Keep::First, Keep::Last] {
        let of_whole = read(&by_key(Duplicates::of(&whole)).keep(keep)).await;
        let of_parts = read(&by_key(Duplicates::over(&parts)).keep(keep)).await;
        assert!(of_whole.0.len() < 60 && of_whole.1.len() < 600, "{of_whole:?}");
        assert_eq!(of_parts, of_whole);
    }

    let duplicates = by_key(Duplicates::over(&parts));
    let (named, apart) = read(&duplicates).await;
    let report = duplicates.trim(doc! {}).dry_run(false).await.unwrap();
    assert_eq!(report.surplus, report.deleted);
    let mut left = 0;
    for part in &parts {
        left += part.count_documents(doc! {}).await.unwrap();
    }
    let kept = u64::try_from(named.len() + apart.len()).unwrap();
    assert_eq!(left, kept + report.differing, "{report:?}");
    assert_eq!(read(&duplicates).await, (named, apart));
}

/// Reads from primaries, because secondaries may lag.
fn by_key(duplicates: Duplicates<Document>) -> Duplicates<Document> {
    duplicates.key(["k.of"]).selection_criteria(ReadPreference::Primary)
}

/// Returns the `_id`s of documents with a key, in order, and of those without.
async fn read(duplicates: &Duplicates<Document>) -> (Vec<ObjectId>, Vec<ObjectId>) {
    let (mut named, mut apart) = (Vec::new(), Vec::new());
    let mut found = duplicates.read(doc! {}).await.unwrap();
    while found.advance().await.unwrap() {
        let document = found.deserialize_current().unwrap();
        let id = document.get_object_id("_id").unwrap();
        match document.get_document("k").unwrap().get("of") {
            None | Some(Bson::Null | Bson::Undefined | Bson::Array(_)) => apart.push(id),
            Some(_) => named.push(id),
        }
    }
    apart.sort();
    (named, apart)
}
