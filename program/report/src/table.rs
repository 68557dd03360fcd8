//! Text tables: columns as wide as their widest cell, in plain text or Markdown.

/// A table. Its cells may contain ANSI styles, which take no room.
#[derive(Clone, Debug)]
pub struct Table {
    is_right: Vec<bool>,
    /// Titles and rows.
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with columns whose titles are separated by `|`.
    ///
    /// A column is aligned to the left, or to the right if its title begins with `>`.
    pub fn new(titles: &str) -> Self {
        let is_right = titles.split('|').map(|title| title.starts_with('>')).collect();
        let titles = titles.split('|').map(|title| title.trim_start_matches('>').to_owned());
        Self { is_right, rows: vec![titles.collect()] }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl ToString>) {
        self.rows.push(cells.into_iter().map(|cell| cell.to_string()).collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.is_right.len()));
    }

    /// Returns the titles and the rows as lines without trailing spaces, with two spaces between columns.
    ///
    /// A column without text in any row is left out.
    pub fn lines(&self) -> Vec<String> {
        let has_text = |column: usize| self.rows[1..].iter().any(|row| !row[column].is_empty());
        let is_shown = |column: &usize| self.rows.len() == 1 || has_text(*column);
        let shown: Vec<usize> = (0..self.is_right.len()).filter(is_shown).collect();
        let rows = self.padded().into_iter().map(|row| {
            let cells: Vec<&str> = shown.iter().map(|column| row[*column].as_str()).collect();
            cells.join("  ").trim_end().to_owned()
        });
        rows.collect()
    }

    /// Returns the table as Markdown that is aligned in plain text, too.
    pub fn markdown(&self) -> String {
        let rows = self.padded();
        let rule = rows[0].iter().zip(&self.is_right).map(|(title, is_right)| {
            let dashes = "-".repeat(width(title) + 1);
            if *is_right { format!("{dashes}:") } else { format!(":{dashes}") }
        });
        let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
        let mut lines: Vec<String> =
            rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
        lines.insert(1, rule);
        lines.concat()
    }

    fn padded(&self) -> Vec<Vec<String>> {
        let mut rows = self.rows.clone();
        for (column, is_right) in self.is_right.iter().enumerate() {
            let widest = rows.iter().map(|row| width(&row[column])).max().unwrap_or_default();
            for cell in rows.iter_mut().map(|row| &mut row[column]) {
                let padding = " ".repeat(widest - width(cell));
                cell.insert_str(if *is_right { 0 } else { cell.len() }, &padding);
            }
        }
        rows
    }
}

/// Number of characters on a terminal. A style begins with an escape character and ends with an `m`.
fn width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    let styled = parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count()));
    first + styled.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> Table {
        let mut table = Table::new("name|tags|>count");
        rows.iter().for_each(|row| table.row(row));
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(&[["a", "x=1", "7"], ["µ-long", "", "1,000,000"]]).lines();
        let expected =
            ["name    tags      count", "a       x=1           7", "µ-long        1,000,000"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn empty_columns_are_left_out() {
        assert_eq!(table(&[["a", "", "7"]]).lines(), ["name  count", "a         7"]);
        assert_eq!(table(&[]).lines(), ["name  tags  count"]);
    }

    #[test]
    fn styles_take_no_room() {
        let lines = table(&[["\u{1b}[1;31mred\u{1b}[0m", "x", "1"], ["b", "x", "2"]]).lines();
        let expected = ["\u{1b}[1;31mred\u{1b}[0m   x         1", "b     x         2"];
        assert_eq!(lines[1..], expected);
    }

    #[test]
    fn markdown_has_a_rule_with_the_alignment() {
        let expected =
            "| name | tags | count |\n|:-----|:-----|------:|\n| a    | x    |     7 |\n";
        assert_eq!(table(&[["a", "x", "7"]]).markdown(), expected);
    }
}
