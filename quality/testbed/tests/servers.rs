//! Standalone servers and replica sets: start, restart, failover, access control, and end with their parent process.
#![allow(missing_docs)]

mod unauthenticated;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use bson::doc;
#[cfg(feature = "certificates")]
use testbed::TestCa;
use testbed::{Mongod, Options, ReplicaSet, User, shared};

/// Time-out of reads and of process ends. Exceeded only by a hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn standalone_server_keeps_its_data_across_a_kill() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let things = vec![doc! { "_id": 1 }];
    let insert = doc! { "insert": "things", "documents": things, "writeConcern": { "j": true } };
    server.run_command("testbed", insert).unwrap();

    server.kill().unwrap();
    assert!(server.run_command("testbed", doc! { "ping": 1 }).is_err());

    server.restart().unwrap();
    let found = server.run_command("testbed", doc! { "find": "things" }).unwrap();
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch, &[doc! { "_id": 1 }.into()]);
}

#[test]
fn command_error_contains_the_code_name() {
    testbed::require!(V6_0);
    let error = shared::standalone().unwrap().run_command("admin", doc! { "noSuch": 1 });
    assert!(error.unwrap_err().to_string().contains("CommandNotFound"));
}

#[test]
fn test_commands_are_enabled() {
    testbed::require!(V6_0);
    let failpoint = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    shared::standalone().unwrap().run_command("admin", failpoint).unwrap();
}

/// Serialises the tests with sets of three members: elections time out on a machine that runs many of them.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn replica_set_elects_a_primary_after_a_kill_and_readmits_the_restarted_member() {
    testbed::require!(V6_0);
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(3, Options::new()).unwrap();
    let first = set.wait_for_primary().unwrap();

    set.kill(first).unwrap();
    let second = set.wait_for_primary().unwrap();
    assert_ne!(first, second);

    set.restart(first).unwrap();
    set.wait_until_complete().unwrap();
}

#[test]
fn replica_set_elects_a_primary_after_a_step_down_and_after_a_freeze() {
    testbed::require!(V6_0);
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(3, Options::new()).unwrap();
    let before = term(&set, set.wait_for_primary().unwrap());
    set.step_down().unwrap();
    let second = set.wait_for_primary().unwrap();
    // The same member may be elected again if no other member stood for election in time.
    assert!(term(&set, second) > before);

    set.freeze(second).unwrap();
    let third = set.wait_for_primary().unwrap();
    assert_ne!(second, third);
    set.thaw(second).unwrap();
    set.wait_until_complete().unwrap();
}

fn term(set: &ReplicaSet, member: usize) -> i64 {
    let status = set.run_command(member, "admin", doc! { "replSetGetStatus": 1 }).unwrap();
    status.get_i64("term").unwrap()
}

#[test]
fn members_of_a_new_set_have_a_majority_commit_point() {
    testbed::require!(V6_0);
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(3, Options::new()).unwrap();
    for member in 0..3 {
        let status = set.run_command(member, "admin", doc! { "replSetGetStatus": 1 }).unwrap();
        let optimes = status.get_document("optimes").unwrap();
        let committed = optimes.get_document("readConcernMajorityOpTime").unwrap();
        // Before the first majority commit, the term is -1 on the first member and missing on the others.
        assert!(committed.get_i64("t").unwrap() >= 1, "{member}: {status}");
    }
}

#[test]
fn error_names_a_crashed_member_with_the_end_of_its_log() {
    testbed::require!(V6_0);
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    let member = &set.members()[0];
    let mut connection = TcpStream::connect(member.address()).unwrap();
    connection.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    let pid = member.pid().to_string();
    assert!(Command::new("kill").args(["-ABRT", &pid]).status().unwrap().success());
    assert!(!is_timeout(&connection.read(&mut [0])), "the server still runs");
    let error = set.wait_until_complete().unwrap_err();
    assert!(error.to_string().contains(" has ended: "), "{error}");
    assert!(error.to_string().contains("Got signal: 6"), "{error}");
    set.restart(0).unwrap();
    set.wait_until_complete().unwrap();
}

#[test]
fn single_member_becomes_primary_again_after_a_step_down() {
    testbed::require!(V6_0);
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    assert_eq!(set.step_down().unwrap(), 0);
    assert_eq!(set.wait_for_primary().unwrap(), 0);
}

#[test]
fn secured_server_rejects_unauthenticated_commands() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new().user(User::new("ada", "secret"))).unwrap();
    let server_status = doc! { "serverStatus": 1 };
    assert!(unauthenticated::is_rejected(server.address(), server_status.clone()));
    // The testbed's own commands are authenticated, also after a restart.
    server.restart().unwrap();
    assert!(unauthenticated::is_rejected(server.address(), server_status.clone()));
    server.run_command("admin", server_status).unwrap();
}

