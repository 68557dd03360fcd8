//! Tables that become a list of cards where the screen is narrow.

use super::plot::put;

/// A table while it is filled. Titles and cells are HTML.
pub(super) struct Table<'a> {
    titles: &'a [&'a str],
    html: String,
}

impl<'a> Table<'a> {
    /// The first title is that of what the rows are about.
    ///
    /// The roles are those that the elements have by themselves, and lose where they are laid out as cards.
    pub(super) fn new(caption: &str, class: &str, titles: &'a [&'a str]) -> Self {
        let mut html = format!(
            r#"<table role="table" class="{class}"><caption>{caption}</caption><thead role="rowgroup"><tr role="row">"#
        );
        for title in titles {
            put(&mut html, format_args!(r#"<th scope="col" role="columnheader">{title}</th>"#));
        }
        html.push_str("</tr></thead><tbody role=\"rowgroup\">\n");
        Self { titles, html }
    }

    pub(super) fn row(&mut self, about: &str, cells: &[String]) {
        put(
            &mut self.html,
            format_args!(r#"<tr role="row"><th scope="row" role="rowheader">{about}</th>"#),
        );
        for (title, cell) in self.titles[1..].iter().zip(cells) {
            let none = if cell == "0" { r#" class="none""# } else { "" };
            put(
                &mut self.html,
                format_args!(r#"<td role="cell" data-title="{title}"{none}>{cell}</td>"#),
            );
        }
        self.html.push_str("</tr>\n");
    }

    pub(super) fn html(self) -> String {
        self.html + "</tbody></table>\n"
    }
}
