//! Reading of a layout file.

use std::{fs, path::Path};

use steadfast_patterns::zones::Layout;

use crate::notes::WrongArguments;

/// Reads a layout. An error has the position in the file.
pub(super) fn read(path: &Path) -> Result<Layout, WrongArguments> {
    let wrong = |why: String| WrongArguments(format!("the layout {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    /// The example of `--help` is a layout.
    #[test]
    fn example_of_the_help_is_a_layout() {
        let example = super::super::EXAMPLES;
        let begin = example.find("collection =").unwrap();
        let end = example.find("Getting started").unwrap();
        let layout: super::Layout = toml::from_str(&example[begin..end]).unwrap();
        assert_eq!(layout.datacenters().len(), 2);
        assert_eq!(layout.datacenter_field(), "datacenter");
    }
}
