//! Commands sent directly to the members of shards, without a mongos.

use std::time::Duration;

use steadfast::{
    Client,
    options::{ClientOptions, ServerAddress},
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    facts::{DeploymentKind, Facts, MemberState, RecordLifetime, Shard, ShardMember},
    queries::ServerAdmin,
};

/// Time-out for all members. Applications often cannot connect to shards directly.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the options of a client of a shard, with the credential and TLS options of the cluster.
pub(super) fn options(cluster: &ClientOptions) -> ClientOptions {
    ClientOptions::builder()
        .credential(cluster.credential.clone())
        .tls(cluster.tls.clone())
        .app_name(cluster.app_name.clone().or_else(|| Some("steadfast doctor".to_owned())))
        .server_selection_timeout(MEMBER_TIMEOUT)
        .connect_timeout(MEMBER_TIMEOUT)
        .build()
}

/// Reads the state and the minimum record lifetime of each member of each shard.
pub(super) async fn examine(options: &ClientOptions, facts: &mut Facts, until: Instant) {
    let shards = match (facts.kind, &mut facts.shards) {
        (DeploymentKind::Sharded | DeploymentKind::LoadBalanced, Some(shards)) => shards,
        _ => return,
    };
    let until = until.min(Instant::now() + MEMBER_TIMEOUT);
    let mut tasks = JoinSet::new();
    for (index, shard) in shards.iter().enumerate() {
        let members = members(shard);
        let mut options = options.clone();
        options.hosts = members.iter().map(|(_, address)| address.clone()).collect();
        options.repl_set_name = shard.host.split_once('/').map(|(name, _)| name.to_owned());
        let client = Client::with_options(options);
        for (name, address) in members {
            let client = client.clone();
            tasks.spawn(async move {
                let (state, lifetime) = match client {
                    Ok(client) => member(&ServerAdmin::new(&client, &address, until)).await,
                    Err(error) => unreached(error.to_string()),
                };
                (index, ShardMember { host: name, state }, lifetime)
            });
        }
    }
    while let Some(Ok((index, member, lifetime))) = tasks.join_next().await {
        facts.record_lifetimes.push((member.host.clone(), lifetime));
        shards[index].members.push(member);
    }
    for shard in shards {
        shard.members.sort_by(|one, other| one.host.cmp(&other.host));
    }
    facts.record_lifetimes.sort_by(|(one, _), (other, _)| one.cmp(other));
}

async fn member(admin: &ServerAdmin) -> (MemberState, RecordLifetime) {
    match admin.member_state().await {
        MemberState::Unreached(why) => unreached(why),
        state => {
            let not_read =
                || RecordLifetime::NotRead("the server was not reached in time".to_owned());
            (state, admin.record_lifetime().await.unwrap_or_else(not_read))
        }
    }
}

fn unreached(why: String) -> (MemberState, RecordLifetime) {
    (MemberState::Unreached(why), RecordLifetime::NotRead("the server was not reached".to_owned()))
}

/// Returns the members of a shard, which `config.shards` lists as `shard/host:port,host:port`.
fn members(shard: &Shard) -> Vec<(String, ServerAddress)> {
    let hosts = shard.host.split_once('/').map_or(shard.host.as_str(), |(_, hosts)| hosts);
    let named = |host: &str| Some((host.to_owned(), ServerAddress::parse(host).ok()?));
    hosts.split(',').filter_map(named).collect()
}
