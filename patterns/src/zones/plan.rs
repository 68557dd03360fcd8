//! Plans: the steps that bring a cluster to a layout, or remove it.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use super::{
    bounds,
    cluster::{Cluster, CollectionKind, ZoneRange, starts_with},
    contradiction::{Contradiction, Contradictions},
    layout::{Datacenter, Layout},
    shell::ShellDocument,
    step::Step,
};

/// Steps in order. Steps that the cluster does not need are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    #[serde(skip)]
    pub(super) layout: Layout,
    #[serde(skip)]
    pub(super) purpose: Purpose,
    steps: Vec<Step>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// Purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    SetUp,
    Removal,
}

impl Plan {
    /// Returns the steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns `true` if there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns notes about the state before and after the steps.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns differences between the layout and the members of its shards, which no step removes.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Plans the steps that store the documents of each datacenter on its shards.
///
/// Zones and ranges come before the collection is sharded: then the chunks of an empty collection are created
/// in the right place, and nothing has to be moved. Steps that are done already are left out.
///
/// It does no I/O: it is a function of the layout and of the cluster as it was read.
///
/// # Errors
///
/// All [`Contradictions`] between the layout and the cluster.
///
/// ```
/// use steadfast_patterns::zones::{self, Cluster, Contradiction, Layout};
///
/// let layout = Layout::new("app.messages", ["datacenter", "userid"], [("alfa", ["shard0000"])])?;
/// // A cluster without shards.
/// let contradictions = zones::plan(&layout, &Cluster::default()).unwrap_err();
/// assert!(matches!(contradictions.iter().next(), Some(Contradiction::UnknownShard { .. })));
/// # Ok::<(), steadfast_patterns::zones::LayoutError>(())
/// ```
pub fn plan(layout: &Layout, cluster: &Cluster) -> Result<Plan, Contradictions> {
    let contradictions = contradictions(layout, cluster);
    if !contradictions.is_empty() {
        return Err(Contradictions(contradictions));
    }
    let mut steps = Vec::new();
    let found = &cluster.collection;
    if !cluster.sharding_enabled {
        steps.push(Step::enable_sharding(layout));
    }
    for (datacenter, shard) in placements(layout) {
        let known = cluster.shard(shard);
        if !known.is_some_and(|it| it.zones.contains(&datacenter.name)) {
            let reason = cluster.reason(layout, shard, &datacenter.name);
            steps.push(Step::add_shard_to_zone(shard, &datacenter.name, reason));
        }
    }
    for datacenter in layout.datacenters() {
        if cluster.zone_of_range(layout, &datacenter.name).is_none() {
            steps.push(Step::add_range(layout, &datacenter.name));
        }
    }
    if found.shard_key.is_none() {
        let supported = found.indexes.iter().any(|it| it.supports(&layout.key_pattern()));
        if found.has_documents && !supported {
            steps.push(Step::create_index(layout, found.has_collation));
        }
        let (collated, has_documents) = (found.has_collation, found.has_documents);
        steps.push(Step::shard_collection(layout, collated, has_documents));
    }
    let notes = notes(layout, cluster, &steps);
    let warnings = cluster.member_warnings(layout);
    Ok(Plan { layout: layout.clone(), purpose: Purpose::SetUp, steps, notes, warnings })
}

fn placements(layout: &Layout) -> impl Iterator<Item = (&Datacenter, &str)> {
    let datacenters = layout.datacenters().iter();
    datacenters.flat_map(|it| it.shards.iter().map(move |shard| (it, shard.as_str())))
}

fn contradictions(layout: &Layout, cluster: &Cluster) -> Vec<Contradiction> {
    let mut found = of_shards(layout, cluster);
    found.extend(of_collection(layout, cluster));
    found.extend(of_ranges(layout, cluster));
    found
}

fn of_shards(layout: &Layout, cluster: &Cluster) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for (datacenter, shard) in placements(layout) {
        let (shard_name, name) = (shard.to_owned(), datacenter.name.clone());
        match cluster.shard(shard) {
            None => found.push(Contradiction::UnknownShard {
                shard: shard_name,
                datacenter: name,
                known: cluster.shards.iter().map(|it| it.name.clone()).collect(),
            }),
            Some(known) if known.draining => {
                found.push(Contradiction::DrainingShard { shard: shard_name, datacenter: name });
            }
            Some(_) => {}
        }
    }
    for shard in &cluster.shards {
        for zone in &shard.zones {
            let datacenter = layout.datacenters().iter().find(|it| it.name == *zone);
            if datacenter.is_some_and(|it| !it.shards.contains(&shard.name)) {
                found.push(Contradiction::UnlistedShardInZone {
                    shard: shard.name.clone(),
                    zone: zone.clone(),
                });
            }
        }
    }
    found
}

