//! Tasks, as data: what to do, how by direct calls, how by code, and what must come of it.

use super::{Mistake, mistake};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// Makes the place in which the tasks of a set are done.
const WORLD: &str = "world.py";

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../../bench/tasks/", $name, ".yaml")))),*]
    };
}

/// The tasks of this program, in order.
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
const EMBEDDED_WORLD: &str = include_str!("../../../../../bench/tasks/world.py");

/// One task. Expressions are Python's, for what a model does in its head.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// Its file, without the ending.
    #[serde(skip_deserializing)]
    pub(super) name: String,
    pub(super) title: String,
    /// What the user asks.
    question: String,
    /// What the model searches for when it has not been shown all tools.
    search: Vec<String>,
    direct: Vec<Step>,
    /// The answer, from the results `r` of the steps.
    answer: String,
    /// The tools whose definitions the model reads before it writes code.
    definitions: Vec<String>,
    /// What it writes: the last program gives the answer, those before it are looks and mistakes.
    code: Vec<String>,
    /// The answer, from the `result` or `stdout` of the last program; without it the result is the answer.
    #[serde(default)]
    read: Option<String>,
    /// What the answer must be.
    pub(super) expect: Value,
    /// What is left in the world.
    #[serde(default)]
    effect: Option<String>,
    /// What that must be.
    #[serde(default)]
    pub(super) leaves: Value,
}

/// Calls of one tool: one turn of the model.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// `server.tool`.
    call: String,
    /// An expression that gives a list: so many calls, all at once, each for an `item`.
    #[serde(default)]
    each: Option<String>,
    /// The arguments; `<<expression>>` in a text is replaced by its value.
    #[serde(default)]
    with: Map<String, Value>,
}

/// Tasks that are done in one world.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// The program that makes it, in the current folder.
    pub(super) world: String,
    pub(super) tasks: Vec<Task>,
}

impl Set {
    /// Those of this program.
    pub(super) fn embedded() -> anyhow::Result<Self> {
        let tasks = EMBEDDED.iter().map(|(name, text)| parse(name, text).with_context(|| (*name).to_owned()));
        Ok(Self { world: EMBEDDED_WORLD.to_owned(), tasks: tasks.collect::<Result<_, _>>()? })
    }

    /// Those of a folder, by name.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| mistake(path, error));
        let world = text(&folder.join(WORLD))?;
        let mut paths = Vec::new();
        for entry in folder.read_dir().map_err(|error| mistake(folder, error))? {
            let path = entry.map_err(|error| mistake(folder, error))?.path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut tasks = Vec::new();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tasks.push(parse(&name, &text(&path)?).map_err(|error| mistake(&path, format!("{error:#}")))?);
        }
        Ok(Self { world, tasks })
    }

    /// Those whose names have one of these texts in them; all if there are none.
    pub(super) fn only(mut self, wanted: &[String]) -> anyhow::Result<Self> {
        for part in wanted {
            if !self.tasks.iter().any(|task| task.name.contains(part.as_str())) {
                let names: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
                let hint = format!("there are: {}", names.join(", "));
                return Err(Mistake::new(format!("--only: there is no task {part:?}"), Some(hint)).into());
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
    fn the_tasks_of_this_program_are_those_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tasks");
        let (read, embedded) = (Set::read(&folder).unwrap(), Set::embedded().unwrap());
        assert_eq!(read.tasks, embedded.tasks);
        assert_eq!(read.world, embedded.world);
        assert!(embedded.tasks.len() >= 20);
    }

    #[test]
    fn a_part_of_a_name_will_do_and_an_unknown_one_is_named() {
        let set = Set::embedded().unwrap();
        let wanted = |name: &str| set.clone().only(&[name.to_owned()]);
        assert_eq!(wanted("sum").unwrap().tasks.len(), 1);
        assert!(wanted("nothing").unwrap_err().to_string().contains("02-sum"));
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("world.py"), "").unwrap();
        std::fs::write(folder.path().join("x.yaml"), "title: x\ntitel: y\n").unwrap();
        let error = Set::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("x.yaml") && error.contains("titel"), "{error}");
    }
}
