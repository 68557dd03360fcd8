//! Status commands of a set: `hello`, `replSetGetStatus`, `replSetGetConfig`.

use bson::{Bson, Document, Timestamp, doc, oid::ObjectId};
use tokio::time::Instant;

use super::state::{MemberRole, MemberState, State};
use crate::node::ProcessState;

/// Configuration version. It never changes.
const SET_VERSION: i32 = 1;

/// First wire version whose shards report a default write concern in `hello` (MongoDB 5.0).
const DEFAULT_CONCERN_IN_HELLO: i32 = 13;

impl State {
    /// `hello` of a member, without the fields of a connection.
    pub(crate) fn hello(&self, index: usize, now: Instant) -> Document {
        let member = self.member(index);
        let mut hello = match &self.config().name {
            Some(name) => self.hello_of_member(index, name),
            None => doc! { "isWritablePrimary": true, "topologyVersion": topology(member) },
        };
        hello.extend(doc! {
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "localTime": self.wall_time(index, now),
            "logicalSessionTimeoutMinutes":
                i32::try_from(self.session_timeout().as_secs() / 60).unwrap_or(i32::MAX),
            "minWireVersion": 0,
            "maxWireVersion": self.config().max_wire_version,
            "readOnly": false,
        });
        hello
    }

    fn hello_of_member(&self, index: usize, name: &str) -> Document {
        let member = self.member(index);
        let primary = member.role == MemberRole::Primary;
        let mut hello = doc! {
            "topologyVersion": topology(member),
            "hosts": self.addresses(|member| !self.is_priority_zero(member)),
            "setName": name,
            "setVersion": SET_VERSION,
            "isWritablePrimary": primary,
            "secondary": !primary,
        };
        if !self.config().priority_zero.is_empty() {
            hello.insert("passives", self.addresses(|member| self.is_priority_zero(member)));
        }
        if self.is_priority_zero(index) {
            hello.insert("passive", true);
        }
        if let Some(primary) = self.primary_of(index) {
            hello.insert("primary", &self.config().addresses[primary]);
        }
        if let Some(tags) = self.config().tags.get(index).filter(|tags| !tags.is_empty()) {
            hello.insert("tags", tags);
        }
        hello.insert("me", &self.config().addresses[index]);
        if primary {
            hello.insert("electionId", election_id(member.term));
        }
        let commit = member.commit;
        hello.insert(
            "lastWrite",
            doc! {
                "opTime": member.last().to_document(),
                "lastWriteDate": member.last().timestamp.date(),
                "majorityOpTime": commit.to_document(),
                "majorityWriteDate": commit.timestamp.date(),
            },
        );
        if self.config().is_shard && self.config().max_wire_version >= DEFAULT_CONCERN_IN_HELLO {
            // A majority of data-bearing members, which all members are.
            hello.insert("isImplicitDefaultMajorityWC", true);
        }
        hello
    }

    fn addresses(&self, which: impl Fn(usize) -> bool) -> Vec<&String> {
        let members = self.config().addresses.iter().enumerate();
        members.filter(|(member, _)| which(*member)).map(|(_, address)| address).collect()
    }

    /// Reply to `replSetGetStatus`.
    pub(crate) fn status(&self, index: usize, now: Instant) -> Document {
        let member = self.member(index);
        let majority = i32::try_from(self.majority()).unwrap_or(i32::MAX);
        let count = i32::try_from(self.members().len()).unwrap_or(i32::MAX);
        let source = if member.role == MemberRole::Primary { None } else { self.primary_of(index) };
        let (source_host, source_id) = self.source(source);
        let times = doc! {
            "lastCommittedOpTime": member.commit.to_document(),
            "readConcernMajorityOpTime": member.commit.to_document(),
            "appliedOpTime": member.last().to_document(),
            "durableOpTime": member.last().to_document(),
        };
        doc! {
            "set": self.config().name.as_deref().unwrap_or_default(),
            "date": self.wall_time(index, now),
            "myState": number(member.role),
            "term": member.term,
            "syncSourceHost": source_host,
            "syncSourceId": source_id,
            "heartbeatIntervalMillis": 100_i64,
            "majorityVoteCount": majority,
            "writeMajorityCount": majority,
            "votingMembersCount": count,
            "writableVotingMembersCount": count,
            "optimes": times,
            "members": (0..self.members().len())
                .map(|other| self.status_of(index, other, now))
                .collect::<Vec<_>>(),
        }
    }

