//! Text tables: columns as wide as their widest cell, in plain text or Markdown.

/// A column of a table: its title and the side that its cells are aligned to.
#[derive(Clone, Debug)]
pub struct Column {
    title: String,
    is_right: bool,
}

/// Returns a column that is aligned to the left.
pub fn left(title: impl Into<String>) -> Column {
    Column { title: title.into(), is_right: false }
}

/// Returns a column that is aligned to the right, as numbers are.
pub fn right(title: impl Into<String>) -> Column {
    Column { title: title.into(), is_right: true }
}

/// A table. Titles and cells may contain ANSI styles, which take no room.
#[derive(Clone, Debug)]
pub struct Table<const COLUMNS: usize> {
    columns: [Column; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// Returns a table without rows.
    pub fn new(columns: [Column; COLUMNS]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells);
    }

    /// Returns the titles and the rows as lines without trailing spaces, with two spaces between columns.
    ///
    /// A column without text in any row is left out.
    pub fn lines(&self) -> Vec<String> {
        let is_shown = |column: &usize| {
            self.rows.is_empty() || self.rows.iter().any(|row| !row[*column].is_empty())
        };
        let shown: Vec<usize> = (0..COLUMNS).filter(is_shown).collect();
        let line = |cells: [&str; COLUMNS]| {
            let cells = shown.iter().map(|&column| self.padded(column, cells[column]));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.cells().map(line).collect()
    }

    /// Returns the table as Markdown that is aligned in plain text, too.
    pub fn markdown(&self) -> String {
        let line = |cells: [&str; COLUMNS]| {
            let cells = (0..COLUMNS).map(|column| self.padded(column, cells[column]));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut lines: Vec<String> = self.cells().map(line).collect();
        let rule = (0..COLUMNS).map(|column| {
            let dashes = "-".repeat(self.width(column) + 1);
            if self.columns[column].is_right { format!("{dashes}:") } else { format!(":{dashes}") }
        });
        lines.insert(1, format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
        lines.concat()
    }

    /// The titles, then each row.
    fn cells(&self) -> impl Iterator<Item = [&str; COLUMNS]> {
        let titles = self.columns.each_ref().map(|column| column.title.as_str());
        let rows = self.rows.iter().map(|row| row.each_ref().map(String::as_str));
        std::iter::once(titles).chain(rows)
    }

    fn width(&self, column: usize) -> usize {
        self.cells().map(|cells| width(cells[column])).max().unwrap_or_default()
    }

    fn padded(&self, column: usize, cell: &str) -> String {
        let padding = " ".repeat(self.width(column) - width(cell));
        if self.columns[column].is_right { padding + cell } else { cell.to_owned() + &padding }
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

    fn table(rows: &[[&str; 3]]) -> Table<3> {
        let mut table = Table::new([left("name"), left("tags"), right("count")]);
        rows.iter().for_each(|row| table.row(row.map(str::to_owned)));
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(&[["a", "x=1", "7"], ["µ-long", "", "1,000,000"]]).lines();
        assert_eq!(
            lines,
            ["name    tags      count", "a       x=1           7", "µ-long        1,000,000"]
        );
    }

    #[test]
    fn empty_columns_are_left_out() {
        assert_eq!(table(&[["a", "", "7"]]).lines(), ["name  count", "a         7"]);
        assert_eq!(table(&[]).lines(), ["name  tags  count"]);
    }

    #[test]
    fn styles_take_no_room() {
        let lines = table(&[["\u{1b}[1;31mred\u{1b}[0m", "x", "1"], ["b", "x", "2"]]).lines();
        assert_eq!(lines[1..], ["\u{1b}[1;31mred\u{1b}[0m   x         1", "b     x         2"]);
    }

    #[test]
    fn markdown_has_a_rule_with_the_alignment() {
        let text = table(&[["a", "x", "7"]]).markdown();
        assert_eq!(
            text,
            "| name | tags | count |\n|:-----|:-----|------:|\n| a    | x    |     7 |\n"
        );
    }
}
