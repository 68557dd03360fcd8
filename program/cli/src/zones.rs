//! `steadfast zones`: each datacenter's documents are placed on its shards.

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
/// For applications that write to the nearest datacenter: a field of each document names the datacenter, the
/// shard key begins with that field, and the zones of a sharded cluster keep its documents on the shards
/// that are there. The layout says which these are.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Zones {
    #[command(subcommand)]
    what: ZonesCommand,
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

The plan shows each command as it could be typed in mongosh. Zones come before the collection is sharded: so \
the chunks of an empty collection begin where they belong. A collection that has documents is moved by the \
balancer; --wait waits for it.

All of it can be run again at any time: what is there already is left out. Connect to a mongos, as a user who \
may administer the cluster (the role clusterManager, and readWrite on the database). The pattern: \
docs/local-writes.md.

Exit status: 0 if all went well, 1 if something failed, was cut short, or (status) documents are not where they \
belong, 2 if the arguments or the layout are wrong.";

#[derive(Debug, Subcommand)]
enum ZonesCommand {
    /// Say what has to be done, and do nothing
    Plan {
        #[command(flatten)]
        on: ZonesArgs,
        #[command(flatten)]
        output: Output,
    },
    /// Do what the plan says
    Apply {
        #[command(flatten)]
        on: ZonesArgs,
        #[command(flatten)]
        wait: Wait,
        /// Only say what would be done, as the plan does
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Show where the documents are, and whether that is where they belong
    Status {
        #[command(flatten)]
        on: ZonesArgs,
        #[command(flatten)]
        wait: Wait,
        #[command(flatten)]
        output: Output,
    },
    /// Take back the zones of the layout; the collection stays sharded, and all documents stay
    Remove {
        #[command(flatten)]
        on: ZonesArgs,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// Which cluster, and which layout.
#[derive(Args, Debug)]
struct ZonesArgs {
    #[command(flatten)]
    cluster: UriArg,

    /// The layout: a file in TOML, of which `steadfast zones --help` has an example
    #[arg(value_name = "LAYOUT")]
    layout: PathBuf,
}

#[derive(Args, Debug)]
struct Wait {
    /// Wait until the balancer has moved all documents to where they belong
    #[arg(long)]
    wait: bool,

    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "wait")]
    timeout: Option<Duration>,
}

/// Does what is asked, unless it is interrupted.
pub(crate) fn run(Zones { what }: Zones) -> CommandResult {
    let (_, output) = what.parts();
    context::run("zones", output, async |context| what.run(context).await)
}

const INTERRUPTED: &str =
    "interrupted; what is done stays done, and the same command goes on from there";

impl ZonesCommand {
    fn parts(&self) -> (&ZonesArgs, Output) {
        match self {
            Self::Plan { on, output }
            | Self::Apply { on, output, .. }
            | Self::Status { on, output, .. }
            | Self::Remove { on, output, .. } => (on, *output),
        }
    }

    async fn run(&self, context: &mut CommandContext) -> CommandResult {
        let (on, _) = self.parts();
        let layout = file::read(&on.layout)?;
        let notes = context.notes;
        let client = context.connect(on.cluster.connect(&notes)).await?;
        let work = run::ZonesRun::new(client, layout, notes);
        let told = context.unless_interrupted(work.run(self), INTERRUPTED).await;
        let told = told.or_else(|error| work.done_before(self, error))?;
        context.output.conclude(told.text, told.document, told.verdict)
    }
}
