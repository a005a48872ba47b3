//! Guesses which tools code imports, without a parser. The result is only displayed.

use crate::skill_store::SkillLanguage;

/// The imported tools, as `package.function`.
pub(super) fn tools(code: &str, language: SkillLanguage) -> Vec<String> {
    let found: Vec<String> = match language {
        SkillLanguage::Python => statements(code).into_iter().flat_map(from_python).collect(),
        SkillLanguage::Typescript => from_typescript(code),
    };
    found
}

/// `from servers.git import git_log, git_show as show`, also over several lines.
fn from_python(statement: &str) -> Vec<String> {
    let Some((module, names)) = statement
        .trim_start()
        .strip_prefix("from servers.")
        .and_then(|rest| rest.split_once(" import "))
        .map(|(module, names)| (module.trim(), names.trim()))
    else {
        return Vec::new();
    };
    let package = module.split('.').next().unwrap_or(module);
    let names = names.trim_start_matches('(');
    let names = names.split(')').next().unwrap_or(names);
    let without_comments = names.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = without_comments.flat_map(|line| line.split(','));
    names.filter_map(|name| name.split_whitespace().next()).filter_map(|name| path(package, name)).collect()
}

/// `import { git_log, git_show as show } from "servers/git"`.
fn from_typescript(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("servers/") {
        let (before, after) = code.split_at(at);
        let Some(quote) = before.chars().next_back().filter(|quote| matches!(quote, '"' | '\'')) else { continue };
        let Some((module, _)) = after.split_once(quote) else { continue };
        let package = module.strip_prefix("servers/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let Some(head) = before.get(..at - 1).and_then(|head| head.trim_end().strip_suffix("from")) else { continue };
        let Some(names) = head.trim_end().strip_suffix('}').and_then(|head| head.rsplit_once('{')) else { continue };
        let names = names.1.split(',').filter_map(|name| name.split_whitespace().find(|word| *word != "type"));
        found.extend(names.filter_map(|name| path(package, name)));
    }
    found
}

fn path(package: &str, name: &str) -> Option<String> {
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain(package) && plain(name)).then(|| format!("{package}.{name}"))
}

/// Splits code into lines, except inside round brackets.
fn statements(code: &str) -> Vec<&str> {
    let (mut all, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '\n' | ';' if depth == 0 => {
                all.extend(code.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    all.extend(code.get(start..));
    all
}

#[cfg(test)]
mod tests {
    use super::tools;
    use crate::skill_store::SkillLanguage::{Python, Typescript};

    #[test]
    fn imports_name_the_tools() {
        let code = "import os\nfrom servers.git import git_log, git_show as show\nfrom servers.github import (\n    a,  # first\n    b,\n)\ndef f():\n    from servers.x.y import y\n    from servers.z import *\n";
        assert_eq!(tools(code, Python), ["git.git_log", "git.git_show", "github.a", "github.b", "x.y"]);
        let code = "import { a, b as c } from \"servers/git\";\nimport {type D, e} from 'servers/x/e'; import y from './servers/z'";
        assert_eq!(tools(code, Typescript), ["git.a", "git.b", "x.D", "x.e"]);
        assert_eq!(tools("from servers import x\nfrom servers.", Python), Vec::<String>::new());
    }
}
