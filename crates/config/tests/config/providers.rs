//! Model providers: entries, usual variables, and how they are merged.

use crate::case::Case;
use coracle_config::{Api, CodeFences, Loaded, Origin, Provider};
use coracle_types::Secret;

fn provider(url: Option<&str>, api_key: Option<&str>) -> Provider {
    Provider { url: url.map(Secret::new), api_key: api_key.map(Secret::new), ..Provider::default() }
}

/// The usable providers: name, URL and key.
fn usable(loaded: &Loaded) -> Vec<(&str, Option<&str>, Option<&str>)> {
    let mut rows = Vec::new();
    for (name, provider) in &loaded.providers {
        let (url, key) = (provider.url.as_ref(), provider.api_key.as_ref());
        rows.push((name.as_str(), url.map(Secret::expose), key.map(Secret::expose)));
    }
    rows
}

/// Rows about providers.
fn shown(case: &Case) -> Vec<String> {
    let rows = case.load().unwrap().show();
    let rows = rows.into_iter().filter(|row| row.key.starts_with("agent.providers"));
    rows.map(|row| case.plain(&format!("{} = {} ({})", row.key, row.value, row.origin))).collect()
}

#[test]
fn an_entry_has_all_keys() {
    let case = Case::new()
        .file(
            "\
agent:
  default_model: lab/qwen
  providers:
    lab: { url: 'http://${LAB}:8000/v1', api_key: '${LAB_KEY}', api: Messages, api_version: '${V:-2024-10-21}',
      code_fences: always, context_tokens: 32_000, models: [qwen, org/model] }
    ollama:
    my-lab_2.0: { url: 'https://lab.example/v1', api_key: '${UNSET:-}', code_fences: never }
",
        )
        .dot_env("LAB=gpu\nLAB_KEY=weak\n")
        .env("LAB_KEY", "k${LAB}");
    let loaded = case.load().unwrap();
    let lab = Provider {
        api: Some(Api::Messages),
        api_version: Some("2024-10-21".to_owned()),
        code_fences: CodeFences::Always,
        context_tokens: Some(32_000),
        models: vec!["qwen".to_owned(), "org/model".to_owned()],
        ..provider(Some("http://gpu:8000/v1"), Some("k${LAB}"))
    };
    let mine = Provider { code_fences: CodeFences::Never, ..provider(Some("https://lab.example/v1"), None) };
    let expected = [("lab", lab), ("my-lab_2.0", mine), ("ollama", Provider::default())];
    assert_eq!(loaded.providers, expected.map(|(name, provider)| (name.to_owned(), provider)).into());
    assert_eq!(loaded.default_model().as_deref(), Some("lab/qwen"));
    assert_eq!(case.warnings(), Vec::<String>::new());
    insta::assert_debug_snapshot!(shown(&case));
}