fn of_collection(layout: &Layout, cluster: &Cluster) -> Vec<Contradiction> {
    let collection = layout.collection().to_string();
    let found = &cluster.collection;
    match found.kind {
        Some(
            kind @ (CollectionKind::Capped | CollectionKind::View | CollectionKind::TimeSeries),
        ) => {
            return vec![Contradiction::NotShardable { collection, kind }];
        }
        Some(CollectionKind::Collection) | None => {}
    }
    let layout_key = layout.key_pattern();
    if let Some(key) = &found.shard_key {
        let same = key.len() == layout_key.len() && starts_with(key, &layout_key);
        let other = Contradiction::OtherShardKey { collection, key: key.clone(), layout_key };
        return if same { Vec::new() } else { vec![other] };
    }
    let id = |it: &bson::Document| it.len() == 1 && it.contains_key("_id");
    let broken = found
        .indexes
        .iter()
        .filter(|index| index.unique && !id(&index.keys) && !starts_with(&index.keys, &layout_key));
    broken.map(|index| Contradiction::unique_index(index, layout)).collect()
}

fn of_ranges(layout: &Layout, cluster: &Cluster) -> Vec<Contradiction> {
    // Another shard key is already a contradiction; all ranges have its fields.
    let found = &cluster.collection.shard_key;
    if found.as_ref().is_some_and(|key| !key.keys().eq(layout.shard_key())) {
        return Vec::new();
    }
    let contradiction = |range: &ZoneRange| {
        if ![&range.min, &range.max].iter().all(|it| bounds::has_fields_of_key(layout, it)) {
            let (range, layout_key) = (range.clone(), layout.key_pattern());
            return Some(Contradiction::RangeOfOtherKey { range, layout_key });
        }
        let datacenter = layout.datacenters().iter().map(|it| &it.name).find(|name| {
            let own = bounds::is_range_of(layout, &range.min, &range.max, name);
            bounds::overlaps(layout, &range.min, &range.max, name) && !(own && range.zone == **name)
        })?;
        Some(Contradiction::OtherRange { range: range.clone(), datacenter: datacenter.clone() })
    };
    cluster.ranges_of(layout).filter_map(contradiction).collect()
}

fn notes(layout: &Layout, cluster: &Cluster, steps: &[Step]) -> Vec<String> {
    let mut notes = Vec::new();
    let found = &cluster.collection;
    let misplaced = cluster.misplaced(layout).count();
    let whole = found.shard_key.is_none() && found.has_documents;
    if whole {
        notes.push(
            "the collection has documents: when it is sharded, all of them are on one shard, and the balancer \
             moves them to their zones; this takes time and loads the cluster"
                .to_owned(),
        );
    } else if misplaced > 0 {
        notes.push(format!(
            "the collection is sharded already: the balancer splits and moves {misplaced} of its {} chunks \
             to their zones; this takes time and loads the cluster",
            cluster.chunks.len()
        ));
    }
    if whole || misplaced > 0 {
        notes.extend(blockers(cluster));
    }
    for range in cluster.ranges_of(layout) {
        if !layout.datacenters().iter().any(|it| it.name == range.zone) {
            notes.push(format!(
                "{} up to {} is assigned to zone {}, which is not in the layout; it is not changed",
                ShellDocument(&range.min),
                ShellDocument(&range.max),
                range.zone
            ));
        }
    }
    if !steps.is_empty() {
        let field = layout.datacenter_field();
        notes.push(format!(
            "documents whose {field} is missing, or not a datacenter of the layout, may be on any shard"
        ));
    }
    notes
}

