//! Asking the members of a cluster's shards, which are reached past its mongos.

use std::time::Duration;

use steadfast::{
    Client,
    options::{ClientOptions, ServerAddress},
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    ask::Line,
    facts::{Facts, Kind, MemberState, RecordLifetime, Shard, ShardMember},
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

/// Asks each member of each shard for its state and for the minimum lifetime of its records.
pub(super) async fn ask(options: &ClientOptions, facts: &mut Facts, until: Instant) {
    let shards = match (facts.kind, &mut facts.shards) {
        (Kind::Sharded | Kind::LoadBalanced, Some(shards)) => shards,
        _ => return,
    };
    let until = until.min(Instant::now() + REACHED_WITHIN);
    let mut asked = JoinSet::new();
    for (place, shard) in shards.iter().enumerate() {
        let members = members(shard);
        let mut options = options.clone();
        options.hosts = members.iter().map(|(_, address)| address.clone()).collect();
        options.repl_set_name = shard.host.split_once('/').map(|(name, _)| name.to_owned());
        let client = Client::with_options(options);
        for (name, address) in members {
            let client = client.clone();
            asked.spawn(async move {
                let (state, lifetime) = match client {
                    Ok(client) => member(&Line::to(&client, &address, until)).await,
                    Err(error) => unreached(error.to_string()),
                };
                (place, ShardMember { host: name, state }, lifetime)
            });
        }
    }
    while let Some(Ok((place, member, lifetime))) = asked.join_next().await {
        facts.record_lifetimes.push((member.host.clone(), lifetime));
        shards[place].members.push(member);
    }
    for shard in shards {
        shard.members.sort_by(|one, other| one.host.cmp(&other.host));
    }
    facts.record_lifetimes.sort_by(|(one, _), (other, _)| one.cmp(other));
}

async fn member(line: &Line) -> (MemberState, RecordLifetime) {
    match line.member_state().await {
        MemberState::Unreached(why) => unreached(why),
        state => {
            let silent = || RecordLifetime::NotRead("it was not reached in time".to_owned());
            (state, line.record_lifetime().await.unwrap_or_else(silent))
        }
    }
}

fn unreached(why: String) -> (MemberState, RecordLifetime) {
    (MemberState::Unreached(why), RecordLifetime::NotRead("it was not reached".to_owned()))
}

/// The members that `config.shards` lists, as `shard/host:port,host:port`.
fn members(shard: &Shard) -> Vec<(String, ServerAddress)> {
    let hosts = shard.host.split_once('/').map_or(shard.host.as_str(), |(_, hosts)| hosts);
    let named = |host: &str| Some((host.to_owned(), ServerAddress::parse(host).ok()?));
    hosts.split(',').filter_map(named).collect()
}
