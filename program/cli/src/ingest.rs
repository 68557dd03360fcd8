//! `steadfast ingest`: records of files and streams become documents, each exactly once.

mod batch;
mod checkpoint;
mod csv;
mod datacenters;
mod existing;
mod frontier;
mod json;
mod progress;
mod record;
mod rejects;
mod report;
mod run;
mod source;
mod split;
mod write;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use steadfast::{
    Client, Namespace, bson::RawDocumentBuf, options::CollectionOptions, options::WriteConcern,
};

use self::{
    checkpoint::Checkpoint,
    datacenters::Datacenters,
    progress::Progress,
    record::Shape,
    rejects::Rejects,
    report::{IngestOutcome, wrong},
    run::IngestRun,
    source::{Format, Source, SourceOptions},
    split::Position,
    write::WriteTarget,
};
use crate::{
    database::{self, OptionalUriArg},
    duration,
    notes::Notes,
    output::Output,
    signals::ShutdownSignals,
};

/// Write the records of files into a collection, each exactly once
///
/// Each record gets an _id that says where it is from, such as orders.csv-4bd1f0a8c2e93d57:000000012345: its
/// source and the byte that it begins at. So it is known in every run, and a run after a crash, or a second
/// one by mistake, adds nothing twice. Failures that may pass are waited out, and what was sent is sent again,
/// with the same _ids. What cannot be written is put aside, with the reason.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Ingest {
    #[command(flatten)]
    deployment: OptionalUriArg,

    /// The collection
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// What to read; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    /// How records are written; guessed by the file's name if it ends with .ndjson, .jsonl, .json or .csv
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Of CSV: whether values that look like numbers, true or false become such, and empty ones null
    #[arg(long, value_enum, default_value_t = Types::String)]
    types: Types,

    /// Take _id from this field, which each record must have
    ///
    /// Of records that have the same, the first is written; the others count as already there. Without this,
    /// a record that has an _id keeps it, and any other gets one from its position.
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,

    /// The name of the source, for the _ids
    ///
    /// By default it is the file's name, without folders, and a fingerprint of its first record: so it stays the
    /// same if the file is moved or grows, and two files that are called the same are told apart unless they
    /// begin with the same record. If a file is renamed, give it its old name here, or all of it is new. A
    /// stream has no such name and needs this, unless there is --id.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// How many documents are sent at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = count)]
    batch: usize,

    /// How many batches are under way at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = count)]
    parallel: usize,

    /// Append records that were rejected to this file, as JSON lines: source, offset, line, reason, raw
    ///
    /// It is made when there is one. Without it, the first ten are shown, and the exit status is 1 if there were
    /// any. After a crash, some may be in it twice, with the same offset.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Stop when more records than this were rejected
    #[arg(long, value_name = "NUMBER")]
    max_rejects: Option<u64>,

    /// Keep in this file up to where everything is written, and go on there
    ///
    /// Without it, another run is just as right, but reads everything again, and asks for each record whether it is
    /// there. A file that did not only grow since is refused.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// How long nothing may be writable before it is given up: the deployment may be gone, or silent, that long
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    retry_timeout: Duration,

    /// Write to the nearest of these datacenters that takes it, instead of one position
    ///
    /// Names, nearest first, are those of one cluster (--uri); names with connection strings are deployments of
    /// their own. A document then has a new _id in each datacenter that is tried, and its key in the field
    /// --key-field. So another run relies on the checkpoint, and what it writes again is found by steadfast
    /// dedupe --key ingest_key.
    #[arg(long, value_name = "NAME[=URI],…", value_parser = datacenters::parse)]
    datacenters: Option<Datacenters>,

    /// With --datacenters: the field for the key that would else be the _id
    #[arg(long, value_name = "FIELD", default_value = "ingest_key", requires = "datacenters")]
    key_field: String,

    /// Read everything, say what would be rejected, and write nothing; no deployment is needed
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection shop.orders orders.ndjson
  shop.orders: 1000000 documents added

  Many files, to be continued after a crash or Ctrl-C:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection app.log --checkpoint log.at \\
      --rejects rejected.ndjson day-*.ndjson

  A table, by a key of its own:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection shop.customers --id email --types auto \\
      customers.csv

  From another program; the name must be another for another stream:
  $ zcat export.gz | steadfast ingest --uri mongodb://localhost:27017 --collection app.log \\
      --format ndjson --source export-2026-01 -

To find the record of a document: its _id ends with the byte at which the record begins, as in
  $ tail -c +12346 orders.csv | head -n 1

If the collection has a collation, the server does not tell whether it is the same _id that is there already:
records that are sent again are then rejected instead of being counted as there.

Exit status: 0 if all went well, 1 if something failed, was cut short, or was rejected and not kept, 2 if the
arguments are wrong. Ctrl-C (or SIGTERM) waits for what is under way and puts the checkpoint down.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Types {
    /// All values are strings
    String,
    /// Numbers, true, false and empty values are recognised
    Auto,
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=100_000) => Ok(number),
        Ok(_) | Err(_) => Err("it is a number from 1 to 100000".to_owned()),
    }
}

/// Ingests files.
pub(crate) fn run(ingest: Ingest) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(ingest.run());
    // A thread may still be reading a stream.
    runtime.shutdown_background();
    done
}

