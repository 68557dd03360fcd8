//! One real server: started, killed, frozen and started again.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bson::Document;

use crate::{Options, Result, TestbedError, folders, kept, mongod_path, watchdog::Watchdog, wire};

/// How long a server may take to listen on a busy machine; it takes about half a second.
const START_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest path of a Unix socket is 107 bytes on Linux, 103 on macOS.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// A running `mongod`.
///
/// It ends, and its folder is removed, when this value is dropped or when the process ends,
/// however that comes about.
#[derive(Debug)]
pub struct Mongod {
    address: SocketAddr,
    folder: PathBuf,
    process: Mutex<Process>,
    /// Keeps its port from others of our kind while it is down.
    _reserved: UdpSocket,
}

#[derive(Debug)]
struct Process {
    watchdog: Watchdog,
    pid: u32,
    /// Where its log begins: earlier ones have written to the same file.
    log_start: u64,
}

impl Mongod {
    /// Starts a server that belongs to no replica set.
    pub fn standalone(options: Options) -> Result<Self> {
        let server = Self::start(&options, &[])?;
        if options.is_secured() {
            for user in &options.users {
                let (db, command) = user.creation(1);
                server.run_command(db, command)?;
            }
            server.secure(&options.securing_configuration(None))?;
        }
        Ok(server)
    }

    /// Starts a server in the open, so that it can be set up; [`secure`](Self::secure) adds what
    /// the options ask for.
    pub(crate) fn start(options: &Options, extra: &[&str]) -> Result<Self> {
        let binary = mongod_path()?;
        let mut last = TestbedError::new("no free port was found");
        for (port, reserved) in free_ports().take(5) {
            let folder = new_folder(port)?;
            let mut command_line = command_line(&binary, &folder, port);
            command_line.extend(extra.iter().map(|&argument| argument.to_owned()));
            command_line.extend(options.arguments.iter().cloned());
            let watchdog = Watchdog::over(&folder, &command_line)?;
            let server = Self {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                folder,
                process: Mutex::new(Process { watchdog, pid: 0, log_start: 0 }),
                _reserved: reserved,
            };
            match server.restart() {
                Ok(()) => return Ok(server),
                // Someone else may have taken the port between the choice and the start.
                Err(error) => last = error,
            }
            if !last.to_string().to_lowercase().contains("address already in use") {
                break;
            }
        }
        Err(last)
    }

    /// Restarts the server with a configuration that secures it.
    pub(crate) fn secure(&self, configuration: &str) -> Result<()> {
        let file = self.folder.join("secured.yaml");
        fs::write(&file, configuration).map_err(|error| TestbedError::at(&file, &error))?;
        self.process().watchdog.secure()?;
        self.restart()
    }

