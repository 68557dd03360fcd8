//! Prose tests of server selection.
//!
//! 1 requires two mongos and is in `mongos`.

use std::sync::Arc;

use steadfast::options::SelectionCriteria;

use super::*;

#[tokio::test]
async fn prose_2_a_custom_predicate_selects_the_member() {
    testbed::require!(V6_0);
    let highest = set().addresses().iter().map(std::net::SocketAddr::port).max().unwrap();
    let observed = ProseClient::new("selection, prose 2", |options| {
        options.selection_criteria = Some(SelectionCriteria::Predicate(Arc::new(move |server| {
            server.address().port() == Some(highest)
        })));
    })
    .await;
    for _ in 0..10 {
        bounded(observed.collection("selection_prose_2").find_one(doc! {})).await.unwrap();
    }
    let (chosen, failed) = observed.ends("find");
    assert_eq!((chosen.len(), failed.len()), (10, 0));
    assert!(chosen.iter().all(|server| server.port() == Some(highest)), "{chosen:?}");
}
