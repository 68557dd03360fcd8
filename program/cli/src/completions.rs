//! `steadfast completions`: shell completion scripts.

use clap::Args;
use clap_complete::Shell;

use crate::{arguments, context::CommandResult, notes};

/// Print a shell script that completes commands and options
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell of the script
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

Exit status: 0 on success, 1 if the script could not be printed, 2 if the arguments are wrong.";

/// Prints the script.
pub(crate) fn run(completions: &Completions) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(
        completions.shell,
        &mut arguments::definition(),
        "steadfast",
        &mut script,
    );
    Ok(notes::print(String::from_utf8(script)?.trim_end())?)
}
