//! Generations of the services behind a load balancer.

use std::collections::BTreeMap;

use bson::oid::ObjectId;

use super::Generation;

#[derive(Debug, Default)]
pub(super) struct ServiceGenerations(BTreeMap<ObjectId, Service>);

#[derive(Debug, Default)]
struct Service {
    generation: Generation,
    connections: usize,
}

impl ServiceGenerations {
    pub(super) fn generation(&self, service: ObjectId) -> Generation {
        self.0.get(&service).map_or(0, |service| service.generation)
    }

    /// Adds a connection to a service and returns the service's generation.
    pub(super) fn join(&mut self, service: ObjectId) -> Generation {
        let service = self.0.entry(service).or_default();
        service.connections += 1;
        service.generation
    }

    /// Removes a connection from a service. The record of a service without connections is removed,
    /// unless it was ever cleared: the topology continues its count, and a new connection of
    /// generation zero would always look stale.
    pub(super) fn leave(&mut self, service: ObjectId) {
        if let Some(record) = self.0.get_mut(&service) {
            record.connections = record.connections.saturating_sub(1);
            if record.connections == 0 && record.generation == 0 {
                self.0.remove(&service);
            }
        }
    }

    /// Advances a service to this generation, or to the next. Returns `false` if it is there
    /// already.
    pub(super) fn advance(&mut self, service: ObjectId, to: Option<Generation>) -> bool {
        let service = self.0.entry(service).or_default();
        let to = to.unwrap_or(service.generation + 1);
        let ahead = to > service.generation;
        service.generation = service.generation.max(to);
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_without_connections_is_removed_unless_cleared() {
        let (quiet, cleared) = (ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12]));
        let mut services = ServiceGenerations::default();
        for service in [quiet, quiet, cleared] {
            assert_eq!(services.join(service), 0);
        }
        assert!(services.advance(cleared, Some(2)));
        assert!(!services.advance(cleared, Some(2)));
        services.leave(quiet);
        assert_eq!(services.0.len(), 2);
        services.leave(quiet);
        services.leave(cleared);
        assert_eq!(services.0.keys().collect::<Vec<_>>(), [&cleared]);
        assert_eq!(services.join(cleared), 2);
    }
}
