//! The program that compares: `cargo run --release -p bench -- --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::main(None)
}
