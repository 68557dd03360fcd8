//! Position of bounds of keys relative to the range of a datacenter.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::layout::Layout;

/// Position of a bound relative to the range of a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BoundPosition {
    Before,
    /// The start of the range.
    Start,
    Inside,
    /// The end of the range.
    End,
    After,
}

/// Returns the position of a bound relative to the range of a datacenter.
pub(super) fn position(layout: &Layout, bound: &Document, datacenter: &str) -> BoundPosition {
    let mut values = layout.shard_key().iter().map(|field| {
        // As the server fills bounds that are prefixes of a key.
        bound.get(field).unwrap_or(&Bson::MinKey)
    });
    match values.next().map_or(Ordering::Less, |first| compare(first, datacenter)) {
        Ordering::Less => BoundPosition::Before,
        Ordering::Greater => BoundPosition::After,
        Ordering::Equal if values.clone().all(|value| *value == Bson::MinKey) => {
            BoundPosition::Start
        }
        Ordering::Equal if values.all(|value| *value == Bson::MaxKey) => BoundPosition::End,
        Ordering::Equal => BoundPosition::Inside,
    }
}

/// Returns `true` if the keys from `min` up to `max` include keys of a datacenter.
pub(super) fn overlaps(layout: &Layout, min: &Document, max: &Document, datacenter: &str) -> bool {
    position(layout, min, datacenter) < BoundPosition::End
        && position(layout, max, datacenter) > BoundPosition::Start
}

/// Returns `true` if the keys are those of a datacenter.
pub(super) fn is_range_of(
    layout: &Layout,
    min: &Document,
    max: &Document,
    datacenter: &str,
) -> bool {
    position(layout, min, datacenter) == BoundPosition::Start
        && position(layout, max, datacenter) == BoundPosition::End
}

/// Returns `true` if a bound has the fields of the shard key, in order.
pub(super) fn has_fields_of_key(layout: &Layout, bound: &Document) -> bool {
    bound.keys().eq(layout.shard_key())
}

/// Compares a value with a string, in the server's order of types.
fn compare(value: &Bson, text: &str) -> Ordering {
    match value {
        Bson::String(value) | Bson::Symbol(value) => value.as_str().cmp(text),
        Bson::MinKey
        | Bson::Undefined
        | Bson::Null
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Double(_)
        | Bson::Decimal128(_) => Ordering::Less,
        Bson::Document(_)
        | Bson::Array(_)
        | Bson::Binary(_)
        | Bson::ObjectId(_)
        | Bson::Boolean(_)
        | Bson::DateTime(_)
        | Bson::Timestamp(_)
        | Bson::RegularExpression(_)
        | Bson::DbPointer(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::MaxKey => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn layout() -> Layout {
        Layout::new("app.m", ["dc", "user"], [("bravo", ["s"])]).unwrap()
    }

    #[test]
    fn a_bound_lies_before_in_or_after_a_datacenter() {
        let at =
            |dc: Bson, user: Bson| position(&layout(), &doc! { "dc": dc, "user": user }, "bravo");
        assert_eq!(at(Bson::MinKey, Bson::MinKey), BoundPosition::Before);
        assert_eq!(at(7.into(), Bson::MaxKey), BoundPosition::Before);
        assert_eq!(at("alfa".into(), Bson::MaxKey), BoundPosition::Before);
        assert_eq!(at("bravo".into(), Bson::MinKey), BoundPosition::Start);
        assert_eq!(at("bravo".into(), 5.into()), BoundPosition::Inside);
        assert_eq!(at("bravo".into(), Bson::MaxKey), BoundPosition::End);
        assert_eq!(at("bravo2".into(), Bson::MinKey), BoundPosition::After);
        assert_eq!(at(true.into(), Bson::MinKey), BoundPosition::After);
        assert_eq!(at(Bson::MaxKey, Bson::MaxKey), BoundPosition::After);
        assert_eq!(position(&layout(), &doc! { "dc": "bravo" }, "bravo"), BoundPosition::Start);
    }

    #[test]
    fn adjacent_ranges_do_not_overlap() {
        let layout = layout();
        let (min, max) = (layout.min("bravo"), layout.max("bravo"));
        let least = doc! { "dc": Bson::MinKey, "user": Bson::MinKey };
        let inside = doc! { "dc": "bravo", "user": 3 };
        assert!(!overlaps(&layout, &least, &min, "bravo"));
        assert!(!overlaps(&layout, &max, &doc! { "dc": Bson::MaxKey }, "bravo"));
        assert!(overlaps(&layout, &least, &inside, "bravo"));
        assert!(overlaps(&layout, &inside, &max, "bravo"));
        assert!(overlaps(&layout, &least, &doc! { "dc": Bson::MaxKey }, "bravo"));
        assert!(is_range_of(&layout, &min, &max, "bravo"));
        assert!(!is_range_of(&layout, &inside, &max, "bravo"));
    }
}
