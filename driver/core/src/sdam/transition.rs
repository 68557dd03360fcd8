//! Transitions between topology descriptions, and their effects in order.

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

use super::{Server, Topology, TopologyEffect, draft::TopologyDraft, update};

/// Effects in addition to those derived from the descriptions.
#[derive(Default)]
pub(super) struct FollowUp {
    pub(super) ready: Option<ServerAddress>,
    pub(super) elected: Option<ServerAddress>,
    pub(super) clear: Option<ClearPool>,
    pub(super) cancel: Option<ServerAddress>,
    pub(super) check: Option<ServerAddress>,
}

/// Request to clear a pool, before its new generation is assigned.
pub(super) struct ClearPool {
    pub(super) address: ServerAddress,
    pub(super) service_id: Option<ObjectId>,
    pub(super) interrupt_in_use: bool,
}

impl Topology {
    /// Opens the topology with its seeds.
    pub(super) fn open(&mut self, now: Instant) -> Vec<TopologyEffect> {
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
            TopologyEffect::Emit(SdamEvent::TopologyOpening(TopologyOpeningEvent { topology_id })),
            self.topology_changed(&before, &seeded),
        ];
        effects.extend(self.add_servers(&before, &seeded));
        self.description = Arc::new(seeded);
        if self.is_monitored() {
            effects.push(TopologyEffect::Publish(Arc::clone(&self.description)));
        } else {
            effects.extend(self.open_load_balancer());
        }
        effects
    }

    fn open_load_balancer(&mut self) -> Vec<TopologyEffect> {
        let before = Arc::clone(&self.description);
        self.description = Arc::new(update::load_balanced(&before));
        let mut effects = self.servers_changed(&before, &self.description);
        effects.extend(self.servers.keys().cloned().map(TopologyEffect::ReadyPool));
        effects.push(TopologyEffect::Publish(Arc::clone(&self.description)));
        effects.push(self.topology_changed(&before, &self.description));
        effects
    }

    /// Makes a draft the current description.
    pub(super) fn adopt(
        &mut self,
        draft: TopologyDraft,
        follow_up: FollowUp,
    ) -> Vec<TopologyEffect> {
        let (next, recheck) = draft.finish();
        let before = std::mem::replace(&mut self.description, Arc::new(next));
        let after = Arc::clone(&self.description);

        let mut effects = self.servers_changed(&before, &after);
        effects.extend(self.add_servers(&before, &after));
        effects.extend(follow_up.ready.map(TopologyEffect::ReadyPool));
        effects.push(TopologyEffect::Publish(Arc::clone(&after)));
        effects.extend(follow_up.elected.map(TopologyEffect::Preconnect));
        effects.extend(follow_up.clear.and_then(|clear| self.clear(clear)));
        effects.extend(self.remove_servers(&before, &after));
        if !before.is_equivalent_to(&after) {
            effects.push(self.topology_changed(&before, &after));
        }
        effects.extend(follow_up.cancel.map(TopologyEffect::CancelCheck));
        effects.extend(follow_up.check.into_iter().chain(recheck).map(TopologyEffect::CheckNow));
        effects
    }

    /// Closes every server, then the topology.
    pub(super) fn close(&mut self) -> Vec<TopologyEffect> {
        self.closed = true;
        let before = std::mem::take(&mut self.description);
        let after = Arc::clone(&self.description);
        let mut effects = vec![TopologyEffect::Publish(Arc::clone(&after))];
        effects.extend(self.remove_servers(&before, &after));
        effects.push(self.topology_changed(&before, &after));
        let topology_id = self.settings.topology_id;
        effects.push(TopologyEffect::Emit(SdamEvent::TopologyClosed(TopologyClosedEvent {
            topology_id,
        })));
        effects
    }

    /// Increments the generation of a pool, if its server is still part of the topology.
    pub(super) fn clear(&mut self, clear: ClearPool) -> Option<TopologyEffect> {
        let ClearPool { address, service_id, interrupt_in_use } = clear;
        let generation = self.servers.get_mut(&address)?.generations.advance(service_id);
        Some(TopologyEffect::ClearPool { address, service_id, interrupt_in_use, generation })
    }

    fn servers_changed(
        &self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<TopologyEffect> {
        after
            .servers
            .values()
            .filter_map(|server| Some((before.servers.get(&server.address)?, server)))
            .filter(|(before, after)| !before.is_equivalent_to(after))
            .map(|(before, after)| self.server_changed(before, after))
            .collect()
    }

    fn server_changed(
        &self,
        before: &ServerDescription,
        after: &ServerDescription,
    ) -> TopologyEffect {
        TopologyEffect::Emit(SdamEvent::ServerDescriptionChanged(Box::new(
            ServerDescriptionChangedEvent {
                address: after.address.clone(),
                topology_id: self.settings.topology_id,
                previous_description: before.clone(),
                new_description: after.clone(),
            },
        )))
    }

    fn topology_changed(
        &self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> TopologyEffect {
        let event = TopologyDescriptionChangedEvent {
            topology_id: self.settings.topology_id,
            previous_description: before.clone(),
            new_description: after.clone(),
        };
        TopologyEffect::Emit(SdamEvent::TopologyDescriptionChanged(Box::new(event)))
    }

    fn add_servers(
        &mut self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<TopologyEffect> {
        let topology_id = self.settings.topology_id;
        let mut effects = Vec::new();
        for address in missing_from(before, after) {
            self.servers.insert(address.clone(), Server::default());
            let event = ServerOpeningEvent { address: address.clone(), topology_id };
            effects.push(TopologyEffect::Emit(SdamEvent::ServerOpening(event)));
            effects.push(TopologyEffect::AddServer(address));
        }
        effects
    }

    fn remove_servers(
        &mut self,
        before: &TopologyDescription,
        after: &TopologyDescription,
    ) -> Vec<TopologyEffect> {
        let topology_id = self.settings.topology_id;
        let mut effects = Vec::new();
        for address in missing_from(after, before) {
            self.servers.remove(&address);
            let event = ServerClosedEvent { address: address.clone(), topology_id };
            effects.push(TopologyEffect::Emit(SdamEvent::ServerClosed(event)));
            effects.push(TopologyEffect::RemoveServer(address));
        }
        effects
    }
}

/// Returns the servers of `these` that are missing from `those`.
fn missing_from(those: &TopologyDescription, these: &TopologyDescription) -> Vec<ServerAddress> {
    these.servers.keys().filter(|address| !those.servers.contains_key(*address)).cloned().collect()
}
