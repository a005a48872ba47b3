//! Tasks as data: the question, direct calls, code, and the expected result.

use crate::input_error::InputError;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// Program that creates the world of a set of tasks.
const WORLD: &str = "world.py";

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../bench/tasks/", $name, ".yaml")))),*]
    };
}

/// Built-in tasks, in order.
const EMBEDDED: [(&str, &str); 28] = embedded![
    "01-hour-elsewhere",
    "02-sum",
    "03-one-setting",
    "04-count-files",
    "05-changed-file",
    "06-count-rows",
    "07-best-customers",
    "08-cheapest-product",
    "09-write-note",
    "10-compare-settings",
    "11-hour-of-a-person",
    "12-open-points",
    "13-errors-by-service",
    "14-slowest-request",
    "15-file-and-table",
    "16-export-january",
    "17-export-orders",
    "18-commits-by-author",
    "19-biggest-commit",
    "20-busiest-project",
    "21-people-and-orders",
    "22-meeting-hours",
    "23-oldest-note",
    "24-count-functions",
    "25-import-parts",
    "26-sort-inbox",
    "27-incident",
    "28-quiet-services",
];
const EMBEDDED_WORLD: &str = include_str!("../../../../bench/tasks/world.py");

/// A task. Expressions in Python stand for what a model does in its head.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// File name without the extension.
    #[serde(skip_deserializing)]
    pub(super) name: String,
    pub(super) title: String,
    /// Question of the user.
    question: String,
    /// Queries of the model, if it does not see all tools.
    search: Vec<String>,
    direct: Vec<Step>,
    /// Answer, computed from the results `r` of the steps.
    answer: String,
    /// Tools whose definitions the model reads before it writes code.
    definitions: Vec<String>,
    /// Programs of the model. The last one gives the answer; those before are exploration and mistakes.
    code: Vec<String>,
    /// Answer, computed from the `result` or `stdout` of the last program; defaults to the result.
    #[serde(default)]
    read: Option<String>,
    /// Expected answer.
    pub(super) expect: Value,
    /// Expression for the state of the world afterwards.
    #[serde(default)]
    effect: Option<String>,
    /// Expected state.
    #[serde(default)]
    pub(super) leaves: Value,
}

/// Calls of one tool, in one turn of the model.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Tool, as `server.tool`.
    call: String,
    /// Expression for a list: one parallel call for each `item`.
    #[serde(default)]
    each: Option<String>,
    /// Arguments. `<<expression>>` in a text is replaced with its value.
    #[serde(default)]
    with: Map<String, Value>,
}

/// Tasks in one world.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// Program that creates the world in the current folder.
    pub(super) world: String,
    pub(super) tasks: Vec<Task>,
}

impl Set {
    /// Returns the built-in tasks.
    pub(super) fn embedded() -> anyhow::Result<Self> {
        let tasks = EMBEDDED.iter().map(|(name, text)| parse(name, text).with_context(|| (*name).to_owned()));
        Ok(Self { world: EMBEDDED_WORLD.to_owned(), tasks: tasks.collect::<Result<_, _>>()? })
    }

    /// Reads the tasks of a folder, sorted by name.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| InputError::at(path, error));
        let world = text(&folder.join(WORLD))?;
        let mut paths = Vec::new();
        for entry in folder.read_dir().map_err(|error| InputError::at(folder, error))? {
            let path = entry.map_err(|error| InputError::at(folder, error))?.path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut tasks = Vec::new();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tasks.push(parse(&name, &text(&path)?).map_err(|error| InputError::at(&path, format!("{error:#}")))?);
        }
        Ok(Self { world, tasks })
    }

    /// Keeps tasks whose names contain one of these texts; all if there are none.
    pub(super) fn only(mut self, wanted: &[String]) -> anyhow::Result<Self> {
        for part in wanted {
            if !self.tasks.iter().any(|task| task.name.contains(part.as_str())) {
                let names: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
                let names = names.join(", ");
                let message = format!("--only: there is no task {part:?}\nhint: there are: {names}");
                return Err(InputError(message).into());
            }
        }
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
        self.tasks.retain(|task| is_wanted(&task.name));
        Ok(self)
    }
}

fn parse(name: &str, text: &str) -> anyhow::Result<Task> {
    let task: Task = serde_saphyr::from_str(text)?;
    anyhow::ensure!(!task.direct.is_empty(), "`direct` is empty");
    anyhow::ensure!(!task.code.is_empty(), "`code` is empty");
    anyhow::ensure!(task.direct.iter().all(|step| step.call.contains('.')), "a `call` is not server.tool");
    Ok(Task { name: name.to_owned(), ..task })
}

#[cfg(test)]
mod tests {
    use super::Set;
    use std::path::Path;

    #[test]
    fn the_built_in_tasks_match_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tasks");
        let (read, embedded) = (Set::read(&folder).unwrap(), Set::embedded().unwrap());
        assert_eq!(read.tasks, embedded.tasks);
        assert_eq!(read.world, embedded.world);
        assert!(embedded.tasks.len() >= 20);
    }

    #[test]
    fn tasks_are_selected_by_parts_of_names() {
        let set = Set::embedded().unwrap();
        let wanted = |name: &str| set.clone().only(&[name.to_owned()]);
        assert_eq!(wanted("sum").unwrap().tasks.len(), 1);
        assert!(wanted("nothing").unwrap_err().to_string().contains("02-sum"));
    }

    #[test]
    fn unknown_keys_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("world.py"), "").unwrap();
        std::fs::write(folder.path().join("x.yaml"), "title: x\ntitel: y\n").unwrap();
        let error = Set::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("x.yaml") && error.contains("titel"), "{error}");
    }
}
