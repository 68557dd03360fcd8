//! Scenarios: a topology, an operation, and the servers that may be selected for it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bson::{DateTime, Document};
use serde::Deserialize;
use steadfast_core::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TagSet, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
    selection::{
        Selection, SelectionCriteria, SelectionError, SelectionSettings, SelectionTarget, explain,
        in_latency_window, select, suitable,
    },
};

use crate::{LoadError, SpecFile};

/// One file of the server selection or the max staleness suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::suites) struct Scenario {
    topology_description: TopologySpec,
    #[serde(default)]
    operation: OperationKind,
    #[serde(default)]
    read_preference: Document,
    #[serde(rename = "heartbeatFrequencyMS")]
    heartbeat_frequency_ms: Option<u64>,
    #[serde(default)]
    deprioritized_servers: Vec<ServerSpec>,
    #[serde(default)]
    suitable_servers: Vec<ServerSpec>,
    #[serde(default)]
    in_latency_window: Vec<ServerSpec>,
    #[serde(default)]
    error: bool,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum OperationKind {
    #[default]
    Read,
    Write,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologySpec {
    r#type: String,
    servers: Vec<ServerSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerSpec {
    address: ServerAddress,
    r#type: String,
    avg_rtt_ms: Option<f64>,
    #[serde(default)]
    tags: TagSet,
    #[serde(rename = "lastUpdateTime")]
    last_update_time_ms: Option<u64>,
    #[serde(rename = "lastWrite")]
    last_write: Option<LastWrite>,
    #[serde(rename = "maxWireVersion")]
    max_wire_version: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LastWrite {
    last_write_date: i64,
}

impl Scenario {
    pub(in crate::suites) fn read(file: &SpecFile) -> Result<Self, LoadError> {
        bson::deserialize_from_document(file.document()?).map_err(|error| file.problem(&error))
    }

    /// Compares the suitable servers and the latency window, and checks that the selected server is in that window; or
    /// checks that the read preference is rejected.
    pub(in crate::suites) fn run(&self) -> Result<(), String> {
        let topology = self.topology_description.build(Instant::now())?;
        let settings = self.settings();
        let criteria = match self.criteria() {
            Ok(criteria) => criteria,
            // The driver's types exclude this read preference.
            Err(_) if self.error => return Ok(()),
            Err(error) => return Err(format!("the read preference was rejected: {error}")),
        };
        let target = match self.operation {
            OperationKind::Read => SelectionTarget::Read(&criteria),
            OperationKind::Write => SelectionTarget::Write,
        };
        let servers = &self.deprioritized_servers;
        let deprioritized: Vec<_> = servers.iter().map(|server| server.address.clone()).collect();
        match suitable(&topology, target, &deprioritized, &settings) {
            Err(SelectionError::MaxStalenessTooSmall { .. }) if self.error => return Ok(()),
            Err(error) => return Err(format!("selection failed: {error}")),
            Ok(_) if self.error => return Err("the read preference was not rejected".to_owned()),
            Ok(servers) => self.check_sets(servers, &settings)?,
        }
        let chosen = select(&topology, target, &deprioritized, &settings, |_| 0, [1 << 63; 2]);
        self.check_chosen(&chosen, &explain(&topology, target, &settings))
    }

    fn settings(&self) -> SelectionSettings {
        let mut settings = SelectionSettings::default();
        if let Some(millis) = self.heartbeat_frequency_ms {
            settings.heartbeat_frequency = Duration::from_millis(millis);
        }
        settings
    }

    fn criteria(&self) -> Result<SelectionCriteria, String> {
        if self.read_preference.is_empty() {
            return Ok(SelectionCriteria::default());
        }
        bson::deserialize_from_document::<ReadPreference>(self.read_preference.clone())
            .map(SelectionCriteria::from)
            .map_err(|error| error.to_string())
    }

    fn check_sets(
        &self,
        mut servers: Vec<&ServerDescription>,
        settings: &SelectionSettings,
    ) -> Result<(), String> {
        compare("suitable", &servers, &self.suitable_servers)?;
        in_latency_window(&mut servers, settings.local_threshold);
        compare("in the latency window", &servers, &self.in_latency_window)
    }

    fn check_chosen(&self, chosen: &Selection<'_>, explanation: &str) -> Result<(), String> {
        let window = addresses(&self.in_latency_window);
        match chosen {
            Selection::Selected(server) if window.contains(&server.address) => Ok(()),
            Selection::NoneSuitable if window.is_empty() && !explanation.is_empty() => Ok(()),
            other => Err(format!("expected one of {window:?}, selected {other:?}: {explanation}")),
        }
    }
}

impl TopologySpec {
    /// Builds the topology description. Times are relative to `start`.
    pub(super) fn build(&self, start: Instant) -> Result<TopologyDescription, String> {
        let mut topology = TopologyDescription::default();
        topology.topology_type = topology_type(&self.r#type)?;
        for server in &self.servers {
            let description = server.build(start)?;
            topology.servers.insert(description.address.clone(), description);
        }
        Ok(topology)
    }
}

impl ServerSpec {
    fn build(&self, start: Instant) -> Result<ServerDescription, String> {
        let mut description = ServerDescription::unknown(self.address.clone());
        description.server_type = server_type(&self.r#type)?;
        description.average_round_trip_time =
            self.avg_rtt_ms.map(|millis| Duration::from_secs_f64(millis / 1000.0));
        description.tags = self.tags.clone();
        description.last_update_time =
            self.last_update_time_ms.map(|millis| start + Duration::from_millis(millis));
        description.last_write_date =
            self.last_write.as_ref().map(|write| DateTime::from_millis(write.last_write_date));
        description.max_wire_version = self.max_wire_version.unwrap_or_default();
        Ok(description)
    }
}

fn topology_type(name: &str) -> Result<TopologyType, String> {
    [
        TopologyType::Single,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::Sharded,
        TopologyType::LoadBalanced,
        TopologyType::Unknown,
    ]
    .into_iter()
    .find(|topology_type| topology_type.name() == name)
    .ok_or_else(|| format!("unknown topology type {name}"))
}

fn server_type(name: &str) -> Result<ServerType, String> {
    [
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::RsPrimary,
        ServerType::RsSecondary,
        ServerType::RsArbiter,
        ServerType::RsOther,
        ServerType::RsGhost,
        ServerType::LoadBalancer,
        ServerType::Unknown,
    ]
    .into_iter()
    .find(|server_type| server_type.name() == name)
    // A type of single-threaded drivers; for others it is `Unknown`.
    .or((name == "PossiblePrimary").then_some(ServerType::Unknown))
    .ok_or_else(|| format!("unknown server type {name}"))
}

fn addresses(servers: &[ServerSpec]) -> BTreeSet<ServerAddress> {
    servers.iter().map(|server| server.address.clone()).collect()
}

fn compare(
    what: &str,
    found: &[&ServerDescription],
    expected: &[ServerSpec],
) -> Result<(), String> {
    let found: BTreeSet<_> = found.iter().map(|server| server.address.clone()).collect();
    let expected = addresses(expected);
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}
