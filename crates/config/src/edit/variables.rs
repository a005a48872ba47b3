use crate::dotenv::DotEnv;
use crate::edit::EditError;
use coracle_types::Secret;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Appends variables to the text of a `.env` file. A variable that exists with the same value is left alone; one with
/// another value is an error.
pub fn add_variables(text: &str, variables: &BTreeMap<String, Secret>) -> Result<String, EditError> {
    let before = values(text);
    let mut edited = text.to_owned();
    for (name, value) in variables {
        match before.get(name) {
            Some(old) if old == value.expose() => {}
            Some(_) => return Err(EditError::ByHand { name: name.clone() }),
            None => {
                if !edited.is_empty() && !edited.ends_with('\n') {
                    edited.push('\n');
                }
                edited = edited + name + "=" + &quoted(value.expose()) + "\n";
            }
        }
    }
    let mut expected = before;
    expected.extend(variables.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    if values(&edited) == expected {
        Ok(edited)
    } else {
        Err(EditError::ByHand { name: variables.keys().cloned().collect::<Vec<_>>().join(", ") })
    }
}

/// Removes variables from the text of a `.env` file. Everything else stays unchanged, byte by byte.
pub fn remove_variables(text: &str, names: &BTreeSet<String>) -> Result<String, EditError> {
    let before = values(text);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut edited = String::new();
    let mut at = 0;
    while at < lines.len() {
        let is_meant = assigned(lines[at]).is_some_and(|name| names.contains(name));
        // A value in quotes may span several lines: it ends where the rest can be parsed without it.
        let mut end = at + 1;
        if is_meant {
            while end < lines.len() && values(&lines[at..end].concat()).is_empty() {
                end += 1;
            }
        } else {
            edited.push_str(lines[at]);
        }
        at = end;
    }
    let mut expected = before;
    expected.retain(|name, _| !names.contains(name));
    if values(&edited) == expected {
        Ok(edited)
    } else {
        Err(EditError::ByHand { name: names.iter().cloned().collect::<Vec<_>>().join(", ") })
    }
}

/// The variable that a line sets, if any.
fn assigned(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    line.split_once('=').map(|(name, _)| name.trim())
}

fn values(text: &str) -> BTreeMap<String, String> {
    let read = DotEnv::parse(Path::new(""), text, &mut Vec::new());
    read.variables.into_iter().map(|(name, (value, _))| (name, value)).collect()
}

/// A value in double quotes, with special characters escaped.
fn quoted(value: &str) -> String {
    let mut out = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' | '$' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::remove_variables;

    #[test]
    fn variables_are_removed_and_everything_else_stays() {
        let text = "# mine\nA=1\n\nexport TOKEN=\"x y\" # secret\nB = 'two'\nKEY=\"one\ntwo\"\n# TOKEN=old\nC=3";
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            remove_variables(text, &names(&["TOKEN", "KEY", "NONE"])).unwrap(),
            "# mine\nA=1\n\nB = 'two'\n# TOKEN=old\nC=3"
        );
        assert_eq!(remove_variables(text, &names(&[])).unwrap(), text);
        assert_eq!(remove_variables("TOKEN=1\nTOKEN=2\n", &names(&["TOKEN"])).unwrap(), "");
    }
}
