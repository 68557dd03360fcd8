//! File of the report: it is written completely or not at all, and errors are reported.

use std::{fs, process::Command};

use crate::{
    program::steadfast,
    support::{Chaos, ReportFolder, chaos},
};

const SHORT: [&str; 6] = ["--duration", "4s", "--faults", "cuts", "--report", ""];

/// A short run with a report.
fn short(path: &str) -> Chaos {
    let mut arguments = SHORT;
    arguments[5] = path;
    chaos(&arguments)
}

#[test]
fn report_is_a_page_and_replaces_an_older_one() {
    let folder = ReportFolder::new();
    let path = folder.path("chaos.html");
    fs::write(&path, "an older one").expect("it is written");
    let output = short(&path).output();
    assert_eq!(output.status, Some(0), "{output}");
    let page = fs::read_to_string(&path).expect("text");
    assert!(page.trim_start().to_lowercase().starts_with("<!doctype html>"), "{page}");
    assert!(page.trim_end().ends_with("</html>"), "all of it");
    assert_eq!(folder.files(), ["chaos.html"]);
    assert!(
        output.stdout.contains(&format!("report      {path}")[..100.min(12 + path.len())]),
        "{output}"
    );
}

#[test]
fn unusable_report_path_is_an_error_before_the_run() {
    let folder = ReportFolder::new();
    let file = folder.path("file");
    fs::write(&file, "").expect("it is written");
    for (path, why) in [
        (folder.path("missing/chaos.html"), "the folder does not exist"),
        (folder.path(""), "not the name of a file"),
        (folder.path("."), "this is a folder"),
        (format!("{file}/chaos.html"), "Not a directory"),
        (folder.path("new/"), "not the name of a file"),
        (folder.path(&"x".repeat(300)), "too long"),
        ("-".to_owned(), "write it to a file"),
    ] {
        let output = short(&path).output();
        assert_eq!((output.status, output.stdout.as_str()), (Some(2), ""), "{path}: {output}");
        assert!(
            output.stderr.contains("--report") && output.stderr.contains(why),
            "{path}: {output}"
        );
        assert_eq!(output.stderr.lines().count(), 1, "nothing was begun: {output}");
    }
    assert_eq!(folder.files(), ["file"]);
}

#[test]
fn verdict_is_printed_if_the_disk_is_full() {
    let output = short("/dev/full").output();
    assert_eq!(output.status, Some(1), "{output}");
    assert!(
        output.stdout.starts_with("0 duplicated   0 lost   0 wrongly labelled   0 torn\n"),
        "{output}"
    );
    assert!(!output.stdout.contains("\nreport "), "{output}");
    let why =
        "steadfast chaos: the report could not be written to /dev/full: No space left on device";
    assert!(output.stderr.contains(why), "{output}");
}

#[test]
fn failed_write_leaves_the_older_report_only() {
    let folder = ReportFolder::new();
    let path = folder.path("chaos.html");
    fs::write(&path, "an older one").expect("it is written");
    // A shell limits the file size to a few blocks; a write beyond it raises SIGXFSZ, which ends a process by default.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 4; exec \"$@\"", "sh"]);
    limited.arg(steadfast(&[]).get_program()).arg("chaos").arg("--json");
    let mut arguments = SHORT;
    arguments[5] = &path;
    limited.args(arguments);
    let output = Chaos(limited).output();
    assert_eq!(output.status, Some(1), "{output}");
    assert_eq!(output.document()["report"], serde_json::Value::Null);
    assert_eq!(output.document()["verdict"]["clean"], true);
    assert!(output.stderr.contains("the report could not be written to "), "{output}");
    assert!(output.stderr.contains("the existing file is unchanged"), "{output}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "an older one");
    assert_eq!(folder.files(), ["chaos.html"]);
}
