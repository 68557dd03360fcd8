//! Tests that need servers or tools which may not be there.

use std::{
    collections::BTreeSet,
    env,
    fmt::Display,
    io::{self, Write},
    panic::Location,
    sync::{Mutex, PoisonError},
    thread,
};

/// Leaves a test out unless it finds what it needs: its first line.
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
/// Servers belong into [`shared::servers`](crate::shared::servers), not into the expression: one that does not start is a
/// failure.
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

/// What a test returns: nothing, or a `Result`.
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

/// Returns the value, or leaves the test out because of the error, like [`require!`](crate::require!): the test then
/// returns.
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

/// Reports that a test is left out, with its name and this reason, on the standard error: the test then returns.
/// Further lines of a reason are printed once.
///
/// # Panics
///
/// Panics with the reason if the environment variable `CI` is set, as by `.ci/run`.
#[track_caller]
pub fn skip(reason: impl Display) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = test_name(thread::current().name(), Location::caller());
    let mut reason = reason.to_string();
    assert!(env::var_os("CI").is_none(), "{name} cannot be left out with CI set: {reason}");
    let is_new = PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(reason.clone());
    if let Some(end) = reason.find('\n').filter(|_| !is_new) {
        reason.truncate(end);
    }
    // Not captured, so that it is seen although the test passes. If it cannot be written, nothing can be done.
    let _ = io::stderr().write_all(format!("SKIPPED {name}: {reason}\n").as_bytes());
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

    #[test]
    fn a_test_that_finds_what_it_needs_goes_on_with_it() {
        fn need(found: Result<i32, &str>, went_on: &mut Option<i32>) {
            *went_on = Some(require!(found.map(|value| value + 1)));
        }
        let mut went_on = None;
        need(Ok(1), &mut went_on);
        assert_eq!(went_on, Some(2));
        let fallible = || -> Result<(), &str> {
            require!(Ok::<(), &str>(()));
            Err("it went on")
        };
        assert_eq!(fallible(), Err("it went on"));
    }
}
