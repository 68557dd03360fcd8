//! Paths of fields.

/// Returns `true` if one path is the other, or lies within it.
pub(super) fn overlaps(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(one, other) || within(other, one)
}
