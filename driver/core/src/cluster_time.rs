//! Cluster time: the logical clock of a deployment, gossiped by its clients (`$clusterTime`).

use bson::{RawDocument, RawDocumentBuf, Timestamp};

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
    fn operation_time_only_advances() {
        let (early, late) = (at(1, 2).time(), at(1, 3).time());
        assert_eq!(later_timestamp(None, early), early);
        assert_eq!(later_timestamp(Some(late), early), late);
        assert_eq!(later_timestamp(Some(early), late), late);
    }
}
