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

/// Inject faults between an application and its servers, by rules
///
/// A proxy that drops replies, cuts connections, delays messages or replies with errors. Its ledger counts the
/// commands that the servers executed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("json", |it| it.help(JSON)))]
pub(crate) struct Pipe {
    /// Servers: a connection string, or host:port
    ///
    /// All members of a replica set are proxied, unless the connection string has directConnection=true. With
    /// tls=true (and tlsCAFile and so on), the pipe encrypts its connections to the servers. Credentials are not
    /// used: the application authenticates itself.
    #[arg(long, value_name = "URI")]
    upstream: Uri,

    /// Address for the application
    ///
    /// The members of a replica set get this port and the following ones. With port 0, any free ports.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    listen: SocketAddr,

    /// Host name for the application, if it cannot use the listen address, for example in a container
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,

    /// TOML file with the initial rules
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Write all messages and faults to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print a line for each message and fault
    #[arg(long)]
    show: bool,

    #[command(flatten)]
    output: Output,
}

const JSON: &str =
    "Print the connection string, the lines of --show and the summary as JSON documents";

const EXAMPLES: &str = "\
Getting started:
  $ steadfast pipe --upstream mongodb://localhost:27017 --listen 127.0.0.1:27100 --show

  The first line of the output is the connection string for the application. Without rules, all messages pass.
  Any client that is connected through the pipe can add and remove rules (here mongosh; every driver has
  runCommand):

  > db.adminCommand({ blackPipe: 1, add: { command: 'insert', times: 1, then: 'loseReply' } })

  The server executes the next insert, and the connection is closed before the reply. Show the result in the
  ledger, and remove all rules:

  > db.adminCommand({ blackPipe: 1, ledger: { command: 'insert' } })
  > db.adminCommand({ blackPipe: 1, clear: 'all' })

  The pipe also implements the command configureFailPoint with failCommand.

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

  Conditions: `command`, `namespace`, `appName`, `server`, `connection`, `retry`, `skip`, `nth`, `every`,
  `probability`, `seed`, `times`.

  Reactions: `cutRequest`, `loseReply`, `cutReply`, `delay`, `throttle`, `stall`, `error`, `writeConcernError`,
  `refuse`.

  Details: docs/black-pipe-proxy.md.

Exit status: 0 after Ctrl-C or SIGTERM, 1 if the proxy could not start or the record is incomplete, 2 if the \
arguments are wrong. At the end, the command prints a summary of what the servers executed.";

/// Parses an address to listen on. A host name can have several addresses; most drivers try IPv4 first.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let found: Vec<_> = text.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or("expected host:port, such as 127.0.0.1:27100")
}

/// Runs the proxy until a signal arrives.
pub(crate) fn run(pipe: Pipe) -> CommandResult {
    // One thread is faster than several: there is little work for each message.
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
            let senders = (
                recorder.as_ref().map(EventRecorder::sender),
                printer.as_ref().map(EventPrinter::sender),
            );
            builder = builder.observe(move |event: &ProxyEvent<'_>| {
                if let Some(sender) = &senders.0 {
                    sender.note(event);
                }
                if let Some(sender) = &senders.1 {
                    sender.note(event);
                }
            });
        }
        // Connecting to unresponsive servers can take long.
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
        let verdict = recorded.map_err(|error| format!("the record is incomplete: {error}").into());
        if self.output.json {
            let _ = context.output.print("", summary::document(&ledger, &rules), &verdict);
        } else if !self.output.quiet {
            notes::print_to_stderr(summary::of(&ledger, &rules));
        }
        verdict
    }

    fn recorder(&self) -> Result<Option<EventRecorder>, WrongArguments> {
        let Some(path) = &self.record else { return Ok(None) };
        // An earlier record is kept until there is a new one.
        let file = File::options().create(true).write(true).truncate(false).open(path);
        file.map(|file| Some(EventRecorder::to(file)))
            .map_err(|e| WrongArguments(format!("--record {}: {e}", path.display())))
    }
}

/// Converts an error: invalid arguments have exit status 2.
fn explained(error: ProxyError) -> Box<dyn Error> {
    match error {
        ProxyError::Upstream(_) | ProxyError::Rules(_) => WrongArguments(error.to_string()).into(),
        _ => error.into(),
    }
}

/// Prints the connection string as the first line of the result, and notes about the servers.
fn announce(proxy: &Proxy, context: &CommandContext) -> CommandResult {
    let members: Vec<_> = proxy
        .members()
        .iter()
        .map(|(listening, server)| json!({ "address": listening.to_string(), "server": server }))
        .collect();
    let document = json!({ "uri": proxy.uri(), "servers": members });
    context.output.conclude(proxy.uri(), document, Ok(()))?;
    for (listening, server) in proxy.members() {
        context.notes.info(format_args!("{listening} forwards to {server}"));
    }
    if proxy.removed_credentials() {
        context.notes.info(
            "the credentials of --upstream are not used; the application authenticates itself",
        );
    }
    Ok(())
}
