//! The same comparison on a real server.

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
    options::UpdateOptions,
};
use steadfast_patterns::idempotent::update::of_update_one;

use super::{bytes, generate, generate::Case};

/// Executes a statement. Returns `true` if the server accepted it.
async fn execute(collection: &Collection<Document>, case: &Case) -> bool {
    let Case { update, filter, array_filters, upsert, .. } = case;
    let mut statement = doc! { "q": filter, "u": update, "upsert": *upsert };
    if !array_filters.is_empty() {
        statement.insert("arrayFilters", array_filters.clone());
    }
    let command = doc! { "update": collection.name(), "updates": [statement] };
    let reply = collection.client().database("patterns").run_command(command).await;
    reply.is_ok_and(|reply| !reply.contains_key("writeErrors"))
}

#[tokio::test]
async fn idempotent_update_has_the_same_result_twice_on_a_real_server() {
    testbed::require!(testbed::shared::servers());
    const CASES: usize = 1500;
    let client = Client::with_uri_str(testbed::shared::uri().unwrap()).await.unwrap();
    let name = format!("idempotent_{}", ObjectId::new());
    let collection = client.database("patterns").collection::<Document>(&name);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let any = generate::cases().boxed();
    let of_elements = generate::cases_of_elements().boxed();
    let mut changing = 0;
    for number in 0..CASES {
        let cases = if number % 4 == 0 { &of_elements } else { &any };
        let case = cases.new_tree(&mut runner).unwrap().current();
        let options = UpdateOptions::builder()
            .array_filters((!case.array_filters.is_empty()).then(|| case.array_filters.clone()))
            .upsert(case.upsert)
            .build();
        let update = case.update.clone().into();
        if !of_update_one(&case.filter, &update, Some(&options)).is_idempotent() {
            continue;
        }
        collection.delete_many(doc! {}).await.unwrap();
        if let Some(document) = &case.document {
            collection.insert_one(document).await.unwrap();
        }
        if !execute(&collection, &case).await {
            continue;
        }
        let once = collection.find_one(doc! {}).await.unwrap();
        changing += usize::from(bytes(&once) != bytes(&case.document));
        assert!(execute(&collection, &case).await, "the second is rejected: {case:#?}");
        let twice = collection.find_one(doc! {}).await.unwrap();
        assert!(bytes(&once) == bytes(&twice), "{case:#?}: once {once:?}, twice {twice:?}");
        assert!(collection.count_documents(doc! {}).await.unwrap() <= 1, "{case:#?}");
    }
    assert!(changing > CASES / 20, "{changing}");
}
