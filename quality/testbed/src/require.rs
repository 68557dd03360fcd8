//! Skipping of tests that need servers or tools that are not available.

use std::{
    collections::BTreeSet,
    env,
    fmt::Display,
    io::{self, Write},
    panic::Location,
    sync::{Mutex, PoisonError},
    thread,
};

/// Skips a test unless its requirement is available. The first line of a test.
///
/// The argument is a [`Version`](crate::Version) of servers, or any expression of type `Result`. Without an error the
/// macro evaluates to the value. With an error, the name of the test and the reason are printed to the standard error,
/// and the test returns. With the environment variable `CI` set, as by `.ci/run`, it panics instead.
///
/// ```no_run
/// #[test]
/// fn servers_of_8_2_start() {
///     testbed::require!(V8_2);
///     // …
/// }
///
/// #[test]
/// fn collections_are_listed() {
///     testbed::require!(testbed::shared::servers());
///     // …
/// }
///
/// #[test]
/// fn suites_are_complete() {
///     let folder = testbed::require!(testbed::spec_tests());
///     // …
/// }
/// ```
///
/// The expression starts no server: a server that does not start must fail the test. See
/// [`shared::servers`](crate::shared::servers).
#[macro_export]
macro_rules! require {
    ($version:ident) => {
        $crate::require!($crate::servers($crate::Version::$version))
    };
    ($found:expr) => {
        match $crate::found_or_skip($found) {
            Some(found) => found,
            None => return $crate::TestOutput::passed(),
        }
    };
}

/// Return type of a test: `()` or a `Result`.
pub trait TestOutput {
    /// Output of a test that passes.
    fn passed() -> Self;
}

impl TestOutput for () {
    fn passed() -> Self {}
}

impl<E> TestOutput for Result<(), E> {
    fn passed() -> Self {
        Ok(())
    }
}

/// Returns the value, or reports the test as skipped because of the error, like [`require!`](crate::require!). The test
/// returns then.
///
/// # Panics
///
/// Panics if there is an error and `CI` is set.
#[must_use = "a test returns if this is `None`"]
#[track_caller]
pub fn found_or_skip<T>(found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// Reports on standard error that a test is skipped, with its name and this reason. The test returns then. Further lines
/// of a reason are printed once.
///
/// # Panics
///
/// Panics with the reason if the environment variable `CI` is set, as by `.ci/run`.
#[track_caller]
pub fn skip(reason: impl Display) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = test_name(thread::current().name(), Location::caller());
    let mut reason = reason.to_string();
    assert!(env::var_os("CI").is_none(), "{name} cannot be skipped with CI set: {reason}");
    let is_new = PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(reason.clone());
    if let Some(end) = reason.find('\n').filter(|_| !is_new) {
        reason.truncate(end);
    }
    // Standard error is not captured, so that the line is visible although the test passes.
    let _ = io::stderr().write_all(format!("SKIPPED {name}: {reason}\n").as_bytes());
}

/// Name of the test's thread, or the caller's location if the harness runs all tests on the main thread.
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
    fn test_name_is_that_of_the_thread_or_the_location() {
        let here = Location::caller();
        assert_eq!(
            test_name(thread::current().name(), here),
            "require::tests::test_name_is_that_of_the_thread_or_the_location"
        );
        assert!(test_name(Some("main"), here).contains("require.rs:"));
        assert!(test_name(None, here).contains("require.rs:"));
    }

    #[test]
    fn require_evaluates_to_the_value() {
        fn need(found: Result<i32, &str>, value_found: &mut Option<i32>) {
            *value_found = Some(require!(found.map(|value| value + 1)));
        }
        let mut value_found = None;
        need(Ok(1), &mut value_found);
        assert_eq!(value_found, Some(2));
        let fallible = || -> Result<(), &str> {
            require!(Ok::<(), &str>(()));
            Err("it went on")
        };
        assert_eq!(fallible(), Err("it went on"));
    }
}
