//! `steadfast manual`: the guide `docs/cli.md`, from the definitions of all commands.

mod text;

use clap::{Arg, ArgAction, Args, Command};

use self::text::Text;
use crate::{arguments, errand::Done, notes, output::Output};

/// Print the manual of all commands, as Markdown
///
/// The manual is made from the same definitions as the help. It is the content of docs/cli.md.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Manual {}

const EXAMPLES: &str = "\
Examples:
  In the repository, after a change of options or help:
  $ cargo run -p steadfast-cli -- manual > docs/cli.md

Exit status: 0 on success, 1 if the manual could not be printed, 2 if the arguments are wrong.";

/// Environment variables of the program.
const VARIABLES: [(&str, &str); 3] = [
    (
        "STEADFAST_URI",
        "the connection string, for commands without --uri. Other users of the machine cannot read its password \
         there. Not used by chaos.",
    ),
    ("NO_COLOR", "if it is set and not empty, there are no colours unless --color enables them."),
    (
        "STEADFAST_MONGOD",
        "the mongod of commands that start real servers, instead of a downloaded one.",
    ),
];

/// Prints the manual.
pub(crate) fn run() -> Done {
    Ok(notes::print(manual().trim_end())?)
}

fn manual() -> String {
    let mut definition = arguments::definition();
    definition.build();
    let mut text = Text::default();
    text.line("# The program `steadfast`");
    text.line(
        "<!-- Made of the definitions in program/cli by `steadfast manual`; a test compares. Change those, then run\n     \
         cargo run -p steadfast-cli -- manual > docs/cli.md -->",
    );
    let about = definition.get_about().map(ToString::to_string).unwrap_or_default();
    text.prose(&format!("{about}. Install it with `cargo install --path program/cli`, or use `cargo run -p \
         steadfast-cli --` instead of `steadfast` in the repository. Each command prints its part of this guide with \
         --help."));
    contents(&definition, &mut text);
    family(&mut text);
    for command in commands(&definition) {
        chapter(command, 2, &mut text);
    }
    text.finish()
}

/// Returns the commands in the order of the help.
fn commands(definition: &Command) -> impl Iterator<Item = &Command> {
    let names = arguments::GROUPS.iter().flat_map(|(_, names)| names.iter());
    names.filter_map(|name| definition.find_subcommand(name))
}

fn contents(definition: &Command, text: &mut Text) {
    let mut rows = vec!["| | | |\n|:--|:--|:--|".to_owned()];
    for (title, names) in arguments::GROUPS {
        for (place, name) in names.iter().enumerate() {
            let group = if place == 0 { format!("**{title}**") } else { String::new() };
            let about = definition.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            rows.push(format!("| {group} | [`{name}`](#steadfast-{name}) | {about} |"));
        }
    }
    text.line(&rows.join("\n"));
}

fn family(text: &mut Text) {
    text.line("## What all commands have in common");
    text.help(arguments::FAMILY);
    text.line("Options of all commands that have a result:");
    for arg in standard().get_arguments() {
        option(arg, text);
    }
    text.line("Environment variables:");
    for (name, what) in VARIABLES {
        text.item(&format!("`{name}`: {what}"));
    }
}

/// Options that are described once.
fn standard() -> Command {
    let mut standard = Output::augment_args(Command::new("all")).disable_help_flag(true);
    standard.build();
    standard
}

fn chapter(command: &Command, depth: usize, text: &mut Text) {
    let mut command = command.clone();
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    text.line(&format!("{} `{name}`", "#".repeat(depth)));
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let (first, more) = about.split_once("\n\n").unwrap_or((&about, ""));
    text.prose(&format!("{first}{}", stop(first)));
    text.help(more);
    let usage = command.render_usage().to_string();
    text.fence("text", usage.strip_prefix("Usage: ").unwrap_or(&usage));
    options(&command, text);
    for inner in command.get_subcommands().filter(|it| it.get_name() != "help") {
        chapter(inner, depth + 1, text);
    }
    if let Some(more) = command.get_after_long_help() {
        text.help(&more.to_string());
    }
}

/// Adds the arguments of a command: under each heading, positional ones first.
fn options(command: &Command, text: &mut Text) {
    let shared = standard();
    let is_shared = |arg: &Arg| {
        let same = shared.get_arguments().find(|it| it.get_id() == arg.get_id());
        same.is_some_and(|it| help(it) == help(arg))
    };
    let is_own = |arg: &&Arg| {
        let is_help = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !arg.is_hide_set() && !is_help && !is_shared(arg)
    };
    let own: Vec<&Arg> = command.get_arguments().filter(is_own).collect();
    let mut headings: Vec<Option<&str>> = vec![None];
    for arg in &own {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            text.line(&format!("*{heading}:*"));
        }
        let here = own.iter().filter(|arg| arg.get_help_heading() == heading);
        let (first, then): (Vec<&Arg>, Vec<&Arg>) = here.partition(|arg| arg.is_positional());
        for arg in first.into_iter().chain(then) {
            option(arg, text);
        }
    }
    if !own.is_empty()
        && command.get_arguments().any(|arg| arg.get_id() == "json" && is_shared(arg))
    {
        text.line("And the [options of all commands](#what-all-commands-have-in-common).");
    }
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

fn option(arg: &Arg, text: &mut Text) {
    let help = help(arg);
    let mut paragraphs = help.split("\n\n").map(|it| it.replace('\n', " "));
    let first = paragraphs.next().unwrap_or_default();
    let variable = arg.get_env().and_then(|name| name.to_str());
    let variable = variable.map(|name| format!(" (or the variable `{name}`)")).unwrap_or_default();
    // The name of an option and its values, without styles.
    text.item(&format!("`{}`{variable}: {first}{}", arg.to_string().trim(), stop(&first)));
    for paragraph in paragraphs {
        text.more(&paragraph);
    }
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|it| format!("`{}`", it.to_string_lossy())).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        text.more(&format!("Default: {}.", defaults.join(", ")));
    }
    values(arg, text);
}

/// Adds the possible values of an option.
fn values(arg: &Arg, text: &mut Text) {
    let values = arg.get_possible_values();
    let values: Vec<_> = values.iter().filter(|it| !it.is_hide_set()).collect();
    if values.is_empty() || !arg.get_action().takes_values() {
        return;
    }
    if values.iter().all(|value| value.get_help().is_none()) {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        return text.more(&format!("One of {}.", names.join(", ")));
    }
    for value in values {
        let what = value.get_help().map(|what| format!(": {what}")).unwrap_or_default();
        text.inner(&format!("`{}`{what}", value.get_name()));
    }
}

/// Full stop for the first line of a help, which has none.
fn stop(text: &str) -> &'static str {
    if text.ends_with(['.', ':', '?']) { "" } else { "." }
}
