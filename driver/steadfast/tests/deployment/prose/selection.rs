//! The prose tests of server selection.
//!
//! 1 needs two mongos and is in `mongos`.

use std::sync::Arc;

use steadfast::options::SelectionCriteria;

use super::*;

#[tokio::test]
async fn prose_2_a_predicate_of_the_application_chooses_among_the_members() {
    testbed::require!(V6_0);
    let highest = set().addresses().iter().map(std::net::SocketAddr::port).max().unwrap();
    let watched = Watched::new("selection, prose 2", |options| {
        options.selection_criteria = Some(SelectionCriteria::Predicate(Arc::new(move |server| {
            server.address().port() == Some(highest)
        })));
    })
    .await;
    for _ in 0..10 {
        bounded(watched.collection("selection_prose_2").find_one(doc! {})).await.unwrap();
    }
    let (chosen, failed) = watched.ends("find");
    assert_eq!((chosen.len(), failed.len()), (10, 0));
    assert!(chosen.iter().all(|server| server.port() == Some(highest)), "{chosen:?}");
}
