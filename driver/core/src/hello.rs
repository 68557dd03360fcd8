//! The reply to `hello` and to legacy hello.
//!
//! Parsing is lenient: a field of an unexpected type counts as missing, because servers of future
//! versions can differ. Only malformed BSON is an error.

use std::{
    fmt,
    time::{Duration, Instant},
};

use bson::{
    DateTime, ToStr,
    oid::ObjectId,
    raw::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf},
};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TagSet, TopologyVersion},
    round_trip::RoundTrips,
};

/// Upper bound of `maxMessageSizeBytes`: 48,000,000, the value that all server versions so far
/// report. Higher values are capped.
pub const MAX_MESSAGE_SIZE_BYTES: i32 = 48_000_000;

/// Maximum number of addresses used from each of `hosts`, `passives` and `arbiters`. MongoDB limits
/// replica sets to 50 members.
const MAX_MEMBERS: usize = 100;

/// Error for a `hello` reply that is not valid BSON.
#[derive(Clone, Debug, thiserror::Error)]
#[error("malformed hello reply: {0}")]
pub struct MalformedHello(#[from] bson::error::RawError);

/// A parsed `hello` reply.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HelloReply {
    /// `true` if the command succeeded (`ok`).
    pub ok: bool,
    /// Error message (`errmsg`).
    pub errmsg: Option<String>,
    /// Error code (`code`).
    pub code: Option<i32>,
    /// Error labels (`errorLabels`).
    pub error_labels: Vec<String>,
    /// `true` if the server supports the `hello` command (`helloOk`).
    pub hello_ok: bool,
    /// `true` if the server accepts writes: `isWritablePrimary`, or `ismaster` if that is missing.
    pub is_writable_primary: bool,
    /// `isdbgrid` for a mongos (`msg`).
    pub msg: Option<String>,
    /// Name of the replica set (`setName`).
    pub set_name: Option<String>,
    /// Version of the replica set configuration (`setVersion`).
    pub set_version: Option<i32>,
    /// Id of the election that made the server primary (`electionId`).
    pub election_id: Option<ObjectId>,
    /// Address of the primary, as reported by this member (`primary`).
    pub primary: Option<ServerAddress>,
    /// Address of the server in its replica set configuration (`me`).
    pub me: Option<ServerAddress>,
    /// Members that can become primary (`hosts`).
    pub hosts: Vec<ServerAddress>,
    /// Members with priority 0 (`passives`).
    pub passives: Vec<ServerAddress>,
    /// Arbiters (`arbiters`).
    pub arbiters: Vec<ServerAddress>,
    /// `true` for a server started for a replica set that is not, or no longer, a member of one
    /// (`isreplicaset`).
    pub is_replica_set: bool,
    /// `true` for a secondary (`secondary`).
    pub secondary: bool,
    /// `true` for an arbiter (`arbiterOnly`).
    pub arbiter_only: bool,
    /// `true` for a member with priority 0 (`passive`).
    pub passive: bool,
    /// `true` for a hidden member (`hidden`).
    pub hidden: bool,
    /// `true` for a read-only server (`readOnly`).
    pub read_only: bool,
    /// Tags of the member (`tags`).
    pub tags: TagSet,
    /// Minimum wire version (`minWireVersion`).
    pub min_wire_version: i32,
    /// Maximum wire version (`maxWireVersion`).
    pub max_wire_version: i32,
    /// Maximum size of a document in bytes (`maxBsonObjectSize`).
    pub max_bson_object_size: Option<i32>,
    /// Maximum size of a message in bytes, capped at [`MAX_MESSAGE_SIZE_BYTES`]
    /// (`maxMessageSizeBytes`).
    pub max_message_size_bytes: Option<i32>,
    /// Maximum number of writes in one command (`maxWriteBatchSize`).
    pub max_write_batch_size: Option<i32>,
    /// Lifetime of an unused session (`logicalSessionTimeoutMinutes`).
    pub logical_session_timeout: Option<Duration>,
    /// Version of the server's state (`topologyVersion`).
    pub topology_version: Option<TopologyVersion>,
    /// Wall clock time of the server (`localTime`).
    pub local_time: Option<DateTime>,
    /// Wall clock time of the server's latest write (`lastWrite.lastWriteDate`).
    pub last_write_date: Option<DateTime>,
    /// Cluster time, to be gossiped unchanged (`$clusterTime`).
    pub cluster_time: Option<RawDocumentBuf>,
    /// Compressors that both sides support, in order of preference (`compression`).
    pub compression: Vec<String>,
    /// Authentication mechanisms of the user in the request; `None` if there was none
    /// (`saslSupportedMechs`).
    pub sasl_supported_mechs: Option<Vec<String>>,
    /// Reply to the speculative authentication (`speculativeAuthenticate`).
    pub speculative_authenticate: Option<SpeculativeReply>,
    /// Id of this connection in the server (`connectionId`).
    pub connection_id: Option<i64>,
    /// Id of the service behind a load balancer (`serviceId`).
    pub service_id: Option<ObjectId>,
    /// `true` for a mongocryptd process (`iscryptd`).
    pub iscryptd: bool,
}

