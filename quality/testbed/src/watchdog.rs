//! Watchdog: kills a server when the process that started it ends.
//!
//! Statics are not dropped, panics may abort, and a test process may be killed. Therefore each server is a child of a shell
//! that reads commands from a pipe. At the end of the pipe the shell kills the server and removes its folder.
//!
//! If a server is frozen at that moment, the system sends SIGHUP to the shell and the server, because they are an orphaned
//! process group with a stopped process. The shell ignores the signal.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::{Result, TestbedError, binaries::Program};

/// Arguments: the server's folder, then its command line.
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
while read -r command; do
    case $command in
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
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Watchdog {
    /// Creates a watchdog for a server. The server is not started yet; the folder is removed at the end.
    ///
    /// The shell runs as the server's user, so that it can signal the server and remove the folder.
    pub(crate) fn new(folder: &Path, program: &Program, command_line: &[String]) -> Result<Self> {
        let mut shell = Command::new("sh");
        program.prepare(&mut shell);
        let mut shell = shell
            .args(["-c", SCRIPT, "testbed-watchdog"])
            .arg(folder)
            .args(command_line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Its own process group: Ctrl-C ends the tests, and the end of the pipe ends the shell.
            .process_group(0)
            .spawn()
            .map_err(|error| TestbedError::io("sh", &error))?;
        let commands = shell.stdin.take();
        let replies = shell.stdout.take().map(BufReader::new);
        let replies = replies.ok_or_else(|| TestbedError::new("sh has no output"))?;
        Ok(Self { shell, commands, replies })
    }

    /// Starts the server and returns its process id.
    pub(crate) fn start(&mut self) -> Result<u32> {
        let reply = self.send("start")?;
        reply.parse().map_err(|_| TestbedError::new(format!("no process id: {reply:?}")))
    }

    /// Kills the server with SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.send("kill").map(drop)
    }

    pub(crate) fn freeze(&mut self) -> Result<()> {
        self.send("freeze").map(drop)
    }

    pub(crate) fn thaw(&mut self) -> Result<()> {
        self.send("thaw").map(drop)
    }

    fn send(&mut self, command: &str) -> Result<String> {
        let gone = |error: &std::io::Error| TestbedError::io("the server's watchdog", error);
        if let Some(commands) = &mut self.commands {
            writeln!(commands, "{command}").map_err(|error| gone(&error))?;
        }
        let mut reply = String::new();
        self.replies.read_line(&mut reply).map_err(|error| gone(&error))?;
        Ok(reply.trim().to_owned())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.commands = None;
        // The end of the pipe ends the shell. An error of waiting for it cannot be handled.
        let _ = self.shell.wait();
    }
}