    fn status_of(&self, asked: usize, index: usize, now: Instant) -> Document {
        let member = self.member(index);
        let reached = self.reaches(asked, index);
        let uptime = now.saturating_duration_since(member.started).as_secs();
        let mut status = doc! {
            "_id": i32::try_from(index).unwrap_or(i32::MAX),
            "name": &self.config().addresses[index],
            "health": if reached { 1.0 } else { 0.0 },
            "state": if reached { number(member.role) } else { 8 },
            "stateStr": match (reached, member.role) {
                (false, _) => "(not reachable/healthy)",
                (true, MemberRole::Primary) => "PRIMARY",
                (true, MemberRole::Secondary) => "SECONDARY",
            },
            "uptime": if reached { i64::try_from(uptime).unwrap_or(i64::MAX) } else { 0 },
        };
        if reached {
            let source =
                if member.role == MemberRole::Primary { None } else { self.primary_of(index) };
            let (source_host, source_id) = self.source(source);
            status.extend(doc! {
                "optime": member.last().to_document(),
                "optimeDate": member.last().timestamp.date(),
                "syncSourceHost": source_host,
                "syncSourceId": source_id,
            });
            if member.role == MemberRole::Primary {
                let elected = member.first_of_term.timestamp;
                status.insert("electionTime", Timestamp::from(elected));
                status.insert("electionDate", elected.date());
            }
        } else {
            status
                .insert("lastHeartbeatMessage", "Couldn't get a connection within the time limit");
        }
        status.insert("infoMessage", "");
        status.insert("configVersion", SET_VERSION);
        status.insert("configTerm", member.term);
        if asked == index {
            status.insert("self", true);
        }
        status
    }

    fn source(&self, source: Option<usize>) -> (String, i32) {
        match source {
            Some(source) => {
                (self.config().addresses[source].clone(), i32::try_from(source).unwrap_or(i32::MAX))
            }
            None => (String::new(), -1),
        }
    }

    /// Configuration as `replSetGetConfig` returns it.
    pub(crate) fn configuration(&self, index: usize) -> Document {
        let members: Vec<Document> = self
            .config()
            .addresses
            .iter()
            .enumerate()
            .map(|(index, address)| {
                doc! {
                    "_id": i32::try_from(index).unwrap_or(i32::MAX),
                    "host": address,
                    "arbiterOnly": false,
                    "buildIndexes": true,
                    "hidden": false,
                    "priority": if self.is_priority_zero(index) { 0.0 } else { 1.0 },
                    "tags": self.config().tags.get(index).cloned().unwrap_or_default(),
                    "secondaryDelaySecs": 0_i64,
                    "votes": 1,
                }
            })
            .collect();
        let timeout = self.config().election_timeout.as_millis();
        doc! {
            "_id": self.config().name.as_deref().unwrap_or_default(),
            "version": SET_VERSION,
            "term": self.member(index).term,
            "members": members,
            "protocolVersion": 1_i64,
            "writeConcernMajorityJournalDefault": true,
            "settings": {
                "chainingAllowed": true,
                "heartbeatIntervalMillis": 100,
                "heartbeatTimeoutSecs": 10,
                "electionTimeoutMillis": i32::try_from(timeout).unwrap_or(i32::MAX),
                "catchUpTimeoutMillis": -1,
                "catchUpTakeoverDelayMillis": 30_000,
                "getLastErrorModes": {},
                "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
                "replicaSetId": ObjectId::from_bytes([0x5e; 12]),
            },
        }
    }

    /// `topologyVersion` of a member.
    pub(crate) fn topology_version(&self, index: usize) -> Document {
        topology(self.member(index))
    }

    /// `electionId` of a primary.
    pub(crate) fn election_id(&self, index: usize) -> ObjectId {
        election_id(self.member(index).term)
    }

    /// Counter of the topology version, and process state.
    pub(crate) fn signals(&self, index: usize) -> (u64, ProcessState) {
        let member = self.member(index);
        (member.topology, member.process_state)
    }

    /// Id of the current process.
    pub(crate) fn process(&self, index: usize) -> ObjectId {
        self.member(index).process
    }
}

fn topology(member: &MemberState) -> Document {
    let counter = Bson::Int64(i64::try_from(member.topology).unwrap_or(i64::MAX));
    doc! { "processId": member.process, "counter": counter }
}

/// Later elections have greater ids.
fn election_id(term: i64) -> ObjectId {
    let mut bytes = [0xff; 12];
    bytes[0] = 0x7f;
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

fn number(role: MemberRole) -> i32 {
    match role {
        MemberRole::Primary => 1,
        MemberRole::Secondary => 2,
    }
}