    /// Writes the key by which members of a set know each other; it has to be the same on all.
    pub(crate) fn write_key_file(&self) -> Result<PathBuf> {
        let file = self.folder.join("set.key");
        fs::write(&file, "c3RlYWRmYXN0IHRlc3QgYmVkIGtleQ==")
            // The server refuses a key that others can read.
            .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)))
            .map_err(|error| TestbedError::at(&file, &error))?;
        Ok(file)
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection string for this server alone.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// The server's Unix socket, unless its path would be too long for one.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        socket_path(&self.folder, self.address.port())
    }

    /// The process id of the server that was started last.
    pub fn pid(&self) -> u32 {
        self.process().pid
    }

    /// The server's log.
    pub fn log_file(&self) -> PathBuf {
        log_file(&self.folder)
    }

    /// Kills the server with SIGKILL; returns when it is gone. Its data stay.
    pub fn kill(&self) -> Result<()> {
        self.process().watchdog.kill()
    }

    /// Starts the server again on its port and data, killing it first if it runs; returns when
    /// it listens.
    pub fn restart(&self) -> Result<()> {
        let mut process = self.process();
        process.watchdog.kill()?;
        process.log_start = fs::metadata(self.log_file()).map_or(0, |log| log.len());
        process.pid = process.watchdog.start()?;
        self.wait_until_listening(&process)
    }

    /// Stops the server with SIGSTOP: its connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.process().watchdog.freeze()
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<()> {
        self.process().watchdog.thaw()
    }

    /// Runs a command on the server; a reply with `ok: 0` is an error.
    pub fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        wire::run_command(self.address, db, command)
    }

    /// Why the server ended by itself, as its log says it; nothing if it runs or was killed.
    pub(crate) fn last_words(&self) -> Option<String> {
        let (pid, log_start) = {
            let process = self.process();
            (process.pid, process.log_start)
        };
        let log = has_exited(pid).then(|| log_after(&self.log_file(), log_start))?;
        let fatal = log.lines().find(|line| line.contains(r#""s":"F""#));
        Some(fatal.unwrap_or("without a word in its log").to_owned())
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // A test that panicked while it held a server must not take the others down.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the server's own word in its log: a connection alone would not show that it is
    /// this server which listens on the port.
    fn wait_until_listening(&self, process: &Process) -> Result<()> {
        let (pid, seen) = (process.pid, process.log_start);
        let started = Instant::now();
        loop {
            let log = log_after(&self.log_file(), seen);
            if log.to_lowercase().contains("waiting for connections") {
                return Ok(());
            }
            let given_up = started.elapsed() > START_TIMEOUT;
            if given_up || has_exited(pid) {
                let what = if given_up { "does not listen" } else { "ended at once" };
                // What it wrote after the last look is the interesting part.
                let log = log_after(&self.log_file(), seen);
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                let error = TestbedError::new(format!("mongod {what}"));
                return Err(match tail.is_empty() {
                    true => error.because("it has written nothing; is it a mongod?"),
                    false => error.because(format!("its log ends:\n{tail}")),
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn command_line(binary: &Path, folder: &Path, port: u16) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut line = vec![text(binary), "--dbpath".to_owned(), text(folder)];
    line.extend(["--port".to_owned(), port.to_string()]);
    match socket_path(folder, port) {
        Some(_) => line.extend(["--unixSocketPrefix".to_owned(), text(folder)]),
        None => line.push("--nounixsocket".to_owned()),
    }
    let rest = "--bind_ip 127.0.0.1 --wiredTigerCacheSizeGB 0.25 \
                --setParameter enableTestCommands=1 \
                --setParameter diagnosticDataCollectionEnabled=false";
    line.extend(rest.split_whitespace().map(str::to_owned));
    line
}

fn socket_path(folder: &Path, port: u16) -> Option<PathBuf> {
    let path = folder.join(format!("mongodb-{port}.sock"));
    (path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES).then_some(path)
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("output.log")
}

fn log_after(file: &Path, seen: u64) -> String {
    let content = fs::read(file).unwrap_or_default();
    let seen = usize::try_from(seen).unwrap_or(usize::MAX).min(content.len());
    String::from_utf8_lossy(&content[seen..]).into_owned()
}

/// Whether the process is a zombie, which only its watchdog can reap. Where there is no `/proc`,
/// the answer is no, and a start that fails takes its whole time-out.
fn has_exited(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state == Some('Z')
}

/// Counts what this process has started, so that names and ports differ.
static STARTED: AtomicU32 = AtomicU32::new(0);

fn new_folder(port: u16) -> Result<PathBuf> {
    let run = folders::folder("run")?;
    let folder = run.join(format!("{}-{port}", std::process::id()));
    // In a new container, processes have the numbers of others long ago, which may have left data.
    kept::empty(&folder)?;
    Ok(folder)
}

/// Free ports below the range from which outgoing connections get theirs, so that none of those
/// takes a port while its server is down; each process begins elsewhere. Another testbed does not take
/// one, either, nor try it: each holds the UDP port of the same number, which nobody else is after.
fn free_ports() -> impl Iterator<Item = (u16, UdpSocket)> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    let start = std::process::id().wrapping_mul(37);
    std::iter::repeat_with(move || {
        let step = STARTED.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + start.wrapping_add(step) % COUNT).unwrap_or(u16::MAX)
    })
    .take(COUNT as usize)
    .filter_map(|port| Some((port, reserve(port)?)))
}

/// The UDP port of that number, if nobody has either.
fn reserve(port: u16) -> Option<UdpSocket> {
    let reserved = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_to_one_server_only_though_nobody_listens_there_yet() {
        let (port, _held) = free_ports().next().unwrap();
        assert!(reserve(port).is_none());
    }
}
