//! The report's file: written as a whole or not at all, and what goes wrong with it.

use std::{fs, process::Command};

use crate::{
    ground::{Chaos, Folder, chaos},
    program::steadfast,
};

const SHORT: [&str; 6] = ["--duration", "4s", "--faults", "cuts", "--report", ""];

/// A short run with a report there.
fn short(path: &str) -> Chaos {
    let mut arguments = SHORT;
    arguments[5] = path;
    chaos(&arguments)
}

#[test]
fn a_report_is_a_page_and_replaces_an_older_one() {
    let folder = Folder::new("whole");
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
fn a_place_that_cannot_be_written_to_is_refused_before_the_run() {
    let folder = Folder::new("refused");
    let file = folder.path("file");
    fs::write(&file, "").expect("it is written");
    for (path, why) in [
        (folder.path("missing/chaos.html"), "the folder is not there"),
        (folder.path(""), "names no file"),
        (folder.path("."), "that is a folder"),
        (format!("{file}/chaos.html"), "Not a directory"),
        (folder.path("new/"), "names no file"),
        (folder.path(&"x".repeat(300)), "too long"),
        ("-".to_owned(), "it is written to a file"),
    ] {
        let said = short(&path).said();
        assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{path}: {said}");
        assert!(said.notes.contains("--report") && said.notes.contains(why), "{path}: {said}");
        assert_eq!(said.notes.lines().count(), 1, "nothing was begun: {said}");
    }
    assert_eq!(folder.files(), ["file"]);
}

#[test]
fn if_the_disk_is_full_the_verdict_is_still_told() {
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
fn if_writing_fails_midway_the_older_report_is_still_there_and_nothing_else() {
    let folder = Folder::new("midway");
    let path = folder.path("chaos.html");
    fs::write(&path, "an older one").expect("it is written");
    // A shell that lets no file grow beyond a few blocks, of which a signal tells that ends who does not expect it.
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
    assert!(said.notes.contains("the file that was there before is as it was"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "an older one");
    assert_eq!(folder.files(), ["chaos.html"]);
}
