//! File of the report: it is written completely or not at all, and errors are reported.

use std::{fs, process::Command};

use crate::{
    program::steadfast,
    support::{Chaos, Folder, chaos},
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
    let folder = Folder::new();
    let path = folder.path("chaos.html");
    fs::write(&path, "an older one").expect("it is written");
    let said = short(&path).said();
    assert_eq!(said.status, Some(0), "{said}");
    let page = fs::read_to_string(&path).expect("text");
    assert!(page.trim_start().to_lowercase().starts_with("<!doctype html>"), "{page}");
    assert!(page.trim_end().ends_with("</html>"), "all of it");
    assert_eq!(folder.files(), ["chaos.html"]);
    assert!(
        said.out.contains(&format!("report      {path}")[..100.min(12 + path.len())]),
        "{said}"
    );
}

#[test]
fn unusable_report_path_is_an_error_before_the_run() {
    let folder = Folder::new();
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
        let said = short(&path).said();
        assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{path}: {said}");
        assert!(said.notes.contains("--report") && said.notes.contains(why), "{path}: {said}");
        assert_eq!(said.notes.lines().count(), 1, "nothing was begun: {said}");
    }
    assert_eq!(folder.files(), ["file"]);
}

#[test]
fn verdict_is_printed_if_the_disk_is_full() {
    let said = short("/dev/full").said();
    assert_eq!(said.status, Some(1), "{said}");
    assert!(
        said.out.starts_with("0 duplicated   0 lost   0 wrongly labelled   0 torn\n"),
        "{said}"
    );
    assert!(!said.out.contains("\nreport "), "{said}");
    let why =
        "steadfast chaos: the report could not be written to /dev/full: No space left on device";
    assert!(said.notes.contains(why), "{said}");
}

#[test]
fn failed_write_leaves_the_older_report_only() {
    let folder = Folder::new();
    let path = folder.path("chaos.html");
    fs::write(&path, "an older one").expect("it is written");
    // A shell limits the file size to a few blocks; a write beyond it raises SIGXFSZ, which ends a process by default.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 4; exec \"$@\"", "sh"]);
    limited.arg(steadfast(&[]).get_program()).arg("chaos").arg("--json");
    let mut arguments = SHORT;
    arguments[5] = &path;
    limited.args(arguments);
    let said = Chaos(limited).said();
    assert_eq!(said.status, Some(1), "{said}");
    assert_eq!(said.document()["report"], serde_json::Value::Null);
    assert_eq!(said.document()["verdict"]["clean"], true);
    assert!(said.notes.contains("the report could not be written to "), "{said}");
    assert!(said.notes.contains("the existing file is unchanged"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "an older one");
    assert_eq!(folder.files(), ["chaos.html"]);
}
