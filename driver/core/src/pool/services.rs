//! The services behind a load balancer, each with a generation of its own.

use std::collections::BTreeMap;

use bson::oid::ObjectId;

use super::Generation;

#[derive(Debug, Default)]
pub(super) struct Services(BTreeMap<ObjectId, Service>);

#[derive(Debug, Default)]
struct Service {
    generation: Generation,
    connections: usize,
}

impl Services {
    pub(super) fn generation(&self, service: ObjectId) -> Generation {
        self.0.get(&service).map_or(0, |service| service.generation)
    }

    /// A connection turned out to lead to this service. Returns its generation.
    pub(super) fn join(&mut self, service: ObjectId) -> Generation {
        let service = self.0.entry(service).or_default();
        service.connections += 1;
        service.generation
    }

    /// A connection to this service was closed. With the last one goes the record, unless the
    /// service was ever cleared: the topology counts on, and a connection that began again at
    /// zero would look stale to it for ever.
    pub(super) fn leave(&mut self, service: ObjectId) {
        if let Some(record) = self.0.get_mut(&service) {
            record.connections = record.connections.saturating_sub(1);
            if record.connections == 0 && record.generation == 0 {
                self.0.remove(&service);
            }
        }
    }

    /// Moves a service on to this generation, or the next. Returns whether it moved.
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
    fn a_service_is_forgotten_with_its_last_connection_unless_it_was_cleared() {
        let (quiet, cleared) = (ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12]));
        let mut services = Services::default();
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
