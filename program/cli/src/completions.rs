//! `steadfast completions`: what a shell needs to know to complete command lines.

use clap::Args;
use clap_complete::Shell;

use crate::{arguments, errand::Done, notes};

/// Print a script with which a shell completes commands and options
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell that it is for
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  Bash, with the package bash-completion:
  $ mkdir -p ~/.local/share/bash-completion/completions
  $ steadfast completions bash > ~/.local/share/bash-completion/completions/steadfast

  Bash without it, in ~/.bashrc:
  $ source <(steadfast completions bash)

  Zsh, into a folder that $fpath names before compinit is called:
  $ steadfast completions zsh > ~/.zfunc/_steadfast

  Fish:
  $ steadfast completions fish > ~/.config/fish/completions/steadfast.fish

  Elvish, in ~/.config/elvish/rc.elv:
  $ eval (steadfast completions elvish | slurp)

  PowerShell, in $PROFILE:
  $ steadfast completions powershell | Out-String | Invoke-Expression

Exit status: 0 if all went well, 1 if it could not be printed, 2 if the arguments are wrong.";

/// Prints the script.
pub(crate) fn run(completions: &Completions) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(
        completions.shell,
        &mut arguments::definition(),
        "steadfast",
        &mut script,
    );
    Ok(notes::print(String::from_utf8(script)?.trim_end())?)
}
