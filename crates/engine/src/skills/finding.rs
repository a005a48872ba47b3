//! Finds skills the way tools are found: each is an entry of a small catalogue.

use super::Skills;
use crate::skill_store::{SkillError, SkillLanguage, blocking};
use coracle_catalog::{Catalog, Query, ServerTools};
use coracle_types::{Schema, ServerName, Tool, ToolHints, UserId};
use serde::Serialize;
use std::collections::HashMap;

/// Kind of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillKind {
    /// Code that can be imported.
    Code,
    /// Instructions in a `SKILL.md`.
    Instructions,
}

/// A skill that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundSkill {
    /// Name of the skill.
    pub name: String,
    /// Kind of the skill.
    pub kind: SkillKind,
    /// What the skill does.
    pub description: String,
    /// How to use the skill: what to import, or what to read.
    #[serde(rename = "use")]
    pub usage: String,
    /// Tags for searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Server names under which the catalogue lists the two kinds of skills.
const CODE: &str = "skills";
const INSTRUCTIONS: &str = "instructions";

impl Skills {
    /// Skills of both kinds that match, best first; all of them if the query is empty.
    pub(crate) async fn search(&self, user: &UserId, query: &str, limit: usize) -> Result<Vec<FoundSkill>, SkillError> {
        let (shelf, library, query) = (self.shelves.of(user), self.library().clone(), query.to_owned());
        blocking(move || {
            let mut all: Vec<(FoundSkill, String)> = Vec::new();
            for kept in shelf.all()? {
                let usage = match kept.skill.language {
                    SkillLanguage::Python => format!("from skills.{} import …", kept.skill.name),
                    SkillLanguage::Typescript => format!("import {{ … }} from \"skills/{}\"", kept.skill.name),
                };
                let skill = kept.skill;
                let more = skill.tags.join(" ");
                let (name, kind) = (skill.name.as_str().to_owned(), SkillKind::Code);
                all.push((FoundSkill { name, kind, description: skill.description, usage, tags: skill.tags }, more));
            }
            for folder in library.read_now().skills {
                let usage = format!("get_skill({:?}), or read {}", folder.name, folder.location());
                let more = folder.use_when.clone().unwrap_or_default();
                let (name, kind) = (folder.name, SkillKind::Instructions);
                all.push((FoundSkill { name, kind, description: folder.description, usage, tags: Vec::new() }, more));
            }
            Ok(search(all, &query, limit))
        })
        .await
    }
}

fn search(all: Vec<(FoundSkill, String)>, query: &str, limit: usize) -> Vec<FoundSkill> {
    let of_kind = |name: &str, kind: SkillKind| -> Option<ServerTools> {
        let server = ServerName::new(name).ok()?;
        let of_kind = || all.iter().filter(|(skill, _)| skill.kind == kind);
        let tools = of_kind().map(|(skill, _)| Tool {
            server: server.clone(),
            name: skill.name.clone(),
            title: None,
            description: skill.description.clone(),
            input_schema: Schema::default(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        });
        let mut tools = ServerTools::new(server.clone(), tools);
        tools.notes = of_kind().map(|(skill, more)| (skill.name.clone(), more.clone())).collect();
        Some(tools)
    };
    let kinds = [(CODE, SkillKind::Code), (INSTRUCTIONS, SkillKind::Instructions)];
    let catalog = Catalog::new(kinds.into_iter().filter_map(|(name, kind)| of_kind(name, kind)).collect());
    let mut by_name: HashMap<(&str, String), FoundSkill> = HashMap::new();
    let hits = catalog.search(&Query::new(query), limit);
    let order: Vec<(&str, String)> = hits
        .iter()
        .map(|hit| (if hit.entry.server == CODE { CODE } else { INSTRUCTIONS }, hit.entry.name.clone()))
        .collect();
    for (skill, _) in all {
        let server = if skill.kind == SkillKind::Code { CODE } else { INSTRUCTIONS };
        by_name.insert((server, skill.name.clone()), skill);
    }
    order.into_iter().filter_map(|key| by_name.remove(&key)).collect()
}

#[cfg(test)]
mod tests {
    use super::{FoundSkill, SkillKind, search};

    #[test]
    fn skills_are_found_by_words_and_by_meaning() {
        let skill = |name: &str, kind, description: &str, tags: &[&str]| {
            let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let more = tags.join(" ");
            let (name, description) = (name.to_owned(), description.to_owned());
            (FoundSkill { name, kind, description, usage: String::new(), tags }, more)
        };
        let all = || {
            vec![
                skill("clean_csv", SkillKind::Code, "Drops empty rows of a table and trims its cells", &["tidy"]),
                skill("post_message", SkillKind::Code, "Sends a text to a channel", &["chat", "slack"]),
                skill("charts", SkillKind::Instructions, "Draws diagrams with Matplotlib and Plotly", &[]),
            ]
        };
        let names = |query: &str, limit| -> Vec<String> {
            search(all(), query, limit).into_iter().map(|skill| skill.name).collect()
        };
        assert_eq!(names("slack", 1), ["post_message"]);
        assert_eq!(names("tidy up a spreadsheet", 1), ["clean_csv"]);
        assert_eq!(names("plot a graph", 1), ["charts"]);
        assert_eq!(names("", 10).len(), 3);
        assert_eq!(search(Vec::new(), "x", 5), Vec::new());
    }
}
