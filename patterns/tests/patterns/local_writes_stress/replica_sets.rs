//! Two datacenters, each a replica set of real servers.

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    options::WriteConcern,
};
use testbed::{Options, ReplicaSet};

use super::{documents::all_documents, fault_injector::Datacenters, recorded_writes::StoredCopies};

const MEMBERS: usize = 3;

pub(crate) struct ReplicaSetDatacenters {
    alfa: ReplicaSet,
    bravo: ReplicaSet,
}

impl ReplicaSetDatacenters {
    pub(crate) fn start() -> Self {
        std::thread::scope(|scope| {
            let [alfa, bravo] =
                [(); 2].map(|()| scope.spawn(|| ReplicaSet::start(MEMBERS, Options::new())));
            let started = |set: std::thread::ScopedJoinHandle<'_, testbed::Result<ReplicaSet>>| {
                set.join().unwrap().unwrap()
            };
            Self { alfa: started(alfa), bravo: started(bravo) }
        })
    }

    pub(crate) fn set(&self, datacenter: &str) -> &ReplicaSet {
        if datacenter == "alfa" { &self.alfa } else { &self.bravo }
    }

    pub(crate) async fn messages(&self, datacenter: &str) -> Collection<Document> {
        let client = Client::with_uri_str(self.set(datacenter).uri()).await.unwrap();
        client.database("app").collection("messages")
    }

    /// Returns the documents of each set after all its members have replicated them, because readers select
    /// the nearest member.
    pub(crate) async fn stored_copies(&self) -> StoredCopies {
        let mut stored = StoredCopies::default();
        for datacenter in ["alfa", "bravo"] {
            let fence = self.messages(datacenter).await.client().database("app");
            let fence = fence.collection::<Document>("fence");
            let by_all = WriteConcern::nodes(u32::try_from(MEMBERS).unwrap());
            fence.insert_one(doc! {}).write_concern(by_all).await.unwrap();
            stored.add(datacenter, &all_documents(&self.messages(datacenter).await).await);
        }
        stored
    }

    /// Stops or resumes the application of oplog entries on all members.
    fn apply(&self, datacenter: &str, mode: &str) {
        let set = self.set(datacenter);
        for member in 0..MEMBERS {
            let point = doc! { "configureFailPoint": "rsSyncApplyStop", "mode": mode };
            // A killed member does not reply.
            let _ = set.run_command(member, "admin", point);
        }
    }
}

impl Datacenters for ReplicaSetDatacenters {
    fn hold_acknowledgements(&self, datacenter: &str) {
        self.apply(datacenter, "alwaysOn");
    }

    fn release_acknowledgements(&self, datacenter: &str) {
        self.apply(datacenter, "off");
    }

    fn kill(&self, datacenter: &str) {
        let set = self.set(datacenter);
        (0..MEMBERS).for_each(|member| set.kill(member).unwrap());
    }

    fn restart(&self, datacenters: &[&str]) {
        std::thread::scope(|scope| {
            for datacenter in datacenters {
                let set = self.set(datacenter);
                for member in 0..MEMBERS {
                    scope.spawn(move || set.restart(member).unwrap());
                }
            }
        });
        for datacenter in datacenters {
            self.set(datacenter).wait_until_complete().unwrap();
        }
    }
}
