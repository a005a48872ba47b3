//! Modules of the operator that code can import (`execution.tools_dir`), described by their own docstrings. They are read
//! and never run.

use ruff_python_ast::{Expr, Stmt};
use ruff_python_parser::parse_module;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Maximum number of modules.
const MAX_MODULES: usize = 50;

/// Maximum number of functions of one module.
const MAX_FUNCTIONS: usize = 20;

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 512 << 10;

/// Maximum length of a description.
const MAX_LINE_CHARS: usize = 200;

/// A module that code can import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HelperModule {
    /// Name by which it is imported: `shout`, or `"/tools/shout.ts"`.
    pub module: String,
    /// The first line of its docstring.
    pub summary: String,
    /// Its functions, each with its signature and the first line of its docstring.
    pub functions: Vec<String>,
}

/// The modules of a folder, sorted by name, without those that begin with an underscore.
pub fn helper_modules(folder: &Path) -> Vec<HelperModule> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(['_', '.']) && !name.chars().any(coracle_types::is_hidden))
        .collect();
    names.sort();
    names.iter().filter_map(|name| module(folder, name)).take(MAX_MODULES).collect()
}

fn module(folder: &Path, name: &str) -> Option<HelperModule> {
    let path = folder.join(name);
    if path.is_dir() {
        return python(name, &read(&path.join("__init__.py"))?);
    }
    match name.rsplit_once('.')? {
        (stem, "py") => python(stem, &read(&path)?),
        (_, "ts" | "js" | "mjs" | "mts") => Some(typescript(name, &read(&path)?)),
        _ => None,
    }
}

fn read(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}

fn python(name: &str, source: &str) -> Option<HelperModule> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_name {
        return None;
    }
    let parsed = match parse_module(source) {
        Ok(parsed) => parsed,
        Err(error) => {
            tracing::warn!(module = name, %error, "a helper module does not compile");
            return None;
        }
    };
    let body = &parsed.syntax().body;
    let functions = body.iter().filter_map(|statement| function(statement, source)).take(MAX_FUNCTIONS).collect();
    Some(HelperModule { module: name.to_owned(), summary: docstring(body), functions })
}

fn function(statement: &Stmt, source: &str) -> Option<String> {
    let Stmt::FunctionDef(function) = statement else { return None };
    if function.name.starts_with('_') {
        return None;
    }
    let text = |range: ruff_text_size::TextRange| source.get(range.start().to_usize()..range.end().to_usize());
    let parameters = text(function.parameters.range)?;
    let returns = function.returns.as_deref().and_then(|returns| text(ruff_text_size::Ranged::range(returns)));
    let returns = returns.map(|returns| format!(" -> {returns}")).unwrap_or_default();
    let about = docstring(&function.body);
    let colon = if about.is_empty() { "" } else { ": " };
    Some(line(&format!("{}{parameters}{returns}{colon}{about}", function.name)))
}

/// The first line of the docstring of a body, if there is one.
fn docstring(body: &[Stmt]) -> String {
    let Some(Stmt::Expr(first)) = body.first() else { return String::new() };
    let Expr::StringLiteral(literal) = &*first.value else { return String::new() };
    line(literal.value.to_str().trim().lines().next().unwrap_or_default())
}

/// Describes a TypeScript module without a parser: the first line of the first comment, and the exported functions.
fn typescript(name: &str, source: &str) -> HelperModule {
    let first = source.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let is_comment = first.starts_with("//") || first.starts_with("/*");
    let comment = source.lines().map(|line| line.trim().trim_start_matches(['/', '*', ' ']).trim_end_matches("*/"));
    let summary = if is_comment { comment.map(str::trim).find(|line| !line.is_empty()) } else { None };
    let exported = source.lines().filter_map(|line| {
        let rest = line.strip_prefix("export ")?;
        let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("function ")?;
        Some(rest.trim_end().trim_end_matches('{').trim_end())
    });
    HelperModule {
        module: format!("\"/tools/{name}\""),
        summary: line(summary.unwrap_or_default()),
        functions: exported.take(MAX_FUNCTIONS).map(line).collect(),
    }
}

fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_LINE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::helper_modules;

    #[test]
    fn modules_are_told_by_their_docstrings() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            (
                "shout.py",
                "\"\"\"Makes texts loud.\n\nMore.\"\"\"\nimport os\ndef shout(text: str, times: int = 1) -> str:\n    \"\"\"In capitals.\"\"\"\n    return text.upper()\nasync def later(\n    a,\n    b,\n): pass\ndef _own(): pass\n",
            ),
            (
                "loud.ts",
                "/** Makes texts loud. */\nexport function shout(text: string): string {\n  return text;\n}\nfunction own() {}\n",
            ),
            ("broken.py", "def f(:\n"),
            ("_hidden.py", ""),
            ("notes.txt", "x"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::create_dir(folder.path().join("pack")).unwrap();
        std::fs::write(folder.path().join("pack/__init__.py"), "'''A package.'''").unwrap();
        let told: Vec<(String, String, Vec<String>)> = helper_modules(folder.path())
            .into_iter()
            .map(|module| (module.module, module.summary, module.functions))
            .collect();
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            told,
            [
                ("\"/tools/loud.ts\"".into(), "Makes texts loud.".into(), owned(&["shout(text: string): string"])),
                ("pack".into(), "A package.".into(), Vec::new()),
                (
                    "shout".into(),
                    "Makes texts loud.".into(),
                    owned(&["shout(text: str, times: int = 1) -> str: In capitals.", "later( a, b, )"])
                ),
            ]
        );
        assert_eq!(helper_modules(&folder.path().join("missing")), Vec::new());
    }
}