/// Reply to a speculative authentication. `Debug` hides it, because it is part of the
/// authentication.
#[derive(Clone, PartialEq)]
pub struct SpeculativeReply(pub RawDocumentBuf);

impl fmt::Debug for SpeculativeReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpeculativeReply(..)")
    }
}

impl HelloReply {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// An error if the document is malformed BSON.
    pub fn parse(document: &RawDocument) -> Result<Self, MalformedHello> {
        let mut reply = Self::default();
        let mut legacy_is_primary = false;
        let mut is_primary = None;
        for element in document {
            let (key, value) = element?;
            match key.to_str() {
                "isWritablePrimary" => is_primary = value.as_bool(),
                "ismaster" => legacy_is_primary = truth(value),
                key => {
                    if !reply.read_membership(key, value) {
                        reply.read_abilities(key, value);
                    }
                }
            }
        }
        reply.is_writable_primary = is_primary.unwrap_or(legacy_is_primary);
        Ok(reply)
    }

    /// Returns the server type by the rules of server discovery and monitoring.
    pub fn server_type(&self) -> ServerType {
        if !self.ok {
            ServerType::Unknown
        } else if self.msg.as_deref() == Some("isdbgrid") {
            ServerType::Mongos
        } else if self.is_replica_set {
            ServerType::RsGhost
        } else if self.set_name.is_none() {
            ServerType::Standalone
        } else if self.hidden {
            ServerType::RsOther
        } else if self.is_writable_primary {
            ServerType::RsPrimary
        } else if self.secondary {
            ServerType::RsSecondary
        } else if self.arbiter_only {
            ServerType::RsArbiter
        } else {
            ServerType::RsOther
        }
    }

    /// Reads a field about the replica set or sharded cluster. Returns `false` for any other field.
    fn read_membership(&mut self, key: &str, value: RawBsonRef<'_>) -> bool {
        match key {
            "msg" => self.msg = text(value),
            "setName" => self.set_name = text(value),
            "setVersion" => self.set_version = int32(value),
            "electionId" => self.election_id = value.as_object_id(),
            "primary" => self.primary = address(value),
            "me" => self.me = address(value),
            "hosts" => self.hosts = addresses(value),
            "passives" => self.passives = addresses(value),
            "arbiters" => self.arbiters = addresses(value),
            "isreplicaset" => self.is_replica_set = truth(value),
            "secondary" => self.secondary = truth(value),
            "arbiterOnly" => self.arbiter_only = truth(value),
            "passive" => self.passive = truth(value),
            "hidden" => self.hidden = truth(value),
            "tags" => self.tags = tags(value),
            "topologyVersion" => self.topology_version = TopologyVersion::read(value),
            "lastWrite" => {
                self.last_write_date = field(value, "lastWriteDate", |v| v.as_datetime());
            }
            "serviceId" => self.service_id = value.as_object_id(),
            _ => return false,
        }
        true
    }

