//! Fields of `hello`: role, primary, topology version.

use bson::{Bson, Document, doc, oid::ObjectId};

use blackpipe_base::message::Request;

/// `processId` of `topologyVersion`. One value suffices, because clients identify servers by
/// address.
const PROCESS_ID: [u8; 12] = *b"blackpipe...";

/// Role of a server in `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A standalone server.
    Standalone,
    /// The primary of the replica set `set`. Its only member, unless it belongs to a
    /// [`Deployment`](super::Deployment).
    Primary,
    /// A secondary of the replica set `set`.
    Secondary,
    /// A mongos.
    Mongos,
    /// A mongos behind a load balancer.
    LoadBalanced,
}

impl Role {
    /// Returns `true` for members of a replica set.
    pub fn is_member(self) -> bool {
        match self {
            Self::Primary | Self::Secondary => true,
            Self::Standalone | Self::Mongos | Self::LoadBalanced => false,
        }
    }
}

/// State that `hello` reports.
#[derive(Clone, Debug)]
pub(super) struct HelloState {
    pub(super) role: Role,
    pub(super) me: String,
    /// Members of the replica set.
    pub(super) hosts: Vec<String>,
    pub(super) primary: Option<String>,
    /// Number of elections, from 1.
    pub(super) election: u32,
    /// Overridden fields. Null removes a field.
    pub(super) overrides: Document,
    /// Counter of `topologyVersion`, from 1. `None` without streaming.
    pub(super) version: Option<i64>,
}

impl HelloState {
    pub(super) fn new(role: Role, me: String, overrides: Document, is_streaming: bool) -> Self {
        Self {
            role,
            hosts: vec![me.clone()],
            primary: (role == Role::Primary).then(|| me.clone()),
            me,
            election: 1,
            overrides,
            version: is_streaming.then_some(1),
        }
    }

    /// Increments the topology version.
    pub(super) fn changed(&mut self) {
        if let Some(version) = &mut self.version {
            *version += 1;
        }
    }

    /// Builds the reply to `hello` with these overridden fields.
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
        override_fields(&mut hello, &self.overrides);
        override_fields(&mut hello, fields);
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

    /// Returns the id of the last election. Ids increase.
    fn election(&self) -> ObjectId {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        bytes[8..].copy_from_slice(&self.election.to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    pub(super) fn topology_version(&self) -> Option<Document> {
        let version = self.version?;
        Some(doc! { "processId": ObjectId::from_bytes(PROCESS_ID), "counter": version })
    }

    /// Returns `true` if the topology version differs from that of the client.
    pub(super) fn differs_from(&self, known: &Document) -> bool {
        self.topology_version().as_ref() != Some(known)
    }
}

/// Returns the topology version of an awaitable `hello`.
pub(super) fn awaited_topology_version(request: &Request) -> Option<&Document> {
    request.body.get_document("topologyVersion").ok()
}

/// Overrides fields of a document. Null removes a field.
fn override_fields(document: &mut Document, fields: &Document) {
    for (key, value) in fields {
        match value {
            Bson::Null => drop(document.remove(key)),
            value => drop(document.insert(key, value.clone())),
        }
    }
}