impl Ingest {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        let notes = self.output.notes("ingest");
        let mut signals = ShutdownSignals::install()?;
        let sources = self.open()?;
        let (checkpoint, positions) = self.positions(&sources)?;
        let rejects = Rejects::open(self.rejects.as_deref().filter(|_| !self.dry_run))?;
        let target = tokio::select! {
            target = self.target(&notes) => target?,
            () = signals.received() => return Err("interrupted while connecting; nothing was done".into()),
        };
        self.announce_positions(&notes, &sources, &positions);
        let mut outcome = IngestOutcome::of(&self, positions);
        let sources = Arc::new(sources);
        let mut work = IngestRun {
            notes,
            progress: self.progress(notes, &sources, &outcome.positions),
            sources: Arc::clone(&sources),
            checkpoint,
            rejects,
            max_rejects: self.max_rejects,
            outcome: &mut outcome,
            is_new: false,
        };
        let worked = work.run(&self, self.shape(), target, &mut signals).await;
        work.progress.end();
        if let Err(error) = worked {
            outcome.error = Some(error.to_string());
        }
        let summary = outcome.summary(self.output.paint(&io::stdout()));
        self.output.conclude(summary, outcome.to_json(&sources), outcome.verdict())
    }

    fn open(&self) -> Result<Vec<Source>, Box<dyn Error>> {
        if self.source.is_some() && self.files.len() > 1 {
            return Err(wrong("--source names one source: give one file with it"));
        }
        self.check_output_files()?;
        let asked = SourceOptions {
            format: self.format,
            name: self.source.as_deref(),
            keys_are_given: self.id.is_some(),
        };
        let mut sources: Vec<Source> = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let source = Source::open(file, asked)?;
            if sources.iter().any(|it| it.name == source.name) {
                return Err(wrong(format!(
                    "{}: another of the files has the same name and begins with the same record, so \
                     that their records could not be told apart; ingest them one by one, each with \
                     a --source of its own",
                    file.display()
                )));
            }
            sources.push(source);
        }
        Ok(sources)
    }

    /// Files that are written must not be those that are read.
    fn check_output_files(&self) -> Result<(), Box<dyn Error>> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let written = [("--rejects", &self.rejects), ("--checkpoint", &self.checkpoint)];
        for (option, path) in written {
            let Some(path) = path.as_deref().and_then(real) else { continue };
            if self.files.iter().any(|file| real(file).is_some_and(|file| file == path)) {
                return Err(wrong(format!("{option} is a file that is read")));
            }
        }
        if self.rejects.is_some() && self.rejects == self.checkpoint {
            return Err(wrong("--rejects and --checkpoint are the same file"));
        }
        Ok(())
    }

    /// The checkpoint, and where to begin with each source.
    fn positions(
        &self,
        sources: &[Source],
    ) -> Result<(Option<Checkpoint>, Vec<Position>), Box<dyn Error>> {
        let Some(path) = self.checkpoint.as_deref().filter(|_| !self.dry_run) else {
            return Ok((None, vec![Position::default(); sources.len()]));
        };
        let checkpoint = Checkpoint::open(path, &self.collection.to_string())?;
        let positions = sources.iter().map(|source| checkpoint.position(source));
        let positions = positions.collect::<Result<_, _>>()?;
        Ok((Some(checkpoint), positions))
    }

    async fn target(&self, notes: &Notes) -> Result<WriteTarget, Box<dyn Error>> {
        if self.dry_run {
            return Ok(WriteTarget::Nothing);
        }
        if let Some(datacenters) = &self.datacenters {
            let writer = datacenters.connect(&self.deployment, &self.collection, notes).await?;
            return Ok(WriteTarget::Datacenters(writer));
        }
        let on = self
            .deployment
            .to_uri_arg()
            .ok_or_else(|| wrong("say which deployment with --uri URI"))?;
        let client = on.connect(notes).await?;
        Ok(WriteTarget::Collection(self.collection_of(&client)))
    }

    /// What is acknowledged must stay, also if the server dies: a majority has it in its journal, unless the
    /// connection string says something else.
    fn collection_of(&self, client: &Client) -> steadfast::Collection<RawDocumentBuf> {
        let Namespace { db, coll } = &self.collection;
        let concern = client.write_concern().cloned().unwrap_or_else(|| {
            let mut concern = WriteConcern::majority();
            concern.journal = Some(true);
            concern
        });
        let mut options = CollectionOptions::default();
        options.write_concern = Some(concern);
        client.database(db).collection_with_options(coll, options)
    }

    fn shape(&self) -> Shape {
        Shape {
            is_typed: self.types == Types::Auto,
            id: self.id.clone(),
            key_field: self.datacenters.is_some().then(|| self.key_field.clone()),
        }
    }

    fn announce_positions(&self, notes: &Notes, sources: &[Source], positions: &[Position]) {
        if self.datacenters.is_some() && self.checkpoint.is_none() && !self.dry_run {
            notes.info("without --checkpoint FILE, another run writes everything once more");
        }
        for (source, position) in sources.iter().zip(positions) {
            if position.offset > 0 {
                let Position { offset, lines } = position;
                notes.info(format_args!(
                    "{} goes on at byte {offset} (line {})",
                    source.file,
                    lines + 1
                ));
            }
        }
    }

    fn progress(&self, notes: Notes, sources: &[Source], positions: &[Position]) -> Progress {
        let total = sources.iter().map(|source| source.size).sum();
        let before = positions.iter().map(|position| position.offset).sum();
        Progress::begin(notes, self.output.paint(&io::stderr()), total, before)
    }
}
