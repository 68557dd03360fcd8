//! Tables that become lists of cards on narrow screens.

use maud::{Markup, html};

/// Returns a table. The first title is that of the row headers; each row is its header and the other cells.
///
/// The ARIA roles are those of the elements, which lose them where they are laid out as cards.
pub(super) fn table(
    caption: &str,
    class: &str,
    titles: &[&str],
    rows: impl Iterator<Item = (Markup, Vec<String>)>,
) -> Markup {
    html! {
        table role="table" class=(class) {
            caption { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for title in titles { th scope="col" role="columnheader" { (title) } }
                }
            }
            tbody role="rowgroup" {
                @for (header, cells) in rows {
                    tr role="row" {
                        th scope="row" role="rowheader" { (header) }
                        @for (title, cell) in titles[1..].iter().zip(&cells) {
                            td.none[cell == "0"] role="cell" data-title=(title) { (cell) }
                        }
                    }
                }
            }
        }
    }
}
