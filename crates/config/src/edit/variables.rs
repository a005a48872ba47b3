use crate::dotenv::DotEnv;
use crate::edit::EditError;
use coracle_types::Secret;
use std::collections::BTreeMap;
use std::path::Path;

/// The text of a `.env` with more variables at its end. One that is there with the same value is left alone; one with
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

fn values(text: &str) -> BTreeMap<String, String> {
    let read = DotEnv::parse(Path::new(""), text, &mut Vec::new());
    read.variables.into_iter().map(|(name, (value, _))| (name, value)).collect()
}

/// In double quotes, with what means something there escaped.
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
