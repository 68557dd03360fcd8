//! `steadfast zones`: places each datacenter's documents on its shards.

mod file;
mod run;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use crate::{
    context::{self, CommandContext, CommandResult},
    database::UriArg,
    duration,
    output::Output,
};

/// Place each datacenter's documents on its shards
///
/// For applications that write to the nearest datacenter: a field of each document has the name of its datacenter,
/// the shard key begins with that field, and zones keep the documents on the shards of that datacenter. A layout file
/// assigns the shards to datacenters.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Zones {
    #[command(subcommand)]
    command: ZonesCommand,
}

const EXAMPLES: &str = "\
A layout, messages.toml:
  collection = \"app.messages\"
  shard_key = [\"datacenter\", \"userid\"]   # the first field names the datacenter

  [datacenters]
  alfa = [\"shard0000\"]    # the shards that have most of their members in alfa
  bravo = [\"shard0001\"]

Getting started:
  $ steadfast serve --sharded shard0000,shard0001 --port 27017 &
  $ steadfast zones plan --uri mongodb://localhost:27017 messages.toml
  $ steadfast zones apply --uri mongodb://localhost:27017 messages.toml
  $ steadfast zones status --uri mongodb://localhost:27017 messages.toml

The plan shows each command in the syntax of mongosh. Zones are created before the collection is sharded, so the \
chunks of an empty collection begin args the right shards. The balancer moves the documents of other collections; \
--wait waits for it.

All subcommands can be repeated at any time: steps that are done are skipped. Connect to a mongos, as a user \
with the role clusterManager, and readWrite on the database. The pattern: \
docs/local-writes.md.

Exit status: 0 args success, 1 after an error or an interruption, or if status finds misplaced documents, 2 if the \
arguments or the layout are wrong.";

#[derive(Debug, Subcommand)]
enum ZonesCommand {
    /// Show the steps, and change nothing
    Plan {
        #[command(flatten)]
        args: ZonesArgs,
        #[command(flatten)]
        output: Output,
    },
    /// Execute the steps of the plan
    Apply {
        #[command(flatten)]
        args: ZonesArgs,
        #[command(flatten)]
        wait: Wait,
        /// Only show the plan
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Show where the documents are, compared with the layout
    Status {
        #[command(flatten)]
        args: ZonesArgs,
        #[command(flatten)]
        wait: Wait,
        #[command(flatten)]
        output: Output,
    },
    /// Remove the zones of the layout; the collection stays sharded, and keeps all documents
    Remove {
        #[command(flatten)]
        args: ZonesArgs,
        /// Only report command would be done
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// Cluster and layout.
#[derive(Args, Debug)]
struct ZonesArgs {
    #[command(flatten)]
    cluster: UriArg,

    /// Layout file, in TOML; `steadfast zones --help` has an example
    #[arg(value_name = "LAYOUT")]
    layout: PathBuf,
}

#[derive(Args, Debug)]
struct Wait {
    /// Wait until the balancer has moved all documents to the right shards
    #[arg(long)]
    wait: bool,

    /// Time-out of --wait
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "wait")]
    timeout: Option<Duration>,
}

/// Runs the command.
pub(crate) fn run(Zones { command }: Zones) -> CommandResult {
    let (_, output) = command.parts();
    context::run("zones", output, async |context| command.run(context).await)
}

const INTERRUPTED: &str =
    "interrupted; completed steps are kept, and the same command continues from there";

impl ZonesCommand {
    fn parts(&self) -> (&ZonesArgs, Output) {
        match self {
            Self::Plan { args, output }
            | Self::Apply { args, output, .. }
            | Self::Status { args, output, .. }
            | Self::Remove { args, output, .. } => (args, *output),
        }
    }

    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        let (args, _) = self.parts();
        let layout = file::read(&args.layout)?;
        let notes = context.notes;
        let client = context.connect(args.cluster.connect(&notes)).await?;
        let work = run::ZonesRun::new(client, layout, notes);
        let report = context.unless_interrupted(work.run(self), INTERRUPTED).await;
        let report = report.or_else(|error| work.done_before(self, error))?;
        context.output.conclude(report.text, report.document, report.verdict)
    }
}
