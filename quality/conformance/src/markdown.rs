//! Tables of `docs/conformance.md`: figures and reasons of skipped cases, by suite and target.

use std::{collections::BTreeMap, fmt::Write};

use crate::{SuiteReport, Target, figures::Figures};

/// Lines around the generated part of a document.
const BEGIN: &str =
    "<!-- begin: written by `cargo run --release -p conformance -- --target all` -->";
const END: &str = "<!-- end -->";

/// Reports of all suites on one target.
#[derive(Clone, Debug)]
pub struct TargetReport {
    /// The target.
    pub target: Target,
    /// The reports, in the order of the suites.
    pub reports: Vec<SuiteReport>,
}

/// Computes the figures of reports, which must cover all targets and the same suites.
///
/// # Errors
///
/// Fails and names the target if a target is missing or has other suites.
pub fn figures_of(run: &[TargetReport]) -> Result<Vec<Figures>, String> {
    let by_target: Vec<&TargetReport> = Target::ALL
        .iter()
        .map(|target| {
            let of_target = run.iter().find(|of_target| of_target.target == *target);
            of_target.ok_or_else(|| format!("{} was not run", target.name()))
        })
        .collect::<Result<_, _>>()?;
    let suites = by_target[0].reports.iter().map(|report| report.suite);
    let figures = suites.enumerate().map(|(at, suite)| {
        let mut on = [(0, 0); Target::ALL.len()];
        let mut passed_somewhere: Vec<bool> = Vec::new();
        for (figures, of_target) in on.iter_mut().zip(&by_target) {
            let report = of_target.reports.get(at).filter(|report| report.suite == suite);
            let report = report
                .ok_or_else(|| format!("{suite} was not run on {}", of_target.target.name()))?;
            *figures = (report.passed, report.skipped());
            if !of_target.target.is_embedded() {
                passed_somewhere
                    .resize(report.passed_cases.len().max(passed_somewhere.len()), false);
                let cases = passed_somewhere.iter_mut().zip(&report.passed_cases);
                cases.for_each(|(somewhere, here)| *somewhere |= here);
            }
        }
        let on_real_servers = passed_somewhere.into_iter().filter(|&passed| passed).count();
        Ok(Figures { suite, on_real_servers, on })
    });
    figures.collect()
}

/// Formats the table of passed and, in parentheses, skipped cases.
pub fn figures_table(figures: &[Figures]) -> String {
    let mut table = "| suite |".to_owned();
    for target in Target::ALL {
        push(&mut table, format_args!(" `{}` |", target.name()));
    }
    table.push_str(" on a real server | of |\n|---|");
    table.push_str(&"---|".repeat(Target::ALL.len() + 2));
    table.push('\n');
    for line in figures {
        push_line(&mut table, &format!("`{}`", line.suite), line);
    }
    let mut total = Figures { suite: "total", on_real_servers: 0, on: [(0, 0); Target::ALL.len()] };
    for line in figures {
        total.on_real_servers += line.on_real_servers;
        for (sum, here) in total.on.iter_mut().zip(line.on) {
            *sum = (sum.0 + here.0, sum.1 + here.1);
        }
    }
    push_line(&mut table, total.suite, &total);
    table
}

fn push_line(table: &mut String, name: &str, figures: &Figures) {
    push(table, format_args!("| {name} |"));
    for (passed, skipped) in figures.on {
        match skipped {
            0 => push(table, format_args!(" {passed} |")),
            _ => push(table, format_args!(" {passed} ({skipped}) |")),
        }
    }
    push(table, format_args!(" {} | {} |\n", figures.on_real_servers, figures.total()));
}

