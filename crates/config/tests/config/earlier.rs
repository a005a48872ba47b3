//! Settings of earlier tools, as in their documentation.

use crate::case::Case;
use coracle_config::{Origin, SandboxType, Way};
use std::fs;

const CONFIG: &str = "\
execution:
  workspace_dir: ./workspace
  servers_dir: ./servers
  skills_dir: ./skills
  sandbox_type: microsandbox
  sandbox_image: python
  allow_network_access: true

guardrails:
  enabled: true
  strict_mode: false
  security_checks: true
  max_execution_time: 300
  max_memory_mb: 512

optimizations: { enabled: true }
mcp_servers: []
";

const DOT_ENV: &str = "\
MSB_SERVER_URL=http://localhost:5555
WORKSPACE_DIR=./workspace
SERVERS_DIR=./servers
SKILLS_DIR=./skills
GUARDRAILS_ENABLED=true
GUARDRAILS_STRICT_MODE=false
LOG_LEVEL=INFO
LOG_FILE=logs/code-execution-mcp.log
AZURE_OPENAI_ENDPOINT=https://your-resource.openai.azure.com
AZURE_OPENAI_API_KEY=your_api_key
AZURE_OPENAI_CHAT_DEPLOYMENT_NAME=gpt-4o-mini
AZURE_OPENAI_API_VERSION=2024-08-01-preview
AZURE_OPENAI_EMBEDDER_NAME=text-embedding-ada-002
AZURE_OPENAI_EMBEDDER_VERSION=2023-05-15
";

#[test]
fn their_file_works_unchanged() {
    let case = Case::new().put("config.yaml", CONFIG).put("skills/pdf/SKILL.md", "");
    let loaded = case.load().unwrap();
    let execution = &loaded.settings.execution;
    let file = loaded.file.as_ref().unwrap();
    assert_eq!((file.path.clone(), file.way), (case.folder().join("config.yaml"), Way::CurrentFolder));
    assert_eq!((execution.sandbox_type, execution.allow_network_access), (SandboxType::Native, false));
    assert_eq!(execution.skills_dir, Some(case.folder().join("skills")));
    assert_eq!(execution.workspace_dir, Some(case.folder().join("workspace")), "it does not exist yet, so it is ours");
    assert_eq!(loaded.workspace, None);
    assert_eq!(loaded.settings.guardrails.max_memory_mb, Some(512));
    let warnings = case.warnings();
    for (line, words) in [(5, "`native`"), (7, "no network"), (16, "`optimizations` is not a setting of Coracle")] {
        let place = format!("config.yaml:{line}:");
        assert!(warnings.iter().any(|warning| warning.contains(&place) && warning.contains(words)), "{warnings:?}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}

/// The same settings in our own file are an error, or are rejected later.
#[test]
fn our_own_file_is_read_as_strictly_as_before() {
    let case = Case::new().file("execution: { sandbox_type: microsandbox, allow_network_access: true }\n");
    let loaded = case.load().unwrap();
    assert_eq!(loaded.settings.execution.sandbox_type, SandboxType::Microvm);
    assert!(loaded.settings.execution.allow_network_access);
    assert!(Case::new().file(CONFIG).error().contains("optimizations"));
    // Our file takes precedence over theirs.
    let both = Case::new().file("log: { level: info }\n").put("config.yaml", CONFIG).load().unwrap();
    assert_eq!(both.settings.guardrails.max_memory_mb, None);
}

#[test]
fn a_file_of_another_program_is_not_read() {
    for text in ["title: My blog\ntheme: x\n", "execution: fast\n", "execution: { retries: 3 }\n", "{ no yaml", "- a\n"]
    {
        let case = Case::new().put("config.yaml", text);
        let loaded = case.load().unwrap();
        assert_eq!((loaded.file, case.warnings()), (None, Vec::new()), "{text}");
    }
}

#[test]
fn their_variables_work_unchanged() {
    let case = Case::new().dot_env(DOT_ENV);
    let loaded = case.load().unwrap();
    let (settings, folder) = (&loaded.settings, case.folder());
    assert_eq!(settings.log.file, Some(folder.join("logs/code-execution-mcp.log")));
    assert_eq!(settings.agent.azure_openai.deployment.as_deref(), Some("gpt-4o-mini"));
    let embedder = &settings.search.embedder;
    assert_eq!(embedder.model.as_deref(), Some("text-embedding-ada-002"));
    assert_eq!(embedder.api_version.as_deref(), Some("2023-05-15"));
    assert_eq!((&embedder.url, &embedder.api_key), (&None, &None), "the fallback applies when the embedder is created");
    assert_eq!(settings.execution.servers_dir, Some(folder.join("servers")));
    let warnings = case.warnings();
    assert_eq!(settings.execution.skills_dir, None);
    assert!(warnings.len() == 1 && warnings[0].contains("`execution.skills_dir` is ignored"), "{warnings:?}");
    let ours = Case::new().env("CORACLE_EXECUTION_SKILLS_DIR", "skills").load().unwrap();
    assert!(ours.settings.execution.skills_dir.is_some(), "a missing folder of our own setting is an error later");
}

#[test]
fn the_variables_of_another_one_work_too() {
    let case = Case::new().put("tools/x.py", "").put("skills/x.md", "").dot_env(
        "MCP_TOOLS_PATH=./tools\nMCP_SKILLS_PATH=./skills\nMCP_ARTIFACT_SIZE_LIMIT_MB=50\nMCP_EXECUTOR_IMAGE=i\n",
    );
    let execution = case.load().unwrap().settings.execution;
    assert_eq!(execution.tools_dir, Some(case.folder().join("tools")));
    assert_eq!(execution.skills_dir, Some(case.folder().join("skills")));
    assert_eq!((execution.limits.artifacts_mb, execution.sandbox_image.as_deref()), (50, Some("i")));
    assert_eq!(case.warnings(), Vec::<String>::new());
}

#[test]
fn a_folder_that_was_itself_the_workspace_is_recognised() {
    for sign in ["results.csv", "state/context.json", "servers/calculator/add.py"] {
        let case = Case::new().dot_env("WORKSPACE_DIR=./workspace\n").put(&format!("workspace/{sign}"), "x");
        let loaded = case.load().unwrap();
        assert_eq!(loaded.workspace, Some(case.folder().join("workspace")), "{sign}");
        assert_eq!(loaded.settings.execution.workspace_dir, None, "other users do not get folders in it");
        let warnings = case.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("is a workspace itself"), "{warnings:?}");
        assert_eq!(loaded.origins.get("execution.workspace_dir"), None);
        // A folder with folders of users, and a file beside them, is ours.
        fs::create_dir_all(case.folder().join("workspace/local/files")).unwrap();
        let loaded = case.load().unwrap();
        assert_eq!(loaded.workspace, None, "{sign}");
        assert!(matches!(loaded.origins.get("execution.workspace_dir"), Some(Origin::DotEnv { .. })));
    }
    let case = Case::new().file("execution: { workspace_dir: ./workspace }\n").put("workspace/results.csv", "x");
    assert_eq!(case.load().unwrap().workspace, None, "our own setting is taken literally");
}
