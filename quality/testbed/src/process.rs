//! A server process on loopback.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bson::{Document, doc};

use crate::{
    Options, Result, TestbedError,
    binaries::Program,
    ports::{ReservedPort, free_ports},
    server_folder::{ServerFolder, ServerKind},
    watchdog::Watchdog,
    wire,
};

/// Bound on the start of a server on a busy machine. A start takes about half a second.
const START_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest path of a Unix socket is 107 bytes on Linux, 103 on macOS.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// Public methods that `Mongod` and `Mongos` share.
macro_rules! process_methods {
    () => {
        /// Returns the address, `127.0.0.1:port`.
        pub fn address(&self) -> SocketAddr {
            self.server.address()
        }

        /// Returns the server's Unix socket, or `None` if its path would be too long for one.
        pub fn unix_socket(&self) -> Option<PathBuf> {
            self.server.unix_socket()
        }

        /// Returns the process id of the server that was started last.
        pub fn pid(&self) -> u32 {
            self.server.pid()
        }

        /// Returns the path of the server's log.
        pub fn log_file(&self) -> PathBuf {
            self.server.log_file()
        }

        /// Kills the server with SIGKILL, and waits for its end. The data of a `mongod` remain.
        ///
        /// # Errors
        ///
        /// Fails if the watchdog of the server does not reply.
        pub fn kill(&self) -> Result<()> {
            self.server.kill()
        }

        /// Restarts the server with the same ports and data; kills it first if it runs. Returns when it listens.
        ///
        /// # Errors
        ///
        /// Fails if the server does not start. The error contains the end of its log.
        pub fn restart(&self) -> Result<()> {
            self.server.restart()
        }

        /// Freezes the server with SIGSTOP: its connections remain open, and it does not reply.
        ///
        /// # Errors
        ///
        /// Fails if the watchdog of the server does not reply.
        pub fn freeze(&self) -> Result<()> {
            self.server.freeze()
        }

        /// Continues a frozen server with SIGCONT.
        ///
        /// # Errors
        ///
        /// Fails if the watchdog of the server does not reply.
        pub fn thaw(&self) -> Result<()> {
            self.server.thaw()
        }

        /// Runs a command on the server; a reply with `ok: 0` is an error.
        ///
        /// If the server requires authentication, the command runs as `__system`. It fails on a standalone server that
        /// requires TLS.
        ///
        /// # Errors
        ///
        /// Fails if the server does not reply, or if its reply has `ok: 0`.
        pub fn run_command(&self, db: &str, command: Document) -> Result<Document> {
            self.server.run_command(db, command)
        }
    };
}
pub(crate) use process_methods;

/// A `mongod` or `mongos` process with its directory, restartable on the same port and data.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    address: SocketAddr,
    folder: ServerFolder,
    /// True if commands need authentication.
    auth: bool,
    running: Mutex<Running>,
    _port: ReservedPort,
}

#[derive(Debug)]
struct Running {
    watchdog: Watchdog,
    pid: u32,
    /// Length of the log before this start. All starts append to the same file.
    log_start: u64,
}

impl ServerProcess {
    /// Starts a program on a free port with these options. `arguments` gets the server's directory.
    pub(crate) fn start(
        program: &Program,
        kind: ServerKind,
        options: &Options,
        mut arguments: impl FnMut(&Path) -> Vec<String>,
    ) -> Result<Self> {
        let mut last = TestbedError::new("no free port was found");
        for port in free_ports().take(5) {
            let folder = ServerFolder::new(port.number(), program.account)?;
            let mut command_line = command_line(&program.path, &folder.path, port.number());
            let config_file = folder.write_config(kind, options)?;
            command_line.extend(["--config".to_owned(), path_text(&config_file)]);
            command_line.extend(arguments(&folder.path));
            let watchdog = Watchdog::new(&folder.path, program, &command_line)?;
            let server = Self {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port.number())),
                folder,
                auth: options.auth,
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

    /// Makes the server require TLS, also after restarts, if the options have TLS.
    pub(crate) fn require_tls(&self, options: &Options) -> Result<()> {
        if options.tls.is_none() {
            return Ok(());
        }
        self.folder.write_config(ServerKind::StandaloneRequiringTls, options)?;
        self.run_command("admin", doc! { "setParameter": 1, "tlsMode": "requireTLS" }).map(drop)
    }

    /// Runs a command on the server, as `__system` if it requires authentication.
    pub(crate) fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        wire::run_command(self.address, self.auth, db, command)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn unix_socket(&self) -> Option<PathBuf> {
        socket_path(&self.folder.path, self.address.port())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running().pid
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.path.join("output.log")
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

    /// Fatal message in the log of a server that crashed; `None` if it runs or was killed.
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
        // A panic of one test must not fail other tests of the same server.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the message in the server's log. A connection would not prove that this server listens on the port.
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
                let what = if timed_out { "does not listen" } else { "ended during the start" };
                // Read again: the last lines have the reason.
                let log = log_after(&self.log_file(), seen);
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                let error = TestbedError::new(format!("the server {what}"));
                return Err(match tail.is_empty() {
                    true => error.because("its log is empty; is it a MongoDB server?"),
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

/// Returns true if the process has exited and is a zombie until its watchdog reaps it. Without `/proc` it returns false,
/// and a failed start takes the whole time-out.
fn has_exited(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state == Some('Z')
}
