//! Asking the members of a cluster's shards, which are reached past its mongos.

use std::time::Duration;

use steadfast::{
    Client,
    options::{ClientOptions, ServerAddress},
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    ask::Line,
    facts::{Facts, Kind, RecordLifetime, Shard},
};

/// Shards are often out of an application's reach: they are not waited for longer.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// The options of a client of a shard: who the client is, and how connections are encrypted.
pub(super) fn options(cluster: &ClientOptions) -> ClientOptions {
    ClientOptions::builder()
        .credential(cluster.credential.clone())
        .tls(cluster.tls.clone())
        .app_name(cluster.app_name.clone().or_else(|| Some("steadfast doctor".to_owned())))
        .server_selection_timeout(REACHED_WITHIN)
        .connect_timeout(REACHED_WITHIN)
        .build()
}

/// Asks each member of each shard for the minimum lifetime of its records.
pub(super) async fn ask(options: &ClientOptions, facts: &mut Facts, until: Instant) {
    let shards = match (facts.kind, &facts.shards) {
        (Kind::Sharded | Kind::LoadBalanced, Some(shards)) => shards.clone(),
        _ => return,
    };
    let until = until.min(Instant::now() + REACHED_WITHIN);
    let mut asked = JoinSet::new();
    for shard in shards {
        let members = members(&shard);
        let mut options = options.clone();
        options.hosts = members.iter().map(|(_, address)| address.clone()).collect();
        options.repl_set_name = shard.host.split_once('/').map(|(name, _)| name.to_owned());
        let client = Client::with_options(options);
        for (name, address) in members {
            let client = client.clone();
            asked.spawn(async move {
                let lifetime = match client {
                    Ok(client) => Line::to(&client, &address, until).record_lifetime().await,
                    Err(error) => Some(RecordLifetime::NotRead(error.to_string())),
                };
                let silent = || RecordLifetime::NotRead("it was not reached in time".to_owned());
                (name, lifetime.unwrap_or_else(silent))
            });
        }
    }
    while let Some(Ok(answer)) = asked.join_next().await {
        facts.record_lifetimes.push(answer);
    }
    facts.record_lifetimes.sort_by(|(one, _), (other, _)| one.cmp(other));
}

/// The members that `config.shards` lists, as `shard/host:port,host:port`.
fn members(shard: &Shard) -> Vec<(String, ServerAddress)> {
    let hosts = shard.host.split_once('/').map_or(shard.host.as_str(), |(_, hosts)| hosts);
    let named = |host: &str| Some((host.to_owned(), ServerAddress::parse(host).ok()?));
    hosts.split(',').filter_map(named).collect()
}
