//! Comparison of the driver with a raw socket and with the official driver, measured in one run.
//!
//! Each figure comes from its own process, so that memory, processor time and allocations of the contenders are separate.
//! The parent process starts the measuring processes in turn and prints the table. Results are in `docs/speed.md`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

mod arguments;
mod canned;
mod case;
mod comparison;
mod contender;
mod counts;
mod document;
mod measure;
mod measurement;
mod op_msg;
mod picture;
mod servers;
mod table;
mod trial;
mod workload;

use std::process::ExitCode;

pub use measure::Allocations;

use crate::arguments::Task;

/// Error that ends the program with its message.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, BoxError>;

/// Runs the program. `allocations` returns the allocations of this process, if its allocator counts them.
pub fn main(allocations: Option<fn() -> Allocations>) -> ExitCode {
    let task = match Task::from_command_line(std::env::args().skip(1)) {
        Ok(task) => task,
        Err(message) => {
            eprintln!("{message}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    let outcome = match task {
        Task::Help => {
            println!("{}", arguments::USAGE);
            Ok(())
        }
        Task::Compare(options) => comparison::run(&options),
        Task::Count(options) => counts::run(&options),
        #[cfg(feature = "mongod")]
        Task::Failover => trial::failover::run(),
        #[cfg(not(feature = "mongod"))]
        Task::Failover => Err(servers::NO_MONGOD.into()),
        Task::Churn => trial::churn::run(),
        Task::Shed => trial::shed::run(),
        Task::Idle => trial::idle::run(),
        #[cfg(feature = "mongod")]
        Task::Overload(options) => trial::overload::run(&options),
        Task::Table { samples } => table::print_markdown(&samples),
        Task::Picture { samples, picture } => picture::draw(&samples, &picture),
        Task::Serve => canned::serve(),
        Task::Measurement(measurement) => measurement.run(allocations),
        Task::Hold(holder) => holder.run(allocations),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
