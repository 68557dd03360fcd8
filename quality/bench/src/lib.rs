//! The driver beside a raw socket and beside the official driver, measured in one run.
//!
//! Every figure comes from a process of its own, so that one contender's memory, processor time and
//! allocations are not another's; the process that was started by hand only takes turns among them
//! and prints the table. See `docs/speed.md` for what it showed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

mod arguments;
mod canned;
mod case;
mod comparison;
mod contender;
mod counts;
mod document;
mod measure;
mod op_msg;
mod picture;
mod servers;
mod single;
mod table;
mod trial;
mod workload;

use std::process::ExitCode;

pub use measure::Allocations;

use crate::arguments::Task;

/// What can go wrong here ends the program, and only its words matter.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

/// The program. `allocations` tells what this process has allocated so far, if it counts that.
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
        Task::Compare(wishes) => comparison::run(&wishes),
        Task::Count(wishes) => counts::run(&wishes),
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
        Task::Single(single) => single.run(allocations),
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
