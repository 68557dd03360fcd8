//! `steadfast pipe`: the fault proxy as a program.

mod record;
mod show;
mod summary;

use std::{
    error::Error,
    fs::File,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use blackpipe::proxy::{Proxy, ProxyError, ProxyEvent, read_rules};
use clap::Args;
use serde_json::json;

use self::{record::EventRecorder, show::EventPrinter};
use crate::{
    context::{self, CommandContext, CommandResult},
    database::Uri,
    notes::{self, WrongArguments},
    output::Output,
};

/// Stand between an application and its servers, and do harm by rules
///
/// A proxy that loses replies, cuts connections, slows things down or answers with errors, and keeps a ledger of what
/// the servers really executed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Pipe {
    /// The real servers: a connection string, or just host:port
    ///
    /// All members of a replica set come to stand behind the pipe, unless it says
    /// directConnection=true. With tls=true (and tlsCAFile and so on), the pipe encrypts its
    /// connections to the servers. Credentials are not needed: the application gives its own.
    #[arg(long, value_name = "URI")]
    upstream: Uri,

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

    #[command(flatten)]
    output: Output,
}

const JSON: &str =
    "Print the connection string, what --show shows, and the summary as JSON, a document each";

const EXAMPLES: &str = "\
Getting started:
  $ steadfast pipe --upstream mongodb://localhost:27017 --listen 127.0.0.1:27100 --show

  The first line that it prints is the connection string for the application. Everything passes until there is
  a rule. Rules are switched from any client that is connected through the pipe (here mongosh; every driver has
  a runCommand):

  > db.adminCommand({ blackPipe: 1, add: { command: 'insert', times: 1, then: 'loseReply' } })

  The next insert reaches the server, which executes it, and the connection ends before the reply. What became
  of it, then, and back to normal:

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

  Conditions: command, namespace, appName, server, connection, retry, skip, nth, every, probability, seed,
  times. Reactions: cutRequest, loseReply, cutReply, delay, throttle, stall, error, writeConcernError, refuse.
  The guide docs/black-pipe-proxy.md says all about them.

Exit status: 0 if it was told to end, 1 if it could not start or the record is not whole, 2 if the arguments are \
wrong. Ctrl-C (or SIGTERM) ends it; it then says what the servers executed.";

/// An address to listen on. A name such as `localhost` may stand for several; most drivers try IPv4
/// first.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let found: Vec<_> = text.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or("it is host:port, such as 127.0.0.1:27100")
}

/// Runs the proxy until it is told to end.
pub(crate) fn run(pipe: Pipe) -> CommandResult {
    // One thread carries more than several that hand each other work: there is little to do for each
    // message but to pass it on.
    context::run("pipe", pipe.output, async |context| pipe.run(context).await)
}

impl Pipe {
    async fn run(self, context: &mut CommandContext) -> CommandResult {
        let mut builder = Proxy::builder(self.upstream.as_str()).listen(self.listen);
        if let Some(host) = &self.advertise {
            builder = builder.advertise(host);
        }
        if let Some(path) = &self.rules {
            builder = builder.rules(read_rules(path).map_err(explained)?);
        }
        let recorder = self.recorder()?;
        let printer = self.show.then(|| EventPrinter::new(self.output.json));
        if recorder.is_some() || printer.is_some() {
            let watchers = (
                recorder.as_ref().map(EventRecorder::sender),
                printer.as_ref().map(EventPrinter::sender),
            );
            builder = builder.observe(move |event: &ProxyEvent<'_>| {
                if let Some(sender) = &watchers.0 {
                    sender.note(event);
                }
                if let Some(sender) = &watchers.1 {
                    sender.note(event);
                }
            });
        }
        // Servers that do not answer take their time.
        let proxy = tokio::select! {
            proxy = builder.start() => proxy.map_err(explained)?,
            () = context.signals.received() => return Ok(()),
        };
        announce(&proxy, context)?;
        context.signals.received().await;
        let (ledger, rules) = (proxy.ledger(), proxy.rules());
        proxy.shutdown().await;
        if let Some(printer) = printer {
            printer.finish();
        }
        let recorded = recorder.map_or(Ok(()), EventRecorder::finish);
        let verdict = recorded.map_err(|error| format!("the record is not whole: {error}").into());
        if self.output.json {
            let _ = context.output.print("", summary::document(&ledger, &rules), &verdict);
        } else if !self.output.quiet {
            notes::print_to_stderr(summary::of(&ledger, &rules));
        }
        verdict
    }

    fn recorder(&self) -> Result<Option<EventRecorder>, WrongArguments> {
        let Some(path) = &self.record else { return Ok(None) };
        // An earlier record is not touched before there is something to replace it with.
        let file = File::options().create(true).write(true).truncate(false).open(path);
        file.map(|file| Some(EventRecorder::to(file)))
            .map_err(|e| WrongArguments(format!("--record {}: {e}", path.display())))
    }
}

/// What was asked for wrongly, apart from what cannot be had.
fn explained(error: ProxyError) -> Box<dyn Error> {
    match error {
        ProxyError::Upstream(_) | ProxyError::Rules(_) => WrongArguments(error.to_string()).into(),
        _ => error.into(),
    }
}

/// The connection string alone on the first line, for programs; the rest for people.
fn announce(proxy: &Proxy, context: &CommandContext) -> CommandResult {
    let members: Vec<_> = proxy
        .members()
        .iter()
        .map(|(listening, server)| json!({ "address": listening.to_string(), "server": server }))
        .collect();
    let document = json!({ "uri": proxy.uri(), "servers": members });
    context.output.conclude(proxy.uri(), document, Ok(()))?;
    for (listening, server) in proxy.members() {
        context.notes.info(format_args!("{listening} stands before {server}"));
    }
    if proxy.removed_credentials() {
        context.notes.info("the application gives user and password itself");
    }
    Ok(())
}
