//! Tests that need a tool which may not be installed.

/// Reports that a test is skipped for want of a tool. With `CI` set, as by `.ci/run`, the test fails instead.
#[allow(clippy::print_stderr)]
#[track_caller]
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "a tool is missing that this test needs: {why}");
    eprintln!("SKIPPED: {why}, so that this test shows nothing");
}
