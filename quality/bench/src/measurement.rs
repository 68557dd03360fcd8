//! One measurement, in a process of its own: one contender, one workload, one server.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use steadfast_report::quantiles::Histogram;
use tokio::{runtime, task::JoinSet};

use crate::{
    Result,
    contender::{Contender, Job, Worker},
    measure::{Allocations, peak_memory, processor_time},
    workload::Workload,
};

/// Parameters of a measuring process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) contender: Contender,
    pub(crate) workload: Workload,
    pub(crate) address: SocketAddr,
    pub(crate) set: String,
    pub(crate) tasks: u32,
    pub(crate) connections: u32,
    /// Documents per call of a multi-document workload.
    pub(crate) documents: usize,
    pub(crate) load: LoadPlan,
    /// Uses a single-threaded runtime, so that counts are reproducible.
    pub(crate) one_thread: bool,
}

/// Work before and during the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LoadPlan {
    pub(crate) warm_up: WorkAmount,
    pub(crate) measured: WorkAmount,
}

/// Work of each task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkAmount {
    /// Calls for this many milliseconds, but at least one.
    Millis(u64),
    /// This many calls.
    Calls(u64),
}

impl WorkAmount {
    fn is_done(self, calls: u64, elapsed: Duration) -> bool {
        match self {
            Self::Millis(millis) => elapsed >= Duration::from_millis(millis),
            Self::Calls(wanted) => calls >= wanted,
        }
    }
}

/// Figures of the measured part of the work.
pub(crate) struct WorkFigures {
    elapsed: Duration,
    processor: Duration,
    allocated: Option<Allocations>,
    latencies: Histogram,
}

/// Output of a measuring process. Figures are per unit: an operation or a document.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) units: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    pub(crate) processor_micros: f64,
    pub(crate) allocations: Option<f64>,
    pub(crate) allocated_bytes: Option<f64>,
    pub(crate) peak_bytes: u64,
}

thread_local! {
    static ALLOCATIONS: std::cell::Cell<Option<fn() -> Allocations>> =
        const { std::cell::Cell::new(None) };
}

impl Measurement {
    /// Measures and prints the sample.
    pub(crate) fn run(&self, allocations: Option<fn() -> Allocations>) -> Result<()> {
        ALLOCATIONS.set(allocations);
        let mut builder = match self.one_thread {
            true => runtime::Builder::new_current_thread(),
            false => runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build()?;
        let job = Job {
            workload: self.workload,
            address: self.address,
            set: self.set.clone(),
            tasks: self.tasks,
            connections: self.connections,
            documents: self.documents,
        };
        let measured = runtime.block_on(self.contender.work(&job, self.load))?;
        let sample = measured.sample(self.workload.units(self.documents))?;
        println!("{}", serde_json::to_string(&sample)?);
        Ok(())
    }
}

impl LoadPlan {
    /// Runs the workers, first to warm up and then to measure.
    pub(crate) async fn run<W: Worker>(self, workers: Vec<W>) -> Result<WorkFigures> {
        let (workers, _) = run_concurrently(workers, self.warm_up).await?;
        let allocations = ALLOCATIONS.get();
        let (before, allocated) = (processor_time()?, allocations.map(|count| count()));
        let began = Instant::now();
        let (workers, latencies) = run_concurrently(workers, self.measured).await?;
        let elapsed = began.elapsed();
        let processor = processor_time()?.saturating_sub(before);
        let allocated = allocated.zip(allocations).map(|(before, count)| count().since(before));
        drop(workers);
        Ok(WorkFigures { elapsed, processor, allocated, latencies })
    }
}

/// Runs each worker in its own task, as in a server application.
async fn run_concurrently<W: Worker>(
    workers: Vec<W>,
    amount: WorkAmount,
) -> Result<(Vec<W>, Histogram)> {
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(worker.call_until(move |calls, elapsed| amount.is_done(calls, elapsed)));
    }
    let mut workers = Vec::with_capacity(tasks.len());
    let mut latencies = Histogram::default();
    while let Some(ended) = tasks.join_next().await {
        let (worker, of_worker) = ended??;
        workers.push(worker);
        latencies.merge(&of_worker);
    }
    Ok((workers, latencies))
}

impl WorkFigures {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn sample(&self, units_per_call: u64) -> Result<Sample> {
        let units = self.latencies.count() * units_per_call;
        let each = |total: f64| total / units as f64;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        Ok(Sample {
            units,
            per_second: units as f64 / self.elapsed.as_secs_f64(),
            p50_micros: micros(self.latencies.quantile(500)),
            p99_micros: micros(self.latencies.quantile(990)),
            processor_micros: each(micros(self.processor)),
            allocations: self.allocated.map(|allocated| each(allocated.count as f64)),
            allocated_bytes: self.allocated.map(|allocated| each(allocated.bytes as f64)),
            peak_bytes: peak_memory()?,
        })
    }
}
