//! The table of kinds in `docs/privacy.md` is that of the code.

use coracle_privacy::{Kind, national_id_countries};
use std::fmt::Write as _;

const PAGE: &str = include_str!("../../../docs/privacy.md");

#[test]
fn the_page_has_the_table_of_kinds() {
    let mut table = "| type | default | what is found |\n|---|---|---|\n".to_owned();
    for row in Kind::table() {
        let default = if row.is_default { "on" } else { "off" };
        writeln!(table, "| `{}` | {default} | {} |", row.label, row.description.trim_end_matches('.')).unwrap();
    }
    assert!(PAGE.contains(&table), "docs/privacy.md must contain this table:\n\n{table}");
}

#[test]
fn the_page_lists_the_countries() {
    let countries = national_id_countries().join(", ");
    let words: Vec<&str> = PAGE.split_whitespace().collect();
    assert!(words.join(" ").contains(&countries), "docs/privacy.md must list these countries:\n\n{countries}");
    assert!(national_id_countries().len() >= 30);
}