#[cfg(feature = "certificates")]
#[test]
fn secured_set_hands_over_and_rejects_unauthenticated_commands() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let options = Options::new()
        .tls(&ca)
        .user(User::new("ada", "secret").mechanisms(&["SCRAM-SHA-1"]))
        .user(User::x509(ca.client_subject()));
    let _turn = one_at_a_time();
    let set = ReplicaSet::start(3, options).unwrap();
    let primary = set.wait_for_primary().unwrap();
    let address = set.members()[primary].address();
    assert!(unauthenticated::is_rejected(address, doc! { "listDatabases": 1 }));
    assert_ne!(set.hand_over().unwrap(), primary);
    for member in 0..3 {
        let secondary = doc! { "mode": "secondaryPreferred" };
        let users_info = doc! { "usersInfo": { "forAllDBs": true }, "$readPreference": secondary };
        let users = set.run_command(member, "admin", users_info);
        assert_eq!(users.unwrap().get_array("users").unwrap().len(), 2, "{member}");
    }
}

#[cfg(feature = "certificates")]
#[test]
fn server_with_tls_rejects_plain_connections_before_and_after_a_restart() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let server = Mongod::standalone(Options::new().tls(&ca)).unwrap();
    assert!(unauthenticated::run(server.address(), doc! { "hello": 1 }).is_err());
    server.restart().unwrap();
    assert!(unauthenticated::run(server.address(), doc! { "hello": 1 }).is_err());
}

#[test]
fn start_failure_contains_the_end_of_the_log() {
    testbed::require!(V6_0);
    let error = Mongod::standalone(Options::new().parameter("noSuchParameter=1")).unwrap_err();
    assert!(error.to_string().contains("noSuchParameter"), "{error}");
}

#[test]
fn dropped_server_ends_and_its_directory_is_removed() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let (pid, log) = (server.pid(), server.log_file());
    assert!(process_exists(pid) && log.exists());
    drop(server);
    assert!(!process_exists(pid) && !log.exists());
}

#[test]
fn servers_end_when_their_parent_is_killed() {
    testbed::require!(V6_0);
    assert_servers_end_with_their_parent(&["standalone"], |_| {});
}

#[test]
fn frozen_servers_end_when_their_parent_is_killed() {
    testbed::require!(V6_0);
    assert_servers_end_with_their_parent(&["standalone"], |pids| freeze(pids[0]));
}

/// Its servers may run as another user. One server of each kind is frozen.
#[test]
fn sharded_cluster_ends_when_its_parent_is_killed() {
    testbed::require!(V8_2);
    assert_servers_end_with_their_parent(&["sharded", "--version", "8.2"], |pids| {
        assert_eq!(pids.len(), 5);
        freeze(pids[0]);
        freeze(pids[4]);
    });
}

fn freeze(pid: u32) {
    let stopped = Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap();
    assert!(stopped.success());
}

fn assert_servers_end_with_their_parent(arguments: &[&str], before: impl Fn(&[u32])) {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_steadfast-testbed"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pids = lines.next().unwrap().unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let uri = lines.next().unwrap().unwrap();
    let address = uri.split(['/', ',']).nth(2).unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    assert!(pids.iter().all(|&pid| process_exists(pid)));
    let folders: Vec<PathBuf> = pids.iter().map(|&pid| folder_of(pid)).collect();
    assert!(folders.iter().all(|folder| folder.exists()));
    before(&pids);

    parent.kill().unwrap();
    parent.wait().unwrap();

    // The end of the server closes its connections. The end of the watchdogs closes the standard error that they inherited
    // from the killed process.
    let end = connection.read(&mut [0; 1]);
    assert!(!matches!(end, Ok(1..)) && !is_timeout(&end), "{end:?}");
    let mut errors = parent.stderr.take().unwrap();
    let (done, watchdog_ended) = mpsc::channel();
    thread::spawn(move || done.send(errors.read_to_end(&mut Vec::new())));
    watchdog_ended.recv_timeout(HANG_TIMEOUT).unwrap().unwrap();
    assert!(!pids.iter().any(|&pid| process_exists(pid)));
    assert!(!folders.iter().any(|folder| folder.exists()), "{folders:?}");
}

/// Returns the directory of a server, which contains its configuration file.
fn folder_of(pid: u32) -> PathBuf {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let mut words = line.split('\0').skip_while(|word| *word != "--config");
    Path::new(words.nth(1).unwrap()).parent().unwrap().to_owned()
}

fn is_timeout(result: &std::io::Result<usize>) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    result.as_ref().is_err_and(|error| matches!(error.kind(), TimedOut | WouldBlock))
}

fn process_exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
