//! Tests of `steadfast simulate`.

use std::{fs, path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    program::{signal, steadfast, temp_dir},
    result_of, run,
};

/// A simulation that takes a moment.
const SMALL: [&str; 5] = ["simulate", "--clients", "20", "--duration", "3s"];

fn small(more: &[&str]) -> (Option<i32>, String, String) {
    run(&[&SMALL[..], more].concat())
}

fn file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

fn count(folder: &TempDir) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn same_seed_repeats_the_table() {
    let table = |seed: &str| {
        let (status, stdout, stderr) = small(&["--seed", seed]);
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        let table: Vec<_> = stdout.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 2 + 8 * 4, "{stdout}");
        assert!(
            stdout.contains("20 clients, a server of 80 operations a second, 3 s each"),
            "{stdout}"
        );
        table.join("\n")
    };
    assert_eq!(table("7"), table("7"));
    assert_ne!(table("7"), table("8"));
}

#[test]
fn json_has_all_figures_and_svg_a_chart() {
    let folder = temp_dir();
    let picture = file(&folder, "curves.svg");
    let (status, stdout, stderr) = small(&["--json", "--svg", &picture]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["error"], Value::Null);
    assert_eq!(document["clients"], 20);
    let experiments = document["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 8 * 4);
    assert!(experiments.iter().all(|it| it["goodputShare"].is_f64()), "{stdout}");
    let svg = fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(count(&folder), 1, "without a draft");
}

#[test]
fn unusable_svg_path_is_an_error_before_the_work() {
    let folder = temp_dir();
    for (file, part) in [
        (file(&folder, "a/b.svg"), "the folder does not exist"),
        (file(&folder, ""), "not the name of a file"),
    ] {
        // The simulation would take minutes.
        let (status, stdout, stderr) = run(&["simulate", "--clients", "1000000", "--svg", &file]);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("simulate: --svg ") && stderr.contains(part), "{stderr}");
    }
    assert_eq!(count(&folder), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported_with_the_result() {
    let (status, stdout, stderr) = small(&["--json", "--svg", "/dev/full"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("steadfast simulate: /dev/full: No space left"), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert!(document["error"].as_str().unwrap().contains("/dev/full"));
    assert_eq!(document["experiments"].as_array().unwrap().len(), 32);
}

#[test]
fn interrupted_simulation_leaves_no_file() {
    let folder = temp_dir();
    let picture = file(&folder, "curves.svg");
    let mut program = steadfast(&["simulate", "--clients", "1000000", "--svg", &picture])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    wait_for_signal_handlers(program.id());
    assert!(program.try_wait().expect("a process").is_none(), "it ended by itself");
    signal(&program, "-INT");
    let (status, stdout, stderr) = result_of(&program.wait_with_output().expect("it ends"));
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(
        stderr.contains("interrupted after 0 of 32 experiments; nothing was written"),
        "{stderr}"
    );
    assert!(!Path::new(&picture).exists());
    assert_eq!(count(&folder), 0);
}

/// Waits until a process handles SIGINT, which would end it before.
fn wait_for_signal_handlers(process: u32) {
    const INTERRUPT: u64 = 1 << 1;
    let path = format!("/proc/{process}/status");
    if !Path::new("/proc/self/status").exists() {
        // Other systems do not show the handled signals: wait a second.
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
fn invalid_parameters_are_wrong_arguments() {
    for (arguments, part) in [
        (&["--clients", "0"][..], "1.."),
        (&["--share=-1"], "a number above zero"),
        (&["--share", "none"], "a number above zero"),
        (&["--shed-cost", "0"], "a number above zero"),
        (&["--duration", "0"], "--duration: must be longer than 0"),
        (&["--quick", "--clients", "5"], "cannot be used with"),
    ] {
        let (status, stdout, stderr) = run(&[&["simulate"], arguments].concat());
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}
