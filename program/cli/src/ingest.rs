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
/// Each record gets an _id made of its source and the byte offset of its beginning, such as
/// orders.csv-4bd1f0a8c2e93d57:000000012345. The _id is the same in every run, so a run after a crash, or a second
/// run by mistake, inserts no document twice. Inserts are retried after transient errors, with the same _ids. Records
/// that cannot be inserted are rejected, with the reason.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Ingest {
    #[command(flatten)]
    deployment: OptionalUriArg,

    /// Collection that gets the documents
    #[arg(long, value_name = "DATABASE.COLLECTION", value_parser = database::namespace)]
    collection: Namespace,

    /// Files to read; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    /// Format of the records; by default that of the file name extension: .ndjson, .jsonl, .json or .csv
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Types of CSV values
    #[arg(long, value_enum, default_value_t = Types::String)]
    types: Types,

    /// Field whose value becomes the _id; each record must have it
    ///
    /// Of several records with the same value, the first is inserted; the others count as existing. Without this
    /// option, a record keeps its _id, and a record without one gets an _id from its position.
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,

    /// Name of the source, used in the _ids
    ///
    /// The default is the file name, without folders, and a fingerprint of the first record. It stays the same if the
    /// file is moved or grows, and it distinguishes two files of one name unless they begin with the same record. For
    /// a renamed file, set the old name; otherwise all its records are new. A stream has no such name and requires
    /// this option or --id.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Number of documents in a batch
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = count)]
    batch: usize,

    /// Number of batches that are written in parallel
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = count)]
    parallel: usize,

    /// Append rejected records to this file, as JSON lines with source, offset, line, reason and raw
    ///
    /// The file is created for the first rejected record. Without this option, the first ten are printed, and the
    /// exit status is 1 if there are any. After a crash, the file may contain a record twice, with the same offset.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Stop after more rejected records than this
    #[arg(long, value_name = "NUMBER")]
    max_rejects: Option<u64>,

    /// Store the position in each source in this file, and continue there in the next run
    ///
    /// Without a checkpoint, another run is correct, too, but reads everything again and checks for each record
    /// whether it exists. A file that was changed other than by appending is an error.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Time without a successful insert after which the run fails; until then, transient errors are retried
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    retry_timeout: Duration,

    /// Write to the nearest of these datacenters that acknowledges, instead of one deployment
    ///
    /// Names, nearest first, are those of one cluster (--uri). Names with connection strings are separate
    /// deployments. A document gets a new _id for each datacenter that is tried, and its key in the field
    /// --key-field. Therefore another run relies on the checkpoint, and steadfast dedupe --key ingest_key finds
    /// duplicates.
    #[arg(long, value_name = "NAME[=URI],…", value_parser = datacenters::parse)]
    datacenters: Option<Datacenters>,

    /// With --datacenters: field for the key that is otherwise the _id
    #[arg(long, value_name = "FIELD", default_value = "ingest_key", requires = "datacenters")]
    key_field: String,

    /// Read everything and report what would be rejected, but write nothing; no deployment is needed
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection shop.orders orders.ndjson
  shop.orders: 1000000 documents added

  Many files; after a crash or Ctrl-C, the next run continues:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection app.log --checkpoint log.at \\
      --rejects rejected.ndjson day-*.ndjson

  A CSV file with the key in a field:
  $ steadfast ingest --uri mongodb://localhost:27017 --collection shop.customers --id email --types auto \\
      customers.csv

  From another program; each stream needs its own name:
  $ zcat export.gz | steadfast ingest --uri mongodb://localhost:27017 --collection app.log \\
      --format ndjson --source export-2026-01 -

An _id ends with the byte offset of the record, which finds the record of a document:
  $ tail -c +12346 orders.csv | head -n 1

If the collection has a collation, a duplicate key error does not show whether the _id is the same: records
of an earlier run are then rejected instead of being counted as existing.

Exit status: 0 on success, 1 after an error, an interruption or rejected records without --rejects, 2 if the
arguments are wrong. Ctrl-C (or SIGTERM) waits for the batches in progress and writes the checkpoint.";

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
        Ok(_) | Err(_) => Err("expected a number from 1 to 100000".to_owned()),
    }
}

/// Runs the command.
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
            has_progress: false,
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
            return Err(wrong("--source requires a single file: ingest one file per run"));
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
                    "{}: another file has the same name and the same first record, so their records would get \
                     the same _ids; ingest the files one by one, each with its own --source",
                    file.display()
                )));
            }
            sources.push(source);
        }
        Ok(sources)
    }

    /// Checks that no output file is also an input file.
    fn check_output_files(&self) -> Result<(), Box<dyn Error>> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let written = [("--rejects", &self.rejects), ("--checkpoint", &self.checkpoint)];
        for (option, path) in written {
            let Some(path) = path.as_deref().and_then(real) else { continue };
            if self.files.iter().any(|file| real(file).is_some_and(|file| file == path)) {
                return Err(wrong(format!("{option} is also an input file")));
            }
        }
        if self.rejects.is_some() && self.rejects == self.checkpoint {
            return Err(wrong("--rejects and --checkpoint are the same file"));
        }
        Ok(())
    }

    /// Returns the checkpoint and the starting position of each source.
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
        let on = self.deployment.to_uri_arg().ok_or_else(|| {
            wrong("a deployment is required: use --uri URI or the variable STEADFAST_URI")
        })?;
        let client = on.connect(notes).await?;
        Ok(WriteTarget::Collection(self.collection_of(&client)))
    }

    /// Returns the collection. Without a write concern in the connection string, writes are acknowledged by a
    /// majority and journaled: they survive a crash.
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
            notes.info("without --checkpoint FILE, another run inserts all records again");
        }
        for (source, position) in sources.iter().zip(positions) {
            if position.offset > 0 {
                let Position { offset, lines } = position;
                notes.info(format_args!(
                    "{} continues at byte {offset} (line {})",
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
