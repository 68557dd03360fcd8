//! Arguments that cannot be.

use crate::support::chaos;

#[test]
fn wrong_arguments_are_refused_before_anything_is_done_and_say_what_is_right() {
    let foreign = ["--uri", "mongodb://localhost:1"];
    for (arguments, why) in [
        (&["--tasks", "0"][..], "0 is not in 1..=256"),
        (&["--tasks", "257"], "257 is not in 1..=256"),
        (&["--rate", "0"], "0 is not in 1..=5000"),
        (&["--duration", "999ms"], "it is from 1s to 1d"),
        (&["--duration", "25h"], "it is from 1s to 1d"),
        (&["--duration", "5"], "a unit is missing"),
        (&["--timeout", "99ms"], "it is from 100ms to 1h"),
        (&["--rate", "5000", "--duration", "1h"], "18000000 operations are too many"),
        (
            &["--strategy", "hope"],
            "dont-retry, always-retry, retry-once, idempotent, retryable-writes",
        ),
        (
            &["--faults", "rain"],
            "cuts, slow, freeze, step-down, kill, overload, drops, migrate, all, none",
        ),
        (
            &["--faults", ""],
            "cuts, slow, freeze, step-down, kill, overload, drops, migrate, all, none",
        ),
        (&["--faults", "none,cuts"], "none goes with no other"),
        (&["--workload", "reads"], "increments, inserts, updates, deletes, find-and-modify, bulk"),
        (&["--keep"], "--keep is for a deployment of yours (--uri)"),
        (&["--database", "mine"], "--database is for a deployment of yours (--uri)"),
        (&["--mongod", "--embedded"], "cannot be used with"),
        (&["--sharded"], "--mongod"),
        (&["--mongod", "--faults", "migrate"], "migrate is for --mongod --sharded"),
        (&[&foreign[..], &["--mongod"]].concat(), "cannot be used with"),
        (
            &[&foreign[..], &["--database", "admin"]].concat(),
            "a database of the servers themselves",
        ),
        (&[&foreign[..], &["--database", "a.b"]].concat(), "1 to 63 bytes"),
        (&[&foreign[..], &["--faults", "kill"]].concat(), "kill"),
        (&["--uri", "localhost:27017"], "begins with mongodb:// or mongodb+srv://"),
        (&["--uri", "mongodb://"], "--uri: "),
    ] {
        let said = chaos(arguments).said();
        assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said}");
        assert!(said.notes.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_password_is_not_shown_by_refusals() {
    let with_secret = "mongodb://root:secret@127.0.0.1:1/?serverSelectionTimeoutMS=100";
    for arguments in [
        &["--uri", "root:secret@localhost"][..],
        &["--uri", with_secret, "--mongod"],
        &["--uri", with_secret, "--faults", "kill"],
        &["--uri", with_secret],
    ] {
        let said = chaos(arguments).said();
        assert!(said.status != Some(0) && !said.notes.contains("secret"), "{said}");
    }
}

#[test]
fn the_help_teaches() {
    let said = chaos(&["--help"]).said();
    assert_eq!(said.status, Some(0));
    for word in [
        "Examples:",
        "How it is counted",
        "Exit status:",
        "Ctrl-C",
        "retryable-writes",
        "step-down",
    ] {
        assert!(said.out.contains(word), "{word} is missing: {said}");
    }
}
