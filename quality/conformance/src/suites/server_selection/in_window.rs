//! Selection frequencies of servers with different loads.

use std::{collections::BTreeMap, time::Instant};

use serde::Deserialize;
use steadfast_core::{
    address::ServerAddress,
    description::TopologyDescription,
    read_preference::ReadPreference,
    selection::{Selection, SelectionCriteria, SelectionSettings, SelectionTarget, select},
};
use steadfast_report::random::Rng;

use super::{SUITE, scenario::TopologySpec};
use crate::{Case, Context, LoadError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrequencyTest {
    description: String,
    topology_description: TopologySpec,
    mocked_topology_state: Vec<ServerLoad>,
    iterations: u32,
    outcome: ExpectedFrequencies,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerLoad {
    address: ServerAddress,
    operation_count: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFrequencies {
    tolerance: f64,
    expected_frequencies: BTreeMap<ServerAddress, f64>,
}

pub(super) fn cases(context: &Context) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files_in(SUITE.name, &["in_window"])?;
    files
        .into_iter()
        .map(|file| {
            let frequencies: FrequencyTest = file.json()?;
            let description = frequencies.description.clone();
            Ok(Case::new(file.name, description, move || frequencies.run()))
        })
        .collect()
}

impl FrequencyTest {
    fn run(self) -> Result<(), String> {
        let topology = self.topology_description.build(Instant::now())?;
        let loads: BTreeMap<_, _> = self
            .mocked_topology_state
            .into_iter()
            .map(|load| (load.address, load.operation_count))
            .collect();
        let chosen = count_selections(&topology, &loads, self.iterations)?;
        for (address, expected) in &self.outcome.expected_frequencies {
            let count = chosen.get(address).copied().unwrap_or(0);
            let observed = f64::from(count) / f64::from(self.iterations);
            // 0 and 1 have no tolerance.
            let exact = *expected == 0.0 || *expected == 1.0;
            let tolerance = if exact { 0.0 } else { self.outcome.tolerance };
            if (observed - expected).abs() > tolerance {
                return Err(format!("{address}: expected {expected}, observed {observed}"));
            }
        }
        Ok(())
    }
}

/// Counts how often `iterations` selections choose each server.
fn count_selections(
    topology: &TopologyDescription,
    loads: &BTreeMap<ServerAddress, usize>,
    iterations: u32,
) -> Result<BTreeMap<ServerAddress, u32>, String> {
    let nearest = SelectionCriteria::from(ReadPreference::nearest(None));
    let settings = SelectionSettings::default();
    let load = |address: &ServerAddress| loads.get(address).copied().unwrap_or(0);
    let mut rng = Rng(7);
    let mut chosen = BTreeMap::new();
    for _ in 0..iterations {
        let random = [rng.next_u64(), rng.next_u64()];
        match select(topology, SelectionTarget::Read(&nearest), &[], &settings, load, random) {
            Selection::Selected(server) => *chosen.entry(server.address.clone()).or_insert(0) += 1,
            other => return Err(format!("no server was selected: {other:?}")),
        }
    }
    Ok(chosen)
}
