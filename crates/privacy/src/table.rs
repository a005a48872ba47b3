//! Texts that are tables, as spreadsheets are exported: the heads of their columns say what their values are.

use crate::evidence::Evidence;
use std::ops::Range;

/// Signs between the fields of a row.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];
/// The longest head of a column, and the most columns.
const MAX_HEAD: usize = 60;
const MAX_COLUMNS: usize = 256;
/// The longest first row.
const MAX_HEADS: usize = 8 << 10;
/// The longest part of a field in quotation marks between two of them. A longer one ends at the separator.
const MAX_QUOTED: usize = 4 << 10;

/// The fields of a table whose columns say something about them, with the heads of their columns. `None` if the text is no
/// table: the first row has heads, one of which is evidence, and the second row has as many fields.
pub(crate) fn fields(text: &str) -> Option<impl Iterator<Item = (String, Field)>> {
    let line = text.lines().next().filter(|line| line.len() <= MAX_HEADS)?;
    let separator = SEPARATORS.into_iter().max_by_key(|sign| line.matches(*sign).count())?;
    let mut rows = Rows { rest: text, length: text.len(), separator };
    let heads: Vec<String> = rows.next()?.into_iter().map(|field| field.text).collect();
    let are_heads = (2..=MAX_COLUMNS).contains(&heads.len())
        && heads.iter().all(|head| head.len() <= MAX_HEAD && !head.contains(['@', '\n', '{', '[']));
    let known: Vec<bool> = heads.iter().map(|head| Evidence::of_key(head).is_some()).collect();
    let mut rows = rows.peekable();
    let is_table = are_heads && known.contains(&true) && rows.peek().is_some_and(|row| row.len() == heads.len());
    let fields = rows.flat_map(move |row| {
        let told = row.into_iter().zip(heads.clone()).zip(known.clone()).filter(|(_, is_known)| *is_known);
        told.map(|((field, head), _)| (head, field)).collect::<Vec<_>>()
    });
    is_table.then_some(fields)
}

/// A field of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) text: String,
    /// Where it is in the table, without its quotation marks. Marks within it are doubled there.
    pub(crate) span: Range<usize>,
}

/// The rows of a table. Fields may be in quotation marks, which are doubled within.
struct Rows<'a> {
    rest: &'a str,
    /// Length of the whole table.
    length: usize,
    separator: char,
}

impl Iterator for Rows<'_> {
    type Item = Vec<Field>;

    fn next(&mut self) -> Option<Vec<Field>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut fields = Vec::new();
        loop {
            let start = self.length - self.rest.len();
            let (text, span, rest) = quoted(self.rest, self.separator).unwrap_or_else(|| {
                let end = self.rest.find([self.separator, '\n']).unwrap_or(self.rest.len());
                let (field, rest) = self.rest.split_at(end);
                let field = field.trim_end_matches('\r');
                (field.to_owned(), 0..field.len(), rest)
            });
            fields.push(Field { text, span: start + span.start..start + span.end });
            let mut rest = rest.chars();
            let sign = rest.next();
            self.rest = rest.as_str();
            if sign != Some(self.separator) {
                return Some(fields);
            }
        }
    }
}

/// A field in quotation marks at the beginning of a text, where it is without them, and what follows it.
fn quoted(text: &str, separator: char) -> Option<(String, Range<usize>, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut field = String::new();
    loop {
        let end = rest.get(..rest.floor_char_boundary(MAX_QUOTED))?.find('"')?;
        field.push_str(rest.get(..end)?);
        let after = rest.get(end + 1..)?;
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
            continue;
        }
        let span = 1..text.len() - after.len() - 1;
        let after = after.strip_prefix('\r').unwrap_or(after);
        return (after.is_empty() || after.starts_with([separator, '\n'])).then_some((field, span, after));
    }
}

#[cfg(test)]
mod tests {
    use super::fields;

    fn told(text: &str) -> Vec<String> {
        fields(text).into_iter().flatten().map(|(head, field)| format!("{head}={}", field.text)).collect()
    }

    #[test]
    fn columns_say_what_their_fields_are() {
        let text = "id,First Name,total,city\r\n1,\"Kim, \"\"K\"\"\",2.5,Rome\r\n2,Lou,,\n3\n";
        assert_eq!(told(text), ["First Name=Kim, \"K\"", "city=Rome", "First Name=Lou", "city="]);
        assert_eq!(told("name\tphone\nKim Quinn\t1\n"), ["name=Kim Quinn", "phone=1"]);
        assert_eq!(told("surname;n\n\"a\nb\";2"), ["surname=a\nb"]);
    }

    #[test]
    fn fields_have_their_places() {
        let text = "n,First Name\r\n1,\"Kim, \"\"K\"\"\"\r\n2,Lou\r\n";
        let places: Vec<&str> = fields(text).into_iter().flatten().map(|(_, field)| &text[field.span]).collect();
        assert_eq!(places, ["Kim, \"\"K\"\"", "Lou"]);
    }

    #[test]
    fn other_texts_are_no_tables() {
        for text in [
            "",
            "name",
            "name,phone",
            "Dear Kim, your phone\nis here",
            "a,b\n1,2",
            "name,phone\nKim\n",
            "\n\n",
            "{\"name\",1\n2,3",
        ] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unclosed_quotation_marks_take_linear_time() {
        let text = format!("name,phone\n{}", "\",\n".repeat(100_000));
        assert!(told(&text).len() < 400_000);
    }
}
