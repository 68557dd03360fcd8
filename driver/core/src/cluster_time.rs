//! Cluster time: the logical clock of a deployment, gossiped by its clients (`$clusterTime`).

use std::cmp::Ordering;

use bson::{RawDocument, RawDocumentBuf, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A `$clusterTime` document with the server's signature. Ordered by its `clusterTime` alone.
#[derive(Clone, Debug)]
pub struct ClusterTime {
    time: Timestamp,
    signed: RawDocumentBuf,
}

impl ClusterTime {
    /// Parses a `$clusterTime` document. Returns `None` if it has no `clusterTime`.
    pub fn parse(document: &RawDocument) -> Option<Self> {
        let time = document.get_timestamp("clusterTime").ok()?;
        Some(Self::new(time, document))
    }

    /// Creates a cluster time from a document whose `clusterTime` is already parsed.
    pub fn new(time: Timestamp, signed: &RawDocument) -> Self {
        Self { time, signed: signed.to_owned() }
    }

    /// Returns the document to gossip.
    pub fn document(&self) -> &RawDocumentBuf {
        &self.signed
    }

    /// Returns the `clusterTime` of the document.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns `true` if it is earlier than `time`.
    pub fn is_before(&self, time: Timestamp) -> bool {
        order(self.time) < order(time)
    }

    /// Returns `true` if it is later than `other`, or if there is no other.
    pub fn is_after(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| order(self.time) > order(other.time))
    }

    /// Returns the later of two cluster times.
    pub fn later<'a>(one: Option<&'a Self>, other: Option<&'a Self>) -> Option<&'a Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.is_after(Some(one)) { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

impl PartialEq for ClusterTime {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time
    }
}

impl Eq for ClusterTime {}

impl PartialOrd for ClusterTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClusterTime {
    fn cmp(&self, other: &Self) -> Ordering {
        order(self.time).cmp(&order(other.time))
    }
}

/// Serializes the whole `$clusterTime` document.
impl Serialize for ClusterTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.signed.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ClusterTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let signed = RawDocumentBuf::deserialize(deserializer)?;
        Self::parse(&signed).ok_or_else(|| D::Error::custom("the document has no clusterTime"))
    }
}

fn order(time: Timestamp) -> (u32, u32) {
    (time.time, time.increment)
}

/// Returns the later of two operation times.
pub fn later_timestamp(one: Option<Timestamp>, other: Timestamp) -> Timestamp {
    match one {
        Some(one) if order(one) >= order(other) => one,
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn at(time: u32, increment: u32) -> ClusterTime {
        let time = Timestamp { time, increment };
        ClusterTime::parse(&rawdoc! { "clusterTime": time, "signature": { "keyId": 1 } }).unwrap()
    }

    #[test]
    fn later_cluster_time_wins_by_seconds_first() {
        let (early, late) = (at(1, 9), at(2, 0));
        assert_eq!(ClusterTime::later(Some(&early), Some(&late)).unwrap().time(), late.time());
        assert_eq!(ClusterTime::later(Some(&late), Some(&early)).unwrap().time(), late.time());
        assert_eq!(ClusterTime::later(None, Some(&early)).unwrap().time(), early.time());
        assert!(ClusterTime::later(None, None).is_none());
        assert!(!at(2, 0).is_after(Some(&late)));
    }

    #[test]
    fn document_without_cluster_time_is_rejected() {
        assert!(ClusterTime::parse(&rawdoc! { "clusterTime": 1 }).is_none());
        assert!(ClusterTime::parse(&rawdoc! {}).is_none());
    }

    #[test]
    fn cluster_times_are_ordered_by_time_alone() {
        let unsigned =
            ClusterTime::parse(&rawdoc! { "clusterTime": Timestamp { time: 1, increment: 9 } });
        assert_eq!(unsigned.unwrap(), at(1, 9));
        assert!(at(1, 9) < at(2, 0));
    }

    #[test]
    fn cluster_time_round_trips_with_its_signature() {
        let document = bson::serialize_to_document(&at(1, 9)).unwrap();
        assert_eq!(document.get_document("signature").unwrap().get_i32("keyId").unwrap(), 1);
        let back: ClusterTime = bson::deserialize_from_document(document).unwrap();
        assert_eq!((back.document(), back.time()), (at(1, 9).document(), at(1, 9).time()));
        assert!(bson::deserialize_from_document::<ClusterTime>(bson::doc! {}).is_err());
    }

    #[test]
    fn operation_time_only_advances() {
        let (early, late) = (at(1, 2).time(), at(1, 3).time());
        assert_eq!(later_timestamp(None, early), early);
        assert_eq!(later_timestamp(Some(late), early), late);
        assert_eq!(later_timestamp(Some(early), late), late);
    }
}