    /// Reads a field about the server's limits or the result of the command.
    fn read_abilities(&mut self, key: &str, value: RawBsonRef<'_>) {
        match key {
            "ok" => self.ok = truth(value),
            "errmsg" => self.errmsg = text(value),
            "code" => self.code = int32(value),
            "errorLabels" => self.error_labels = list(value, text),
            "helloOk" => self.hello_ok = truth(value),
            "readOnly" => self.read_only = truth(value),
            "minWireVersion" => self.min_wire_version = int32(value).unwrap_or(0),
            "maxWireVersion" => self.max_wire_version = int32(value).unwrap_or(0),
            "maxBsonObjectSize" => self.max_bson_object_size = limit(value),
            "maxMessageSizeBytes" => {
                let claimed = limit(value);
                self.max_message_size_bytes = claimed.map(|it| it.min(MAX_MESSAGE_SIZE_BYTES));
            }
            "maxWriteBatchSize" => self.max_write_batch_size = limit(value),
            "logicalSessionTimeoutMinutes" => self.logical_session_timeout = minutes(value),
            "localTime" => self.local_time = value.as_datetime(),
            "$clusterTime" => self.cluster_time = value.as_document().map(ToOwned::to_owned),
            "compression" => self.compression = list(value, text),
            "saslSupportedMechs" => {
                self.sasl_supported_mechs = value.as_array().map(|array| items(array, text));
            }
            "speculativeAuthenticate" => {
                self.speculative_authenticate =
                    value.as_document().map(|reply| SpeculativeReply(reply.to_owned()));
            }
            "connectionId" => self.connection_id = integer(value),
            "iscryptd" => self.iscryptd = truth(value),
            _ => {}
        }
    }
}

impl TopologyVersion {
    /// Parses a `topologyVersion`. Returns `None` if it is malformed.
    pub fn read(value: RawBsonRef<'_>) -> Option<Self> {
        Some(Self {
            process_id: field(value, "processId", |v| v.as_object_id())?,
            counter: field(value, "counter", integer)?,
        })
    }
}

impl ServerDescription {
    /// Creates a server description from a `hello` reply.
    ///
    /// If the command failed, the server is Unknown with the error of the reply.
    pub fn from_hello(
        address: ServerAddress,
        reply: &HelloReply,
        round_trips: &RoundTrips,
        now: Instant,
    ) -> Self {
        if !reply.ok {
            return Self::unknown_because(address, reply.failure(), now);
        }
        let defaults = Self::unknown(address);
        Self {
            server_type: reply.server_type(),
            average_round_trip_time: round_trips.average(),
            min_round_trip_time: round_trips.minimum(),
            last_update_time: Some(now),
            last_write_date: reply.last_write_date,
            min_wire_version: reply.min_wire_version,
            max_wire_version: reply.max_wire_version,
            me: reply.me.clone(),
            hosts: reply.hosts.clone(),
            passives: reply.passives.clone(),
            arbiters: reply.arbiters.clone(),
            tags: reply.tags.clone(),
            set_name: reply.set_name.clone(),
            set_version: reply.set_version,
            election_id: reply.election_id,
            primary: reply.primary.clone(),
            logical_session_timeout: reply.logical_session_timeout,
            topology_version: reply.topology_version,
            max_bson_object_size: reply
                .max_bson_object_size
                .unwrap_or(defaults.max_bson_object_size),
            max_message_size_bytes: reply
                .max_message_size_bytes
                .unwrap_or(defaults.max_message_size_bytes),
            max_write_batch_size: reply
                .max_write_batch_size
                .unwrap_or(defaults.max_write_batch_size),
            iscryptd: reply.iscryptd,
            ..defaults
        }
    }
}

impl HelloReply {
    /// Returns the error message and code of a failed `hello`.
    pub fn failure(&self) -> String {
        let message = self.errmsg.as_deref().unwrap_or("no error message");
        match self.code {
            Some(code) => format!("hello failed: {message} (code {code})"),
            None => format!("hello failed: {message}"),
        }
    }
}

/// Returns `true` for 1 of any numeric type and for `true`, as servers send `ok`.
fn truth(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(truth) => truth,
        RawBsonRef::Double(number) => number == 1.0,
        RawBsonRef::Int32(number) => number == 1,
        RawBsonRef::Int64(number) => number == 1,
        _ => false,
    }
}

/// Returns an integral value of any numeric type.
fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    /// Largest integer up to which every integer is exactly representable as a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Double(number) if number.fract() == 0.0 && number.abs() <= EXACT => {
            #[allow(clippy::cast_possible_truncation)] // whole and in range, as just checked
            Some(number as i64)
        }
        _ => None,
    }
}

