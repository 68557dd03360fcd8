//! `steadfast pipe`: the fault proxy as a program.

mod record;
mod show;
mod summary;

use std::{
    error::Error,
    fs::File,
    io::{self, Write},
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use blackpipe::proxy::{Event, Proxy, read_rules};
use clap::Args;

use self::{record::Recorder, show::Screen};
use crate::ending::Ending;

/// Stand between an application and its MongoDB servers, and lose replies, cut connections, slow
/// things down or answer with errors, by rules
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Pipe {
    /// The real servers: a connection string, or just host:port
    ///
    /// All members of a replica set come to stand behind the pipe, unless it says
    /// directConnection=true. With tls=true (and tlsCAFile and so on), the pipe encrypts its
    /// connections to the servers. Credentials are not needed: the application gives its own.
    #[arg(long, value_name = "URI")]
    upstream: String,

    /// Where the application is to connect to
    ///
    /// The members of a replica set get this port and those after it. With port 0, any free ports.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    listen: SocketAddr,

    /// The host name that applications are told, if they do not reach the pipe by the address that
    /// it listens on (in a container, say)
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,

    /// A TOML file with rules that hold from the start
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Write what passes to a file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Show what passes, a line each
    #[arg(long)]
    show: bool,
}

const EXAMPLES: &str = "\
Getting started:
  $ steadfast pipe --upstream mongodb://localhost:27017 --listen 127.0.0.1:27100 --show

  The first line that it prints is the connection string for the application. Everything passes
  until there is a rule. Rules are switched from any client that is connected through the pipe
  (here mongosh; every driver has a runCommand):

  > db.adminCommand({ blackPipe: 1, add: { command: 'insert', times: 1, then: 'loseReply' } })

  The next insert reaches the server, which executes it, and the connection ends before the reply.
  What became of it, then, and back to normal:

  > db.adminCommand({ blackPipe: 1, ledger: { command: 'insert' } })
  > db.adminCommand({ blackPipe: 1, clear: 'all' })

  The command configureFailPoint with failCommand is answered by the pipe, too.

A file of rules (--rules):
  [[rule]]
  command = [\"insert\", \"update\"]       # only these commands
  namespace = \"shop.orders\"            # only this collection
  every = 10                           # one in ten
  then = \"loseReply\"

  [[rule]]
  command = \"find\"
  probability = 0.05
  seed = 42
  then = { error = { code = 11600 } }

  Conditions: command, namespace, appName, server, connection, retry, skip, nth, every,
  probability, seed, times. Reactions: cutRequest, loseReply, cutReply, delay, throttle, stall,
  error, writeConcernError, refuse. The guide docs/black-pipe-proxy.md says all about them.

Ctrl-C (or SIGTERM) ends it; it then says what the servers executed.";

/// An address to listen on. A name such as `localhost` may stand for several; most drivers try IPv4
/// first.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let found: Vec<_> = text.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or("it is host:port, such as 127.0.0.1:27100")
}

/// Runs the proxy until it is told to end.
pub(crate) fn run(pipe: Pipe) -> Result<(), Box<dyn Error>> {
    // One thread carries more than several that hand each other work: there is little to do for each
    // message but to pass it on.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(pipe))
}

async fn serve(pipe: Pipe) -> Result<(), Box<dyn Error>> {
    let mut builder = Proxy::before(pipe.upstream).listen(pipe.listen);
    if let Some(host) = pipe.advertise {
        builder = builder.advertise(host);
    }
    if let Some(path) = pipe.rules {
        builder = builder.rules(read_rules(path)?);
    }
    let recorder = match pipe.record {
        Some(path) => {
            // An earlier record is not touched before there is something to replace it with.
            let file = File::options().create(true).write(true).truncate(false).open(&path);
            Some(Recorder::to(file.map_err(|e| format!("{}: {e}", path.display()))?))
        }
        None => None,
    };
    let screen = pipe.show.then(Screen::new);
    if recorder.is_some() || screen.is_some() {
        let watchers = (recorder.as_ref().map(Recorder::pen), screen.as_ref().map(Screen::pen));
        builder = builder.observe(move |event: &Event<'_>| {
            if let Some(pen) = &watchers.0 {
                pen.note(event);
            }
            if let Some(pen) = &watchers.1 {
                pen.note(event);
            }
        });
    }
    let mut ending = Ending::awaited()?;
    // Servers that do not answer take their time.
    let proxy = tokio::select! {
        proxy = builder.start() => proxy?,
        () = ending.comes() => return Ok(()),
    };
    announce(&proxy)?;
    ending.comes().await;
    let (ledger, rules) = (proxy.ledger(), proxy.rules());
    proxy.shutdown().await;
    if let Some(screen) = screen {
        screen.finish();
    }
    let recorded = recorder.map_or(Ok(()), Recorder::finish);
    write!(io::stderr(), "{}", summary::of(&ledger, &rules))?;
    recorded.map_err(|error| format!("the record is not whole: {error}").into())
}

/// The connection string alone on the first line, for programs; the rest for people.
fn announce(proxy: &Proxy) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", proxy.uri())?;
    out.flush()?;
    let mut notes = io::stderr();
    for (listening, server) in proxy.members() {
        writeln!(notes, "steadfast pipe: {listening} stands before {server}")?;
    }
    if proxy.left_out_credentials() {
        writeln!(notes, "steadfast pipe: the application gives user and password itself")?;
    }
    Ok(())
}
