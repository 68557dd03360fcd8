//! From one description of the deployment to the next: the effects, in their order.

use std::{sync::Arc, time::Instant};

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
    event::sdam::{
        SdamEvent, ServerClosedEvent, ServerDescriptionChangedEvent, ServerOpeningEvent,
        TopologyClosedEvent, TopologyDescriptionChangedEvent, TopologyOpeningEvent,
    },
};

use super::{Effect, Server, Topology, draft::Draft, update};

/// What is to be done beside what follows from the descriptions.
#[derive(Default)]
pub(super) struct FollowUp {
    pub(super) ready: Option<ServerAddress>,
    pub(super) elected: Option<ServerAddress>,
    pub(super) clear: Option<ClearPool>,
    pub(super) cancel: Option<ServerAddress>,
    pub(super) check: Option<ServerAddress>,
}

/// A pool to be cleared, before its new generation is known.
pub(super) struct ClearPool {
    pub(super) address: ServerAddress,
    pub(super) service_id: Option<ObjectId>,
    pub(super) interrupt_in_use: bool,
}

impl Topology {
    /// Opens the topology with its seeds.
    pub(super) fn open(&mut self, now: Instant) -> Vec<Effect> {
        let topology_id = self.settings.topology_id;
        let before = Arc::clone(&self.description);
        let mut draft = self.draft(now);
        draft.topology.topology_type = self.settings.initial_type();
        draft.topology.set_name = self.settings.initial_set_name();
        for seed in &self.settings.seeds {
            draft.add(seed);
        }
        let (seeded, _) = draft.finish();
        let mut effects = vec![
            Effect::Emit(SdamEvent::TopologyOpening(TopologyOpeningEvent { topology_id })),
            self.topology_changed(&before, &seeded),
        ];
        effects.extend(self.add_servers(&before, &seeded));
        self.description = Arc::new(seeded);
        if self.is_monitored() {
            effects.push(Effect::Publish(Arc::clone(&self.description)));
        } else {
            effects.extend(self.open_load_balancer());
        }
        effects
    }

    fn open_load_balancer(&mut self) -> Vec<Effect> {
        let before = Arc::clone(&self.description);
        self.description = Arc::new(update::load_balanced(&before));
        let mut effects = self.servers_changed(&before, &self.description);
        effects.extend(self.servers.keys().cloned().map(Effect::ReadyPool));
        effects.push(Effect::Publish(Arc::clone(&self.description)));
        effects.push(self.topology_changed(&before, &self.description));
        effects
    }

    /// Makes the draft the truth.
    pub(super) fn adopt(&mut self, draft: Draft, follow_up: FollowUp) -> Vec<Effect> {
        let (next, recheck) = draft.finish();
        let before = std::mem::replace(&mut self.description, Arc::new(next));
        let after = Arc::clone(&self.description);

        let mut effects = self.servers_changed(&before, &after);
        effects.extend(self.add_servers(&before, &after));
        effects.extend(follow_up.ready.map(Effect::ReadyPool));
        effects.push(Effect::Publish(Arc::clone(&after)));
        effects.extend(follow_up.elected.map(Effect::ExpectOperations));
        effects.extend(follow_up.clear.and_then(|clear| self.clear(clear)));
        effects.extend(self.remove_servers(&before, &after));
        if !before.is_equivalent_to(&after) {
            effects.push(self.topology_changed(&before, &after));
        }
        effects.extend(follow_up.cancel.map(Effect::CancelCheck));
        effects.extend(follow_up.check.into_iter().chain(recheck).map(Effect::CheckNow));
        effects
    }

    /// Closes every server, and then the topology.
    pub(super) fn close(&mut self) -> Vec<Effect> {
        self.closed = true;
        let before = std::mem::take(&mut self.description);
        let after = Arc::clone(&self.description);
        let mut effects = vec![Effect::Publish(Arc::clone(&after))];
        effects.extend(self.remove_servers(&before, &after));
        effects.push(self.topology_changed(&before, &after));
        let topology_id = self.settings.topology_id;
        effects.push(Effect::Emit(SdamEvent::TopologyClosed(TopologyClosedEvent { topology_id })));
        effects
    }

    /// Begins a new generation of a pool's connections, if the server is still there.
    pub(super) fn clear(&mut self, clear: ClearPool) -> Option<Effect> {
        let ClearPool { address, service_id, interrupt_in_use } = clear;
        let generation = self.servers.get_mut(&address)?.generations.advance(service_id);
        Some(Effect::ClearPool { address, service_id, interrupt_in_use, generation })
    }

    fn servers_changed(
        &self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<Effect> {
        after
            .servers
            .values()
            .filter_map(|server| Some((before.servers.get(&server.address)?, server)))
            .filter(|(before, after)| !before.is_equivalent_to(after))
            .map(|(before, after)| self.server_changed(before, after))
            .collect()
    }

    fn server_changed(&self, before: &ServerDescription, after: &ServerDescription) -> Effect {
        Effect::Emit(SdamEvent::ServerDescriptionChanged(Box::new(ServerDescriptionChangedEvent {
            address: after.address.clone(),
            topology_id: self.settings.topology_id,
            previous_description: before.clone(),
            new_description: after.clone(),
        })))
    }

    fn topology_changed(
        &self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Effect {
        let event = TopologyDescriptionChangedEvent {
            topology_id: self.settings.topology_id,
            previous_description: before.clone(),
            new_description: after.clone(),
        };
        Effect::Emit(SdamEvent::TopologyDescriptionChanged(Box::new(event)))
    }

    fn add_servers(
        &mut self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<Effect> {
        let topology_id = self.settings.topology_id;
        let mut effects = Vec::new();
        for address in missing_from(before, after) {
            self.servers.insert(address.clone(), Server::default());
            let event = ServerOpeningEvent { address: address.clone(), topology_id };
            effects.push(Effect::Emit(SdamEvent::ServerOpening(event)));
            effects.push(Effect::AddServer(address));
        }
        effects
    }

    fn remove_servers(
        &mut self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<Effect> {
        let topology_id = self.settings.topology_id;
        let mut effects = Vec::new();
        for address in missing_from(after, before) {
            self.servers.remove(&address);
            let event = ServerClosedEvent { address: address.clone(), topology_id };
            effects.push(Effect::Emit(SdamEvent::ServerClosed(event)));
            effects.push(Effect::RemoveServer(address));
        }
        effects
    }
}

/// The servers of `these` that `those` does not have.
fn missing_from(those: &TopologyDescription, these: &TopologyDescription) -> Vec<ServerAddress> {
    these.servers.keys().filter(|address| !those.servers.contains_key(*address)).cloned().collect()
}
