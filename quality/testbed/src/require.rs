//! Tests that need servers or tools which may not be there.

use std::{
    env,
    fmt::Display,
    io::{self, Write},
    panic::Location,
    thread,
};

use crate::{Version, missing};

/// Returns true if servers of this version can be started here, and fetches them if needed.
///
/// If they cannot, the name of the test and the reason are printed to the standard error, and it returns false:
/// the test then returns. With the environment variable `CI` set, as by `.ci/run`, it panics instead.
///
/// ```no_run
/// # use testbed::Version;
/// #[test]
/// fn servers_of_8_2_start() {
///     if !testbed::require(Version::V8_2) {
///         return;
///     }
///     // …
/// }
/// ```
///
/// # Panics
///
/// Panics if the servers cannot be started and `CI` is set.
#[must_use = "a test returns if this is false"]
#[track_caller]
pub fn require(version: Version) -> bool {
    match missing(version) {
        None => true,
        Some(error) => {
            skip(format!("MongoDB {version} is not available: {error}"));
            false
        }
    }
}

/// Reports that a test is left out, with its name and this reason, on the standard error: the test then returns.
///
/// # Panics
///
/// Panics with the reason if the environment variable `CI` is set, as by `.ci/run`.
#[track_caller]
pub fn skip(reason: impl Display) {
    let name = test_name(thread::current().name(), Location::caller());
    assert!(env::var_os("CI").is_none(), "{name} cannot be left out with CI set: {reason}");
    // Not captured, so that it is seen although the test passes. If it cannot be written, nothing can be done.
    let _ = writeln!(io::stderr(), "SKIPPED {name}: {reason}");
}

/// Tests run on threads that are named after them, except when there is only one thread.
fn test_name(thread: Option<&str>, caller: &Location<'_>) -> String {
    match thread {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_thread_or_by_its_place() {
        let here = Location::caller();
        assert_eq!(
            test_name(thread::current().name(), here),
            "require::tests::a_test_is_named_by_its_thread_or_by_its_place"
        );
        assert!(test_name(Some("main"), here).contains("require.rs:"));
        assert!(test_name(None, here).contains("require.rs:"));
    }
}
