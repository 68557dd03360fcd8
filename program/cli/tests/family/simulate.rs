//! `steadfast simulate` as its users meet it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;

use crate::{
    program::{signal, steadfast},
    run, said,
};

/// As little as can be simulated in a moment.
const SMALL: [&str; 5] = ["simulate", "--clients", "20", "--duration", "3s"];

fn small(more: &[&str]) -> (Option<i32>, String, String) {
    run(&[&SMALL[..], more].concat())
}

/// A folder that is gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("steadfast-{name}-{}", std::process::id()));
        // A process that had the same number may have left it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_seed_gives_the_same_table_and_another_another() {
    let table = |seed: &str| {
        let (status, out, notes) = small(&["--seed", seed]);
        assert_eq!((status, notes.as_str()), (Some(0), ""));
        let table: Vec<_> = out.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 2 + 8 * 4, "{out}");
        assert!(out.contains("20 clients, a server of 80 operations a second, 3 s each"), "{out}");
        table.join("\n")
    };
    assert_eq!(table("7"), table("7"));
    assert_ne!(table("7"), table("8"));
}

#[test]
fn programs_get_all_numbers_and_people_a_picture() {
    let folder = Folder::new("simulate");
    let picture = folder.file("curves.svg");
    let (status, out, notes) = small(&["--json", "--svg", &picture]);
    assert_eq!((status, notes.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["error"], Value::Null);
    assert_eq!(document["clients"], 20);
    let experiments = document["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 8 * 4);
    assert!(experiments.iter().all(|it| it["goodputShare"].is_f64()), "{out}");
    let svg = fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(folder.count(), 1, "and no draft of it");
}

#[test]
fn where_no_picture_can_be_is_said_before_the_work() {
    let folder = Folder::new("no-picture");
    for (file, part) in
        [(folder.file("a/b.svg"), "the folder is not there"), (folder.file(""), "names no file")]
    {
        // It would take minutes.
        let (status, out, notes) = run(&["simulate", "--clients", "1000000", "--svg", &file]);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{notes}");
        assert!(notes.contains("simulate: --svg ") && notes.contains(part), "{notes}");
    }
    assert_eq!(folder.count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_with_the_result() {
    let (status, out, notes) = small(&["--json", "--svg", "/dev/full"]);
    assert_eq!(status, Some(1));
    assert!(notes.contains("steadfast simulate: /dev/full: No space left"), "{notes}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert!(document["error"].as_str().unwrap().contains("/dev/full"));
    assert_eq!(document["experiments"].as_array().unwrap().len(), 32);
}

#[test]
fn it_can_be_interrupted_and_leaves_nothing_behind() {
    let folder = Folder::new("interrupted");
    let picture = folder.file("curves.svg");
    let mut program = steadfast(&["simulate", "--clients", "1000000", "--svg", &picture])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    until_it_takes_signals(program.id());
    assert!(program.try_wait().expect("a process").is_none(), "it ended by itself");
    signal(&program, "-INT");
    let (status, out, notes) = said(&program.wait_with_output().expect("it ends"));
    assert_eq!((status, out.as_str()), (Some(1), ""), "{notes}");
    assert!(
        notes.contains("interrupted after 0 of 32 experiments; nothing was written"),
        "{notes}"
    );
    assert!(!Path::new(&picture).exists());
    assert_eq!(folder.count(), 0);
}

/// Before a process has asked for a signal, that would just end it.
fn until_it_takes_signals(process: u32) {
    const INTERRUPT: u64 = 1 << 1;
    let path = format!("/proc/{process}/status");
    if !Path::new("/proc/self/status").exists() {
        // Where this cannot be seen, it has a second.
        return std::thread::sleep(Duration::from_secs(1));
    }
    loop {
        let status = fs::read_to_string(&path).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|mask| mask & INTERRUPT != 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    for (arguments, part) in [
        (&["--clients", "0"][..], "1.."),
        (&["--share=-1"], "a number above zero"),
        (&["--share", "none"], "a number above zero"),
        (&["--shed-cost", "0"], "a number above zero"),
        (&["--duration", "0"], "--duration: it needs some time"),
        (&["--quick", "--clients", "5"], "cannot be used with"),
    ] {
        let (status, out, notes) = run(&[&["simulate"], arguments].concat());
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?}: {notes}");
        assert!(notes.contains(part), "{arguments:?}: {notes}");
    }
}
