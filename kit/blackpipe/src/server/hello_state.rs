//! What a server says it is, and what it knows of the others.

use bson::{Bson, Document, doc, oid::ObjectId};

use blackpipe_base::message::Request;

/// The process id in `topologyVersion`. Each server is known by its address, so that one will do.
const PROCESS: [u8; 12] = *b"blackpipe...";

/// What a server says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A server of its own.
    Standalone,
    /// The primary of the replica set `set`, and its only member unless it is one of a
    /// [`Deployment`](super::Deployment).
    Primary,
    /// A secondary of the replica set `set`.
    Secondary,
    /// A router of a sharded cluster.
    Mongos,
    /// A router behind a load balancer.
    LoadBalanced,
}

impl Role {
    /// Whether it is a member of a replica set.
    pub fn is_member(self) -> bool {
        match self {
            Self::Primary | Self::Secondary => true,
            Self::Standalone | Self::Mongos | Self::LoadBalanced => false,
        }
    }
}

/// All that goes into the reply to a hello.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) role: Role,
    pub(super) me: String,
    /// The members of the set, and which of them is primary.
    pub(super) hosts: Vec<String>,
    pub(super) primary: Option<String>,
    /// Counts the elections, from 1.
    pub(super) election: u32,
    /// What is said in place of all this; a null takes the field away.
    pub(super) said: Document,
    /// Counts the changes, from 1, if clients are told of them.
    pub(super) version: Option<i64>,
}

impl Standing {
    pub(super) fn new(role: Role, me: String, said: Document, is_streaming: bool) -> Self {
        Self {
            role,
            hosts: vec![me.clone()],
            primary: (role == Role::Primary).then(|| me.clone()),
            me,
            election: 1,
            said,
            version: is_streaming.then_some(1),
        }
    }

    /// Counts a change that was made.
    pub(super) fn changed(&mut self) {
        if let Some(version) = &mut self.version {
            *version += 1;
        }
    }

    /// The reply to a hello that comes through this connection, with these fields beside what is
    /// always said.
    pub(super) fn hello(&self, connection: usize, fields: &Document) -> Document {
        let is_writable = self.role != Role::Secondary;
        let mut hello = doc! {
            "helloOk": true, "ismaster": is_writable, "isWritablePrimary": is_writable,
            "readOnly": false, "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "minWireVersion": 0, "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
            "connectionId": i32::try_from(connection).unwrap_or(i32::MAX),
        };
        match self.role {
            Role::Standalone => {}
            Role::Primary | Role::Secondary => hello.extend(self.of_member()),
            Role::Mongos => hello.extend(doc! { "msg": "isdbgrid" }),
            Role::LoadBalanced => {
                let service = ObjectId::from_bytes([7; 12]);
                hello.extend(doc! { "msg": "isdbgrid", "serviceId": service });
            }
        }
        if let Some(version) = self.topology_version() {
            hello.insert("topologyVersion", version);
        }
        hello.insert("ok", 1);
        amend(&mut hello, &self.said);
        amend(&mut hello, fields);
        hello
    }

    fn of_member(&self) -> Document {
        let mut fields =
            doc! { "setName": "set", "setVersion": 1, "hosts": &self.hosts, "me": &self.me };
        if let Some(primary) = &self.primary {
            fields.insert("primary", primary);
        }
        match self.role {
            Role::Primary => {
                fields.extend(doc! { "secondary": false, "electionId": self.election() });
            }
            _ => drop(fields.insert("secondary", true)),
        }
        fields
    }

    /// The id of the last election. Ids grow.
    fn election(&self) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        bytes[8..].copy_from_slice(&self.election.to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    pub(super) fn topology_version(&self) -> Option<Document> {
        let version = self.version?;
        Some(doc! { "processId": ObjectId::from_bytes(PROCESS), "counter": version })
    }

    /// Whether a hello that asks for news since some version of the topology is still to wait.
    pub(super) fn is_news_to(&self, known: &Document) -> bool {
        self.topology_version().as_ref() != Some(known)
    }
}

/// What a hello knows already, if it asks for news of it.
pub(super) fn asks_for_news(request: &Request) -> Option<&Document> {
    request.body.get_document("topologyVersion").ok()
}

/// Replaces fields of a document; a null takes a field away.
fn amend(document: &mut Document, fields: &Document) {
    for (key, value) in fields {
        match value {
            Bson::Null => drop(document.remove(key)),
            value => drop(document.insert(key, value.clone())),
        }
    }
}
