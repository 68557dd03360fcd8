//! Replica set of three `mongod` processes. The blocking calls of `testbed` run in `spawn_blocking`.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use steadfast::bson::doc;
use testbed::{Options, ReplicaSet, Version};
use tokio::task::spawn_blocking;

use super::{
    Result,
    set::{MEMBERS, Member, Role, meant},
};
use crate::{observer::Observer, schedule::FaultTarget};

/// A replica set that is stopped when this value is dropped.
pub(super) struct Mongods {
    set: Arc<ReplicaSet>,
    /// Members that are killed or frozen.
    down: Arc<Mutex<BTreeSet<usize>>>,
}

impl Mongods {
    pub(super) async fn start(observer: &dyn Observer) -> Result<Self> {
        let version = Version::default();
        if !testbed::is_available(version) {
            observer.step("downloading mongod once (about 60 MB) …");
            spawn_blocking(move || testbed::mongod_path(version)).await??;
        }
        observer.step("starting a replica set of three mongod …");
        let set =
            spawn_blocking(move || ReplicaSet::start(MEMBERS, Options::new().version(version)))
                .await??;
        Ok(Self { set: Arc::new(set), down: Arc::default() })
    }

    pub(super) async fn server(&self) -> Result<String> {
        let info = self.on(|set| set.run_command(0, "admin", doc! { "buildInfo": 1 })).await?;
        Ok(format!("mongod {}", info.get_str("version")?))
    }

    pub(super) fn uri(&self) -> String {
        self.set.uri()
    }

    pub(super) async fn find(&self, who: FaultTarget) -> Result<Member> {
        let primary = self.on(ReplicaSet::wait_for_primary).await?;
        Ok(self.member(meant(who, primary, MEMBERS), primary))
    }

    pub(super) async fn step_down(&self) -> Result<Member> {
        let primary = self.on(ReplicaSet::step_down).await?;
        Ok(self.member(primary, primary))
    }

    pub(super) async fn kill(&self, member: usize) -> Result<()> {
        self.goes_down(member);
        self.on(move |set| set.kill(member)).await
    }

    pub(super) async fn restart(&self, member: usize) -> Result<()> {
        self.on(move |set| set.restart(member)).await?;
        self.comes_back(member);
        Ok(())
    }

    pub(super) async fn freeze(&self, member: usize) -> Result<()> {
        self.goes_down(member);
        self.on(move |set| set.freeze(member)).await
    }

    pub(super) async fn thaw(&self, member: usize) -> Result<()> {
        self.on(move |set| set.thaw(member)).await?;
        self.comes_back(member);
        Ok(())
    }

    /// Waits until all members run and have replicated all writes.
    pub(super) async fn recover(&self) -> Result<()> {
        self.on(ReplicaSet::wait_until_complete).await
    }

    /// Restarts all members that are killed or frozen.
    pub(super) async fn heal(&self) -> Result<()> {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for member in down {
            self.restart(member).await?;
        }
        Ok(())
    }

    pub(super) async fn close(self) -> Result<()> {
        spawn_blocking(move || drop(self.set)).await?;
        Ok(())
    }

    async fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReplicaSet) -> testbed::Result<T> + Send + 'static,
    ) -> Result<T> {
        let set = Arc::clone(&self.set);
        Ok(spawn_blocking(move || work(&set)).await??)
    }

    fn member(&self, number: usize, primary: usize) -> Member {
        let address = self.set.members()[number].address().to_string();
        Member { number, address, role: Role::of(number == primary), shard: None }
    }

    fn goes_down(&self, member: usize) {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).insert(member);
    }

    fn comes_back(&self, member: usize) {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).remove(&member);
    }
}