/// Formats the table of reasons of skipped cases, with the number of cases on each target.
pub fn skips_table(run: &[TargetReport]) -> String {
    let mut reasons: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, of_target) in run.iter().enumerate() {
        for (reason, count) in of_target.reports.iter().flat_map(|report| &report.skip_reasons) {
            let counts = reasons.entry(group(reason)).or_insert_with(|| vec![0; run.len()]);
            counts[at] += count;
        }
    }
    let mut rows: Vec<_> = reasons.into_iter().collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<usize>()));
    let mut table = "| reason |".to_owned();
    for of_target in run {
        push(&mut table, format_args!(" `{}` |", of_target.target.name()));
    }
    push(&mut table, format_args!("\n|---|{}\n", "---|".repeat(run.len())));
    for (reason, counts) in rows {
        push(&mut table, format_args!("| {} |", reason.replace('|', "\\|")));
        for count in counts {
            match count {
                0 => table.push_str(" |"),
                _ => push(&mut table, format_args!(" {count} |")),
            }
        }
        table.push('\n');
    }
    table
}

/// Reason without the server version, so that the table has one row for all versions.
fn group(reason: &str) -> String {
    match reason.strip_prefix("needs server ") {
        Some(version) if version.ends_with(" or earlier") => "needs an older server".to_owned(),
        Some(version) if version.ends_with(" or later") => "needs a newer server".to_owned(),
        _ => reason.to_owned(),
    }
}

/// Replaces the generated part of a document, or appends it.
pub fn with_tables(document: &str, figures: &str, skips: &str) -> String {
    let part = format!("{BEGIN}\n\n{figures}\nSkipped cases by reason:\n\n{skips}\n{END}\n");
    let before = document.split_once(BEGIN).map(|(before, rest)| {
        let after = rest.split_once(END).map_or("", |(_, after)| after);
        (before, after.strip_prefix('\n').unwrap_or(after))
    });
    match before {
        Some((before, after)) => format!("{before}{part}{after}"),
        None if document.is_empty() => part,
        None => format!("{}\n\n{part}", document.trim_end()),
    }
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a string can be appended to");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Vec<TargetReport> {
        let of_target = |(at, target)| {
            let mut report = SuiteReport::new("handshake");
            // One case passes on the first target only, another on the embedded targets only.
            report.passed_cases = vec![true, at == 0, Target::is_embedded(&target)];
            report.passed = report.passed_cases.iter().filter(|&&passed| passed).count();
            for _ in report.passed..3 {
                report.skip("needs server 9.9 or later".to_owned());
            }
            TargetReport { target, reports: vec![report] }
        };
        Target::ALL.into_iter().enumerate().map(of_target).collect()
    }

    #[test]
    fn case_that_passes_on_several_real_servers_is_counted_once() {
        let figures = figures_of(&run()).unwrap();
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].on_real_servers, 2);
        assert_eq!(figures[0].on[..2], [(2, 1), (1, 2)]);
        let without_one: Vec<_> = run().into_iter().skip(1).collect();
        assert_eq!(figures_of(&without_one).unwrap_err(), "mongod-6.0 was not run");
    }

    #[test]
    fn tables_have_a_row_per_suite_and_per_reason() {
        let figures = figures_table(&figures_of(&run()).unwrap());
        assert!(figures.contains("| `handshake` | 2 (1) | 1 (2) |"), "{figures}");
        assert!(figures.ends_with("| 2 | 3 |\n"), "{figures}");
        let skips = skips_table(&run());
        assert!(skips.contains("| needs a newer server | 1 | 2 | 2 |"), "{skips}");
    }

    #[test]
    fn with_tables_replaces_only_the_generated_part() {
        let first = with_tables("# Title\n", "a table\n", "reasons\n");
        assert!(first.starts_with("# Title\n\n<!-- begin"), "{first}");
        let second = with_tables(&format!("{first}\nThe end.\n"), "another\n", "reasons\n");
        assert!(second.contains("another") && !second.contains("a table"), "{second}");
        assert!(
            second.starts_with("# Title\n\n<!-- begin") && second.ends_with("-->\n\nThe end.\n")
        );
    }
}
