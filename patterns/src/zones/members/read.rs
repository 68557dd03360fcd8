//! Configurations of the shards' replica sets, read from the shards directly.

use std::time::Duration;

use bson::{Bson, Document, doc};
use tokio::task::JoinSet;

use super::{ShardMember, ShardMembers};
use crate::zones::cluster::{Cluster, Shard};
use steadfast::{
    Client,
    error::{Error, Result},
    options::{ClientOptions, ReadPreference, SelectionCriteria, ServerAddress},
};

/// Time limit: often, the shards of a cluster are reachable only from its mongos.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

impl Cluster {
    /// Reads the members of all shards at once.
    pub(in crate::zones) async fn read_members(&mut self, client: &Client) {
        let mut reads = JoinSet::new();
        for shard in self.shards.clone() {
            let options = client.options().clone();
            reads.spawn(async move {
                let read = tokio::time::timeout(READ_TIMEOUT, members(&options, &shard)).await;
                let members = match read {
                    Ok(Ok(members)) => ShardMembers::Read(members),
                    Ok(Err(error)) => ShardMembers::NotRead(error.to_string()),
                    Err(_) => ShardMembers::NotRead(format!("no reply from {}", shard.host)),
                };
                (shard.name, members)
            });
        }
        while let Some(Ok((shard, members))) = reads.join_next().await {
            self.members.insert(shard, members);
        }
    }
}

/// Reads the configuration from any member of a shard, with the credential of the cluster's client.
async fn members(cluster: &ClientOptions, shard: &Shard) -> Result<Vec<ShardMember>> {
    let Some((set, hosts)) = shard.host.split_once('/') else {
        return Err(Error::invalid_response(format!("{} is not a replica set", shard.host)));
    };
    let hosts: Vec<ServerAddress> =
        hosts.split(',').filter_map(|host| ServerAddress::parse(host).ok()).collect();
    let options = ClientOptions::builder()
        .hosts(hosts)
        .repl_set_name(set.to_owned())
        .credential(cluster.credential.clone())
        .tls(cluster.tls.clone())
        .app_name(cluster.app_name.clone())
        .server_api(cluster.server_api.clone())
        .server_selection_timeout(READ_TIMEOUT)
        .connect_timeout(READ_TIMEOUT)
        .build();
    let admin = Client::with_options(options)?.database("admin");
    let nearest = ReadPreference::Nearest { options: Default::default() };
    let reply = admin
        .run_command(doc! { "replSetGetConfig": 1 })
        .selection_criteria(SelectionCriteria::ReadPreference(nearest))
        .await?;
    read(&reply).ok_or_else(|| Error::invalid_response("replSetGetConfig: no members"))
}

fn read(reply: &Document) -> Option<Vec<ShardMember>> {
    let members = reply.get_document("config").ok()?.get_array("members").ok()?;
    let number = |value: &Bson| match value {
        Bson::Double(value) => Some(*value),
        Bson::Int32(value) => Some(f64::from(*value)),
        Bson::Int64(value) => i32::try_from(*value).ok().map(f64::from),
        _ => None,
    };
    let member = |it: &Document| {
        let tags = it.get_document("tags").cloned().unwrap_or_default();
        let named = |(tag, value): (String, Bson)| Some((tag, value.as_str()?.to_owned()));
        Some(ShardMember {
            host: it.get_str("host").ok()?.to_owned(),
            votes: it.get("votes").and_then(number) != Some(0.0),
            priority: it.get("priority").and_then(number).unwrap_or(1.0),
            tags: tags.into_iter().filter_map(named).collect(),
        })
    };
    members.iter().map(|it| it.as_document().and_then(member)).collect()
}