fn int32(value: RawBsonRef<'_>) -> Option<i32> {
    integer(value)?.try_into().ok()
}

/// Returns a positive size limit. Any other value would make every message too large, so the
/// default applies.
fn limit(value: RawBsonRef<'_>) -> Option<i32> {
    int32(value).filter(|&limit| limit > 0)
}

fn minutes(value: RawBsonRef<'_>) -> Option<Duration> {
    let minutes: u64 = integer(value)?.try_into().ok()?;
    Some(Duration::from_secs(minutes.saturating_mul(60)))
}

fn text(value: RawBsonRef<'_>) -> Option<String> {
    value.as_str().map(ToOwned::to_owned)
}

/// Parses the host and port of a member. Ignores Unix domain sockets: only the application may
/// choose one, because TLS does not apply to them.
fn address(value: RawBsonRef<'_>) -> Option<ServerAddress> {
    let address = ServerAddress::parse(value.as_str()?).ok()?;
    matches!(address, ServerAddress::Tcp { .. }).then_some(address)
}

/// Parses a list of members, capped because each member gets a monitor.
fn addresses(value: RawBsonRef<'_>) -> Vec<ServerAddress> {
    let mut members = list(value, address);
    members.truncate(MAX_MEMBERS);
    members
}

fn field<T>(
    value: RawBsonRef<'_>,
    key: &str,
    read: impl FnOnce(RawBsonRef<'_>) -> Option<T>,
) -> Option<T> {
    value.as_document()?.get(key).ok()?.and_then(read)
}

fn list<T>(value: RawBsonRef<'_>, read: impl Fn(RawBsonRef<'_>) -> Option<T>) -> Vec<T> {
    value.as_array().map(|array| items(array, read)).unwrap_or_default()
}

