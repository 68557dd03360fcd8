//! The cluster time: a deployment's own clock, carried from server to server by its clients.

use bson::{RawDocument, RawDocumentBuf, Timestamp};

/// A cluster time as a server signed it. Compared by its time alone.
#[derive(Clone, Debug)]
pub struct ClusterTime {
    time: Timestamp,
    signed: RawDocumentBuf,
}

impl ClusterTime {
    /// Reads a `$clusterTime`; none if it has no time in it.
    pub fn parse(document: &RawDocument) -> Option<Self> {
        let time = document.get_timestamp("clusterTime").ok()?;
        Some(Self::new(time, document))
    }

    /// The same for who has read already which time it is.
    pub fn new(time: Timestamp, signed: &RawDocument) -> Self {
        Self { time, signed: signed.to_owned() }
    }

    /// The document to send on.
    pub fn document(&self) -> &RawDocumentBuf {
        &self.signed
    }

    /// The time itself.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether it is earlier than this time.
    pub fn is_before(&self, time: Timestamp) -> bool {
        order(self.time) < order(time)
    }

    /// Whether it is later than the other, if there is another.
    pub fn is_after(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| order(self.time) > order(other.time))
    }

    /// The later of two.
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

/// The later of two operation times.
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
    fn the_later_time_wins_by_seconds_first() {
        let (early, late) = (at(1, 9), at(2, 0));
        assert_eq!(ClusterTime::later(Some(&early), Some(&late)).unwrap().time(), late.time());
        assert_eq!(ClusterTime::later(Some(&late), Some(&early)).unwrap().time(), late.time());
        assert_eq!(ClusterTime::later(None, Some(&early)).unwrap().time(), early.time());
        assert!(ClusterTime::later(None, None).is_none());
        assert!(!at(2, 0).is_after(Some(&late)));
    }

    #[test]
    fn what_has_no_time_is_no_cluster_time() {
        assert!(ClusterTime::parse(&rawdoc! { "clusterTime": 1 }).is_none());
        assert!(ClusterTime::parse(&rawdoc! {}).is_none());
    }

    #[test]
    fn operation_times_only_advance() {
        let (early, late) = (at(1, 2).time(), at(1, 3).time());
        assert_eq!(later_timestamp(None, early), early);
        assert_eq!(later_timestamp(Some(late), early), late);
        assert_eq!(later_timestamp(Some(early), late), late);
    }
}