#[test]
fn usual_variables_configure_known_providers() {
    let cases = [
        ("OPENAI_API_KEY", "k", "openai", "api_key", "k"),
        ("OPENAI_BASE_URL", "http://gateway/v1", "openai", "url", "http://gateway/v1"),
        ("ANTHROPIC_API_KEY", "k", "anthropic", "api_key", "k"),
        ("ANTHROPIC_BASE_URL", "https://gateway/anthropic/", "anthropic", "url", "https://gateway/anthropic/v1"),
        ("ANTHROPIC_BASE_URL", "https://gateway/v1/", "anthropic", "url", "https://gateway/v1"),
        ("GEMINI_API_KEY", "k", "gemini", "api_key", "k"),
        ("GOOGLE_API_KEY", "k", "gemini", "api_key", "k"),
        ("MISTRAL_API_KEY", "k", "mistral", "api_key", "k"),
        ("DEEPSEEK_API_KEY", "k", "deepseek", "api_key", "k"),
        ("GROQ_API_KEY", "k", "groq", "api_key", "k"),
        ("OPENROUTER_API_KEY", "k", "openrouter", "api_key", "k"),
        ("OLLAMA_HOST", "gpu", "ollama", "url", "http://gpu:11434/v1"),
        ("OLLAMA_HOST", "gpu:80", "ollama", "url", "http://gpu:80/v1"),
        ("OLLAMA_HOST", ":5000", "ollama", "url", "http://127.0.0.1:5000/v1"),
        ("OLLAMA_HOST", "0.0.0.0", "ollama", "url", "http://127.0.0.1:11434/v1"),
        ("OLLAMA_HOST", "0.0.0.0:5000", "ollama", "url", "http://127.0.0.1:5000/v1"),
        ("OLLAMA_HOST", "::1", "ollama", "url", "http://[::1]:11434/v1"),
        ("OLLAMA_HOST", "[::1]", "ollama", "url", "http://[::1]:11434/v1"),
        ("OLLAMA_HOST", "[::]:5000", "ollama", "url", "http://[::1]:5000/v1"),
        ("OLLAMA_HOST", "https://gpu.example/ollama/", "ollama", "url", "https://gpu.example/ollama/v1"),
        ("OLLAMA_HOST", "https://gpu.example/v1", "ollama", "url", "https://gpu.example/v1"),
    ];
    for (name, text, provider, field, value) in cases {
        let from_env = Case::new().env(name, text).load().unwrap();
        let from_file = Case::new().dot_env(&format!("export {name}='{text}' # x\n")).load().unwrap();
        let (url, key) = if field == "url" { (Some(value), None) } else { (None, Some(value)) };
        for loaded in [&from_env, &from_file] {
            assert_eq!(usable(loaded), [(provider, url, key)], "{name}={text}");
            assert_eq!(loaded.warnings, [], "{name}={text}");
        }
        let key = format!("agent.providers.{provider}.{field}");
        assert_eq!(from_env.origins, [(key, Origin::Env { name: name.to_owned() })].into(), "{name}");
        // An empty variable is ignored.
        let empty = Case::new().env(name, " ").load().unwrap();
        assert_eq!((empty.origins.len(), empty.providers.len()), (0, 0), "{name}");
    }
    let both = Case::new().env("GOOGLE_API_KEY", "weak").env("GEMINI_API_KEY", "strong").load().unwrap();
    assert_eq!(usable(&both), [("gemini", None, Some("strong"))]);
    // The value of a variable is not expanded.
    let literal = Case::new().env("OPENAI_API_KEY", "${HOME}").load().unwrap();
    assert_eq!(usable(&literal), [("openai", None, Some("${HOME}"))]);
}

#[test]
fn invalid_addresses_in_usual_variables_are_ignored() {
    let case = Case::new()
        .env("OPENAI_BASE_URL", "gateway/v1")
        .env("ANTHROPIC_BASE_URL", "https://u:p@gateway")
        .env("OLLAMA_HOST", "gpu:many");
    assert!(case.load().unwrap().providers.is_empty());
    insta::assert_debug_snapshot!(case.warnings());
}

#[test]
fn an_entry_takes_precedence_key_by_key() {
    let case = Case::new()
        .file(
            "\
agent:
  providers:
    openai: { url: 'http://file/v1' }
    groq: { api_key: file, models: [a] }
    lab: { url: 'http://file/v1', context_tokens: 1000 }
",
        )
        .dot_env("OPENAI_API_KEY=dot-env\nGROQ_API_KEY=dot-env\nMISTRAL_API_KEY=dot-env\n")
        .env("OPENAI_BASE_URL", "http://env/v1")
        .env("OPENAI_API_KEY", "env")
        .env("CORACLE_AGENT_PROVIDERS", "{\"groq\": {\"api\": \"responses\"}, \"lab\": {\"api_key\": \"env\"}}")
        .flag("agent.providers", "lab: { api_key: flag }");
    let loaded = case.load().unwrap();
    let expected = [
        ("groq", None, Some("file")),
        ("lab", Some("http://file/v1"), Some("flag")),
        ("mistral", None, Some("dot-env")),
        ("openai", Some("http://file/v1"), Some("env")),
    ];
    assert_eq!(usable(&loaded), expected);
    insta::assert_debug_snapshot!(shown(&case));
}

