//! A server process on loopback: started, killed, frozen and started again.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Options, Result, TestbedError,
    account::Account,
    binaries::Program,
    cache, folders,
    ports::{ReservedPort, free_ports},
    watchdog::Watchdog,
};

/// Bound on the start of a server on a busy machine. A start takes about half a second.
const START_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest path of a Unix socket is 107 bytes on Linux, 103 on macOS.
const MAX_SOCKET_PATH_BYTES: usize = 103;
/// Key that the members of a deployment authenticate to each other with.
const KEY: &str = "c3RlYWRmYXN0IHRlc3QgYmVkIGtleQ==";

/// A `mongod` or `mongos` process with its directory, restartable on the same port and data.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    address: SocketAddr,
    folder: PathBuf,
    account: Option<Account>,
    running: Mutex<Running>,
    _port: ReservedPort,
}

#[derive(Debug)]
struct Running {
    watchdog: Watchdog,
    pid: u32,
    /// Length of the log before this start: earlier ones have written to the same file.
    log_start: u64,
}

/// Kind of server that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Standalone,
    Member,
    Mongos,
}

impl ServerProcess {
    /// Starts a program on a free port, with these arguments in addition to those that all servers get.
    pub(crate) fn start(
        program: &Program,
        mut arguments: impl FnMut(&Path) -> Vec<String>,
    ) -> Result<Self> {
        let mut last = TestbedError::new("no free port was found");
        for port in free_ports().take(5) {
            let folder = new_folder(port.number(), program.account)?;
            let mut command_line = command_line(&program.path, &folder, port.number());
            command_line.extend(arguments(&folder));
            let watchdog = Watchdog::over(&folder, program, &command_line)?;
            let server = Self {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port.number())),
                folder,
                account: program.account,
                running: Mutex::new(Running { watchdog, pid: 0, log_start: 0 }),
                _port: port,
            };
            match server.restart() {
                Ok(()) => return Ok(server),
                // Another program may have bound the port since it was chosen.
                Err(error) => last = error,
            }
            if !last.to_string().to_lowercase().contains("address already in use") {
                break;
            }
        }
        Err(last)
    }

    /// Restarts the server with authentication and TLS as the options have it.
    pub(crate) fn secure(&self, options: &Options, kind: ServerKind) -> Result<()> {
        let configuration = self.security_configuration(options, kind)?;
        self.write_file("secured.yaml", configuration.as_bytes())?;
        self.running().watchdog.secure()?;
        self.restart()
    }

    /// The part of the configuration file that secures a server. Members authenticate to each other with a
    /// key file.
    fn security_configuration(&self, options: &Options, kind: ServerKind) -> Result<String> {
        let mut lines = Vec::new();
        if options.auth {
            lines.push("security:".to_owned());
            if kind != ServerKind::Mongos {
                lines.push("  authorization: enabled".to_owned());
            }
            if kind != ServerKind::Standalone {
                let key_file = self.write_file("set.key", KEY.as_bytes())?;
                lines.push(format!("  keyFile: {key_file:?}"));
            }
        }
        if let Some(tls) = &options.tls {
            let mode = if kind == ServerKind::Standalone { "requireTLS" } else { "preferTLS" };
            lines.push(format!("net:\n  tls:\n    mode: {mode}"));
            let ca = self.copy_file(&tls.ca_file, "ca.pem")?;
            lines.push(format!("    CAFile: {ca:?}"));
            let certificate = self.copy_file(&tls.certificate_key_file, "server.pem")?;
            lines.push(format!("    certificateKeyFile: {certificate:?}"));
            lines.push("    allowConnectionsWithoutCertificates: true".to_owned());
        }
        Ok(lines.join("\n") + "\n")
    }

    fn copy_file(&self, from: &Path, name: &str) -> Result<PathBuf> {
        let content = fs::read(from).map_err(|error| TestbedError::at(from, &error))?;
        self.write_file(name, &content)
    }

    /// Writes a file that the server alone can read: it rejects a key file that others can.
    fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.folder.join(name);
        fs::write(&file, content)
            .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)))
            .map_err(|error| TestbedError::at(&file, &error))?;
        if let Some(account) = self.account {
            account.own(&file)?;
        }
        Ok(file)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn unix_socket(&self) -> Option<PathBuf> {
        socket_path(&self.folder, self.address.port())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running().pid
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.join("output.log")
    }

    pub(crate) fn kill(&self) -> Result<()> {
        self.running().watchdog.kill()
    }

    pub(crate) fn restart(&self) -> Result<()> {
        let mut running = self.running();
        running.watchdog.kill()?;
        running.log_start = fs::metadata(self.log_file()).map_or(0, |log| log.len());
        running.pid = running.watchdog.start()?;
        self.wait_until_listening(&running)
    }

    pub(crate) fn freeze(&self) -> Result<()> {
        self.running().watchdog.freeze()
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.running().watchdog.thaw()
    }

    /// Fatal message in the log of a server that ended by itself; none if it runs or was killed.
    pub(crate) fn fatal_message(&self) -> Option<String> {
        let (pid, log_start) = {
            let running = self.running();
            (running.pid, running.log_start)
        };
        let log = has_exited(pid).then(|| log_after(&self.log_file(), log_start))?;
        let fatal = log.lines().find(|line| line.contains(r#""s":"F""#));
        Some(fatal.unwrap_or("without a fatal message in its log").to_owned())
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // A test that panicked while it held a server must not fail the others.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the message in the server's log: a connection alone would not show that it is this server
    /// which listens on the port.
    fn wait_until_listening(&self, running: &Running) -> Result<()> {
        let (pid, seen) = (running.pid, running.log_start);
        let started = Instant::now();
        loop {
            let log = log_after(&self.log_file(), seen);
            if log.to_lowercase().contains("waiting for connections") {
                return Ok(());
            }
            let timed_out = started.elapsed() > START_TIMEOUT;
            if timed_out || has_exited(pid) {
                let what = if timed_out { "does not listen" } else { "ended at once" };
                // Read again: the last lines say why it ended.
                let log = log_after(&self.log_file(), seen);
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                let error = TestbedError::new(format!("the server {what}"));
                return Err(match tail.is_empty() {
                    true => error.because("it has written nothing; is it a MongoDB server?"),
                    false => error.because(format!("its log ends:\n{tail}")),
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn command_line(binary: &Path, folder: &Path, port: u16) -> Vec<String> {
    let mut line = vec![path_text(binary), "--port".to_owned(), port.to_string()];
    match socket_path(folder, port) {
        Some(_) => line.extend(["--unixSocketPrefix".to_owned(), path_text(folder)]),
        None => line.push("--nounixsocket".to_owned()),
    }
    let rest = "--bind_ip 127.0.0.1 --setParameter enableTestCommands=1 \
                --setParameter diagnosticDataCollectionEnabled=false";
    line.extend(rest.split_whitespace().map(str::to_owned));
    line
}

pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn socket_path(folder: &Path, port: u16) -> Option<PathBuf> {
    let path = folder.join(format!("mongodb-{port}.sock"));
    (path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES).then_some(path)
}

fn log_after(file: &Path, seen: u64) -> String {
    let content = fs::read(file).unwrap_or_default();
    let seen = usize::try_from(seen).unwrap_or(usize::MAX).min(content.len());
    String::from_utf8_lossy(&content[seen..]).into_owned()
}

/// Returns true if the process is a zombie, which only its watchdog can reap. Where there is no `/proc`,
/// it returns false, and a start that fails takes its whole time-out.
fn has_exited(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state == Some('Z')
}

/// Makes an empty directory for a server, which the server's user owns.
fn new_folder(port: u16, account: Option<Account>) -> Result<PathBuf> {
    let name = format!("{}-{port}", std::process::id());
    let folder = match account {
        None => folders::folder("run")?.join(name),
        Some(account) => folder_for(account)?.join(format!("steadfast-{name}")),
    };
    // In a new container, processes have the ids of former ones, which may have left data.
    cache::empty(&folder)?;
    if let Some(account) = account {
        account.own(&folder)?;
    }
    Ok(folder)
}

/// A directory that the user can enter, and in which it may remove what it owns.
fn folder_for(account: Account) -> Result<PathBuf> {
    let own = folders::folder("run-unprivileged")?;
    if account.can_enter(&own) {
        account.own(&own)?;
        return Ok(own);
    }
    let temporary = env::temp_dir();
    if account.can_enter(&temporary) {
        return Ok(temporary);
    }
    Err(TestbedError::new("there is no directory for the data of servers that run as user nobody")
        .because(format!("it can enter neither {} nor {}", own.display(), temporary.display()))
        .advise("set CARGO_TARGET_DIR or TMPDIR to a directory that every user can enter"))
}
