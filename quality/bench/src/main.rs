//! The comparing program: `cargo run --release -p bench --all-features -- --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::main(None)
}