/// Returns reasons why the balancer would not move misplaced chunks.
pub(super) fn blockers(cluster: &Cluster) -> Vec<String> {
    let mut reasons = Vec::new();
    if !cluster.balancer.on {
        reasons.push("the balancer is off: start it with sh.startBalancer()");
    }
    if cluster.collection.balancing_disabled {
        reasons.push(
            "balancing is disabled for the collection: enable it with sh.enableBalancing(collection)",
        );
    }
    reasons.into_iter().map(str::to_owned).collect()
}

/// Plans the removal of a layout: its ranges are removed from their zones, and its shards from theirs unless
/// ranges of other collections need them.
///
/// The collection stays sharded, and no document is deleted. Ranges and zones that differ from the layout are
/// kept.
///
/// ```no_run
/// # async fn run(client: steadfast::Client, layout: steadfast_patterns::zones::Layout)
/// # -> Result<(), steadfast_patterns::zones::ZonesError> {
/// use steadfast_patterns::zones::{self, Cluster};
///
/// let cluster = Cluster::read(&client, &layout).await?;
/// zones::removal(&layout, &cluster).apply(&client).await?;
/// # Ok(()) }
/// ```
pub fn removal(layout: &Layout, cluster: &Cluster) -> Plan {
    let mut steps = Vec::new();
    let mut notes = Vec::new();
    for datacenter in layout.datacenters() {
        match cluster.zone_of_range(layout, &datacenter.name) {
            Some(zone) if *zone == datacenter.name => {
                steps.push(Step::remove_range(layout, zone));
            }
            Some(zone) => notes.push(format!(
                "the range of {} is assigned to zone {zone}, not by this layout; it is not changed",
                datacenter.name
            )),
            None => {}
        }
    }
    for datacenter in layout.datacenters() {
        let zone = &datacenter.name;
        let carry =
            |shard: &&String| cluster.shard(shard).is_some_and(|it| it.zones.contains(zone));
        let carriers: Vec<&String> = datacenter.shards.iter().filter(carry).collect();
        match (other_use(layout, cluster, zone), carriers.is_empty()) {
            (None, _) => {
                steps.extend(carriers.iter().map(|it| Step::remove_shard_from_zone(it, zone)));
            }
            (Some(range), false) => notes.push(format!(
                "the shards of zone {zone} stay in it: {} up to {} of {} is assigned to it",
                ShellDocument(&range.min),
                ShellDocument(&range.max),
                range.collection
            )),
            (Some(_), true) => {}
        }
    }
    if cluster.collection.shard_key.is_some() {
        notes.push(format!(
            "{} stays sharded, and no document is deleted; the balancer may move its chunks to any shard",
            layout.collection()
        ));
    }
    let warnings = Vec::new();
    Plan { layout: layout.clone(), purpose: Purpose::Removal, steps, notes, warnings }
}

/// Returns a range of the zone that is not the layout's.
fn other_use<'a>(layout: &Layout, cluster: &'a Cluster, zone: &str) -> Option<&'a ZoneRange> {
    let collection = layout.collection().to_string();
    cluster.ranges.iter().find(|range| {
        let own = range.collection == collection
            && bounds::has_fields_of_key(layout, &range.min)
            && bounds::is_range_of(layout, &range.min, &range.max, zone);
        range.zone == zone && !own
    })
}

/// Writes the steps with reason and command, then the notes and the warnings.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            match self.purpose {
                Purpose::SetUp => writeln!(f, "Nothing to do: the layout is applied.")?,
                Purpose::Removal => {
                    writeln!(f, "Nothing to do: no zone and no range of the layout exists.")?;
                }
            }
        }
        for (place, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {step}", place + 1)?;
            writeln!(f, "   // {}", step.reason())?;
            writeln!(f, "   {}", step.in_shell())?;
        }
        for (place, note) in self.notes.iter().enumerate() {
            let before = if place == 0 { "\n" } else { "" };
            writeln!(f, "{before}Note: {note}.")?;
        }
        for (place, warning) in self.warnings.iter().enumerate() {
            let before = if place == 0 { "\n" } else { "" };
            writeln!(f, "{before}Warning: {warning}.")?;
        }
        Ok(())
    }
}