fn items<T>(array: &RawArray, read: impl Fn(RawBsonRef<'_>) -> Option<T>) -> Vec<T> {
    array.into_iter().map_while(Result::ok).filter_map(read).collect()
}

fn tags(value: RawBsonRef<'_>) -> TagSet {
    let Some(document) = value.as_document() else { return TagSet::new() };
    document
        .into_iter()
        .map_while(Result::ok)
        .filter_map(|(key, value)| Some((key.to_str().to_owned(), text(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    fn parse(document: &bson::Document) -> HelloReply {
        HelloReply::parse(&RawDocumentBuf::try_from(document).unwrap()).unwrap()
    }

    #[test]
    fn every_server_type_is_recognised() {
        for (reply, kind) in [
            (doc! {"ok": 0, "setName": "rs"}, ServerType::Unknown),
            (doc! {}, ServerType::Unknown),
            (doc! {"ok": 1}, ServerType::Standalone),
            (doc! {"ok": 1.0, "msg": "isdbgrid"}, ServerType::Mongos),
            (doc! {"ok": true, "isreplicaset": true}, ServerType::RsGhost),
            (doc! {"ok": 1, "setName": "rs", "isWritablePrimary": true}, ServerType::RsPrimary),
            (doc! {"ok": 1, "setName": "rs", "ismaster": true}, ServerType::RsPrimary),
            (doc! {"ok": 1, "setName": "rs", "secondary": true}, ServerType::RsSecondary),
            (doc! {"ok": 1, "setName": "rs", "arbiterOnly": true}, ServerType::RsArbiter),
            (doc! {"ok": 1, "setName": "rs"}, ServerType::RsOther),
            (
                doc! {"ok": 1, "setName": "rs", "hidden": true, "secondary": true},
                ServerType::RsOther,
            ),
        ] {
            assert_eq!(parse(&reply).server_type(), kind, "{reply}");
        }
    }

    #[test]
    fn is_writable_primary_takes_precedence_over_ismaster() {
        let reply = doc! {"ok": 1, "setName": "rs", "isWritablePrimary": false, "ismaster": true};
        assert!(!parse(&reply).is_writable_primary);
    }

    #[test]
    fn every_hello_field_is_parsed() {
        let process_id = ObjectId::from_bytes([7; 12]);
        let reply = parse(&doc! {
            "ok": 1, "helloOk": true, "hosts": ["A:1", "b"], "tags": {"dc": "x", "n": 1},
            "setVersion": 3_i64, "me": "A:1", "primary": "b", "electionId": process_id,
            "topologyVersion": {"processId": process_id, "counter": 9_i64},
            "lastWrite": {"lastWriteDate": DateTime::from_millis(5)},
            "logicalSessionTimeoutMinutes": 30, "connectionId": 12.0, "compression": ["zlib"],
            "saslSupportedMechs": ["SCRAM-SHA-256"], "serviceId": process_id,
            "maxBsonObjectSize": 100, "maxMessageSizeBytes": 200, "maxWriteBatchSize": 300,
            "$clusterTime": {"clusterTime": 1}, "speculativeAuthenticate": {"payload": "secret"},
        });
        assert_eq!(reply.hosts[0].to_string(), "a:1");
        assert_eq!(reply.tags, TagSet::from([("dc".to_owned(), "x".to_owned())]));
        assert_eq!(reply.set_version, Some(3));
        assert_eq!(reply.topology_version.unwrap().counter, 9);
        assert_eq!(reply.last_write_date, Some(DateTime::from_millis(5)));
        assert_eq!(reply.logical_session_timeout, Some(Duration::from_secs(1800)));
        assert_eq!(reply.connection_id, Some(12));
        assert_eq!(reply.service_id, Some(process_id));
        assert_eq!(reply.compression, ["zlib"]);
        assert_eq!(reply.sasl_supported_mechs, Some(vec!["SCRAM-SHA-256".to_owned()]));
        assert!(reply.cluster_time.is_some());
        // pitfall 40: `Debug` hides the authentication.
        assert!(!format!("{reply:?}").contains("secret"));

        let address = ServerAddress::parse("a:1").unwrap();
        let server =
            ServerDescription::from_hello(address, &reply, &RoundTrips::new(), Instant::now());
        assert_eq!(
            (
                server.max_bson_object_size,
                server.max_message_size_bytes,
                server.max_write_batch_size
            ),
            (100, 200, 300)
        );
    }

    #[test]
    fn fields_of_the_wrong_type_count_as_missing() {
        let reply = parse(&doc! {
            "ok": 1, "hosts": "a", "passives": [1, "b:1", "not an address"], "setName": 5, "tags": [],
            "setVersion": 1.5, "electionId": "x", "topologyVersion": {"counter": 1},
            "maxWireVersion": i64::MAX, "maxBsonObjectSize": -1,
            "logicalSessionTimeoutMinutes": -3, "connectionId": f64::NAN,
        });
        assert_eq!(reply.passives.len(), 1);
        assert_eq!(
            HelloReply { passives: Vec::new(), ..reply },
            HelloReply { ok: true, ..HelloReply::default() }
        );
    }

    #[test]
    fn unix_sockets_count_as_missing() {
        let reply = parse(&doc! {
            "ok": 1, "hosts": ["/tmp/a.sock", "a:1", "a.sock"], "passives": ["/tmp/a.sock"],
            "arbiters": ["/tmp/a.sock"], "me": "/tmp/a.sock", "primary": "a.sock",
        });
        let hosts = vec![ServerAddress::parse("a:1").unwrap()];
        assert_eq!(reply, HelloReply { ok: true, hosts, ..HelloReply::default() });
    }

    #[test]
    fn member_lists_are_capped() {
        let hosts: Vec<_> = (1..2000).map(|port| format!("a:{port}")).collect();
        let reply = parse(&doc! { "ok": 1, "hosts": hosts });
        assert_eq!(reply.hosts.len(), 100);
        assert_eq!(reply.hosts[99].to_string(), "a:100");
    }

    #[test]
    fn message_size_is_capped() {
        for (claimed, believed) in [(i32::MAX, 48_000_000), (48_000_000, 48_000_000), (1000, 1000)]
        {
            let reply = parse(&doc! { "ok": 1, "maxMessageSizeBytes": claimed });
            assert_eq!(reply.max_message_size_bytes, Some(believed));
        }
    }

    #[test]
    fn malformed_bson_is_an_error() {
        let mut bytes = rawdoc! {"ok": 1}.into_bytes();
        bytes[4] = 0xFE; // no such type of element
        assert!(HelloReply::parse(RawDocument::from_bytes(&bytes).unwrap()).is_err());
    }
}
