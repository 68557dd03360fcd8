//! Arguments of the program: the list of commands and its help.

use std::fmt::Write;

use clap::{
    CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};

use crate::{
    chaos, completions, dedupe, demo, doctor, ingest, manual, paint::Colors, pipe, serve, simulate,
    sweep, zones,
};

/// Tools for applications whose writes must happen exactly once
#[derive(Debug, Parser)]
#[command(
    name = "steadfast",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_long_help = COMMON_RULES
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Use colours; `auto`: on a terminal, unless the variable NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        value_enum,
        help_heading = "Output"
    )]
    pub(crate) color: Colors,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Simulate(simulate::Simulate),
    Chaos(chaos::Chaos),
    Doctor(doctor::Doctor),
    Ingest(ingest::Ingest),
    Sweep(sweep::Sweep),
    Zones(zones::Zones),
    Dedupe(dedupe::Dedupe),
    Pipe(pipe::Pipe),
    Serve(serve::Serve),
    Completions(completions::Completions),
    Manual(manual::Manual),
}

/// Commands by purpose.
pub(crate) const GROUPS: [(&str, &[&str]); 5] = [
    ("See it", &["demo", "simulate"]),
    ("Prove it", &["chaos", "doctor"]),
    ("Use it", &["ingest", "sweep", "zones", "dedupe"]),
    ("Test with it", &["pipe", "serve"]),
    ("Help", &["completions", "manual"]),
];

/// Rules that all commands follow.
pub(crate) const COMMON_RULES: &str = "\
Results go to standard output, notes and errors to standard error. With --json, a result is a document on one \
line; its field `error` contains the error message, or null. A command that fails before it has a result prints \
a document with `error` only. After wrong arguments, standard output is empty.

Exit status: 0 on success, 1 after an error, an interruption or a negative result, 2 if the arguments are \
wrong.

Ctrl-C (or SIGTERM) ends a command, which then prints what it has done.";

/// Returns the definition of all arguments, with the commands in their groups.
pub(crate) fn definition() -> clap::Command {
    let definition = Arguments::command();
    let head = *definition.get_styles().get_header();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\n{head}Options:{head:#}\n{{options}}{{after-help}}",
        groups(&definition)
    );
    definition.help_template(template).override_usage("steadfast <COMMAND> [OPTIONS]")
}

/// Parses the arguments of the program. Prints help or an argument error and exits if necessary.
pub(crate) fn read() -> (Arguments, clap::ArgMatches) {
    let colors = Colors::find_in(std::env::args_os());
    let matches = definition().color(colors.into()).try_get_matches();
    let matches = matches.unwrap_or_else(|error| without_passwords(error).exit());
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    (arguments, matches)
}

/// Removes passwords from an error message, which quotes arguments: a misplaced connection string may contain one.
fn without_passwords(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue, ContextKind::InvalidSubcommand]
    {
        if let Some(ContextValue::String(quoted)) = error.get(kind)
            && let Some(shown) = without_password(quoted)
        {
            error.insert(kind, ContextValue::String(shown));
        }
    }
    error
}

/// Returns a connection string without its user and password, or `None` if it has neither.
fn without_password(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("://")?;
    let (_, after) = rest.rsplit_once('@')?;
    Some(format!("{before}://…@{after}"))
}

fn groups(definition: &clap::Command) -> String {
    let (head, name) =
        (definition.get_styles().get_header(), definition.get_styles().get_literal());
    let mut text = String::new();
    for (title, commands) in GROUPS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{head}{title}:{head:#}");
        for command in commands {
            let about = definition.find_subcommand(command).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name}{command:<13}{name:#}{about}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn misplaced_connection_string_is_quoted_without_its_password() {
        for typed in [
            &["steadfast", "doctor", "mongodb://a", "mongodb://app:secret@b"][..],
            &["steadfast", "mongodb://app:secret@b"],
            &["steadfast", "demo", "--color=mongodb://app:se@cret@b"],
        ] {
            let error = definition().try_get_matches_from(typed).unwrap_err();
            let said = without_passwords(error).to_string();
            assert!(!said.contains("secret") && !said.contains("cret@"), "{said}");
            assert!(said.contains("mongodb://…@b"), "{said}");
        }
    }

    #[test]
    fn every_command_is_listed_in_the_help() {
        let definition = definition();
        let named: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let existing: Vec<_> = definition.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(named, existing);
    }
}
