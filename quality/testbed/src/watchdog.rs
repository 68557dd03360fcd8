//! Keeps a server from outliving the process that started it.
//!
//! Statics are not dropped, panics may abort, and a test process may be killed. So each server
//! runs under a small shell that takes orders from a pipe. When the last holder of the pipe's
//! other end is gone, the shell reads the end of the file, kills the server
//! and removes its folder.
//!
//! If a server is frozen at that moment, the system sends SIGHUP to the shell and the server: they are a group of
//! processes with a stopped one among them, and no process is left to wake it. The shell ignores the signal.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::{Result, TestbedError, binaries::Program};

/// `$1` is the server's folder, the rest its command line.
const SCRIPT: &str = r#"
trap '' HUP
folder=$1; shift
server=
stop() {
    if [ -n "$server" ]; then
        kill -KILL "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        server=
    fi
}
while read -r order; do
    case $order in
        start) stop; "$@" </dev/null >>"$folder/output.log" 2>&1 & server=$!
               echo "$server" ;;
        kill) stop; echo killed ;;
        freeze) kill -STOP "$server"; echo frozen ;;
        thaw) kill -CONT "$server"; echo thawed ;;
    esac
done
stop
rm -rf "$folder"
"#;

/// A shell that runs one server and ends with this process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Watchdog {
    /// Creates a watchdog over `folder`, which is removed in the end. Nothing is started yet.
    ///
    /// The shell runs as the user of the server, which it may signal for that reason, and which owns the folder.
    pub(crate) fn over(folder: &Path, program: &Program, command_line: &[String]) -> Result<Self> {
        let mut shell = Command::new("sh");
        program.prepare(&mut shell);
        let mut shell = shell
            .args(["-c", SCRIPT, "testbed-watchdog"])
            .arg(folder)
            .args(command_line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: an interrupt typed at the terminal ends the tests, and by
            // that this shell in its orderly way, rather than the shell directly.
            .process_group(0)
            .spawn()
            .map_err(|error| TestbedError::io("sh", &error))?;
        let orders = shell.stdin.take();
        let answers = shell.stdout.take().map(BufReader::new);
        let answers = answers.ok_or_else(|| TestbedError::new("sh has no output"))?;
        Ok(Self { shell, orders, answers })
    }

    /// Starts the server and returns its process id.
    pub(crate) fn start(&mut self) -> Result<u32> {
        let answer = self.order("start")?;
        answer.parse().map_err(|_| TestbedError::new(format!("no process id: {answer:?}")))
    }

    /// Kills the server with SIGKILL; returns when it is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.order("kill").map(drop)
    }

    pub(crate) fn freeze(&mut self) -> Result<()> {
        self.order("freeze").map(drop)
    }

    pub(crate) fn thaw(&mut self) -> Result<()> {
        self.order("thaw").map(drop)
    }

    fn order(&mut self, order: &str) -> Result<String> {
        let gone = |error: &std::io::Error| TestbedError::io("the server's watchdog", error);
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}").map_err(|error| gone(&error))?;
        }
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| gone(&error))?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.orders = None;
        // The end of the file is an order that the shell cannot refuse; a failure to wait for it
        // leaves nothing to be done.
        let _ = self.shell.wait();
    }
}