#[test]
fn azure_is_a_provider() {
    let case = Case::new()
        .env("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
        .env("AZURE_OPENAI_API_KEY", "k")
        .env("AZURE_OPENAI_API_VERSION", "2024-10-21")
        .env("AZURE_OPENAI_DEPLOYMENT", "mine");
    let loaded = case.load().unwrap();
    let azure = Provider {
        api_version: Some("2024-10-21".to_owned()),
        models: vec!["mine".to_owned()],
        ..provider(Some("https://r.openai.azure.com/"), Some("k"))
    };
    assert_eq!(loaded.providers, [("azure".to_owned(), azure.clone())].into());
    assert_eq!(loaded.default_model().as_deref(), Some("azure/mine"));
    assert!(loaded.settings.agent.providers.is_empty());

    let case = case.file("agent: { default_model: ' m ', providers: { azure: { api_key: own, models: [a, b] } } }");
    let loaded = case.load().unwrap();
    let models = vec!["a".to_owned(), "b".to_owned()];
    let azure = Provider { api_key: Some(Secret::new("own")), models, ..azure };
    assert_eq!(loaded.providers, [("azure".to_owned(), azure)].into());
    assert_eq!(loaded.default_model().as_deref(), Some("m"));

    // Without an endpoint, the deployment is of no use.
    let loaded = Case::new().env("AZURE_OPENAI_DEPLOYMENT", "mine").load().unwrap();
    assert_eq!((loaded.providers.len(), loaded.default_model()), (0, None));
    assert!(Case::new().file("agent: { providers: { azure: { api_key: k } } }").error().contains("has no `url`"));
}

#[test]
fn an_unusable_provider_does_not_affect_others() {
    let case = Case::new()
        .file(
            "\
agent:
  providers:
    good: { url: 'http://good/v1' }
    missing: { url: 'http://x', api_key: '${NOT_SET}' }
    bad_reference: { url: 'http://x', api_key: '${input:key}' }
    bad_url: { url: 'ftp://x' }
    no_host: { url: 'https:///v1' }
    user: { url: 'https://u:p@x/v1' }
    line: { url: 'http://x', api_key: \"a\\nb\" }
",
        )
        .env("AZURE_OPENAI_ENDPOINT", "resource");
    assert_eq!(usable(&case.load().unwrap()), [("good", Some("http://good/v1"), None)]);
    insta::assert_debug_snapshot!(case.warnings());
    // Positive control: with the variable, the same entry works.
    let loaded = case.env("NOT_SET", "set").load().unwrap();
    let expected = [("good", Some("http://good/v1"), None), ("missing", Some("http://x"), Some("set"))];
    assert_eq!(usable(&loaded), expected);
}

#[test]
fn wrong_entries_are_reported_with_a_suggestion() {
    let case = Case::new()
        .file(
            "\
agent:
  provider: {}
  max_step: 5
  max_steps: 0
  max_calls: 10_001
  max_run_tokens: many
  daily_tokens: 1
  allow_image_urls: 5
  instructions: [a]
  providers:
    openai: { apikey: k, base_url: x, colour: red }
    anthropic: { api: message, code_fences: sometimes, context_tokens: 5, models: a, url: [x] }
    opnai: { api_key: k }
    lab: {}
    a/b: { url: 'http://x' }
    groq: text
",
        )
        .env("CORACLE_AGENT_PROVIDERS", "[a]");
    insta::assert_snapshot!(case.error());
    insta::assert_snapshot!(Case::new().file("agent: { providers: { opnai: { api_key: k }, lab: } }").error());
}

#[test]
fn names_of_providers_are_checked() {
    let file = |name: &str| Case::new().file(&format!("agent: {{ providers: {{ {name:?}: {{ url: 'http://x' }} }} }}"));
    for good in ["a", "Lab-2_x.y", &"x".repeat(64)] {
        assert_eq!(file(good).load().unwrap().providers.len(), 1, "{good}");
    }
    for bad in ["", "a/b", "a b", "ä", "a:b", &"x".repeat(65)] {
        assert!(file(bad).error().contains("is not a name of a model provider"), "{bad:?}");
    }
}

#[test]
fn limits_have_defaults_and_ranges() {
    let agent = Case::new().load().unwrap().settings.agent;
    assert_eq!((agent.max_steps, agent.max_calls, agent.max_run_tokens), (50, 200, 2_000_000));
    assert_eq!((agent.daily_tokens, agent.instructions, agent.allow_image_urls), (None, None, false));
    let case = Case::new()
        .file("agent: { max_steps: 1000, max_run_tokens: 5000, instructions: \"Be brief.\\nUse metric units.\" }")
        .env("CORACLE_AGENT_MAX_CALLS", "10000")
        .env("CORACLE_AGENT_DAILY_TOKENS", "1000000")
        .env("CORACLE_AGENT_ALLOW_IMAGE_URLS", "true");
    let agent = case.load().unwrap().settings.agent;
    assert_eq!((agent.max_steps, agent.max_calls, agent.max_run_tokens), (1_000, 10_000, 5_000));
    assert_eq!(agent.instructions.as_deref(), Some("Be brief.\nUse metric units."));
    assert_eq!((agent.daily_tokens, agent.allow_image_urls), (Some(1_000_000), true));
}
