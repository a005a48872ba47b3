//! Code that calls tools in TypeScript and bash: results, errors, media and parallel calls. The host's side is a
//! stand-in; the broker has its own tests.

use async_trait::async_trait;
use coracle_engine::{HostCallError, HostCalls};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python, TypeScript};
use coracle_types::{Execution, Language, Limits};
use serde_json::{Map, Value, json};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Answers like a server.
#[derive(Debug, Default)]
struct Tools {
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    calls: AtomicUsize,
}

#[async_trait]
impl HostCalls for Tools {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        if method == "absent" {
            // Answer about an unknown server.
            return Err(HostCallError { code: "unknown".to_owned(), message: String::new(), retryable: false });
        }
        assert_eq!(method, "tool");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let answer = self.answer(&params).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

impl Tools {
    async fn answer(&self, params: &Map<String, Value>) -> Result<Value, HostCallError> {
        let arguments = params["arguments"].clone();
        let fail =
            |retryable| HostCallError { code: "upstream".to_owned(), message: "it said no".to_owned(), retryable };
        match params["tool"].as_str().unwrap_or_default() {
            "echo" => Ok(json!({"value": {"server": params["server"], "arguments": arguments}, "media": []})),
            "text" => Ok(json!({"value": "two\nlines", "media": []})),
            "sleep" => {
                tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(300))).await;
                Ok(json!({"value": arguments["n"], "media": []}))
            }
            "large" => Ok(json!({"value": "x".repeat(arguments["bytes"].as_u64().unwrap_or(0) as usize), "media": []})),
            "picture" => Ok(json!({
                "value": ["see", {"$media": 0}, {"$media": 1}],
                "media": [{"mime": "image/png", "data": "iVBORw==", "uri": "file:///a.png"}, {"mime": "odd/kind", "data": "AAE="}],
            })),
            "fail" => Err(fail(false)),
            "busy" => Err(fail(true)),
            _ => Err(HostCallError {
                code: "unknown_tool".to_owned(),
                message: "no such tool".to_owned(),
                retryable: false,
            }),
        }
    }
}

struct Bench {
    lab: Lab,
    tools: Arc<Tools>,
}

impl Bench {
    /// Creates a lab with a generated server, whose modules sandboxes see unchanged.
    async fn new() -> Self {
        let lab = Lab::new(Limits { wall_ms: 30_000, ..Limits::default() }, 1, Duration::from_mins(10));
        assert_eq!(error_code(&lab.python("1").await), None);
        let cache = lab.home.path().join("cache");
        let guest =
            fs::read_dir(cache).unwrap().flatten().find(|it| it.file_name().to_string_lossy().starts_with("guest-"));
        let folder = guest.unwrap().path().join("servers/demo");
        fs::create_dir_all(&folder).unwrap();
        let echo = "import { call } from \"coracle\";\nexport interface Arguments { owner: string; labels?: string[] }\nexport async function echo(args: Arguments): Promise<any> { return call(\"demo\", \"echo\", args) }\n";
        fs::write(folder.join("echo.ts"), echo).unwrap();
        fs::write(
            folder.join("index.ts"),
            "export { echo } from \"./echo.ts\";\nexport * as more from \"servers/demo/more\";\n",
        )
        .unwrap();
        let more = "import { call, ToolError } from \"coracle\";\nexport const any = (tool: string, args: object = {}) => call(\"demo\", tool, args);\nexport { ToolError };\n";
        fs::write(folder.join("more.ts"), more).unwrap();
        let tool = |name: &str, properties: Value| {
            let schema = json!({"type": "object", "properties": properties});
            json!({"module": name, "name": name, "summary": format!("Does {name}."), "description": "", "input_schema": schema})
        };
        let list = json!({"server": "demo", "tools": [
            tool("echo", json!({"owner": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}}, "limit": {"type": "integer"}})),
            tool("text", json!({})), tool("fail", json!({})), tool("busy", json!({})), tool("picture", json!({})),
            tool("sleep", json!({"n": {"type": "integer"}, "ms": {"type": "integer"}})), tool("large", json!({"bytes": {"type": "integer"}})),
        ]});
        fs::write(folder.join("tools.json"), list.to_string()).unwrap();
        Self { lab, tools: Arc::default() }
    }

    async fn run(&self, language: Language, code: &str) -> Execution {
        let mut request = self.lab.request(language, code);
        request.calls = Arc::<Tools>::clone(&self.tools);
        self.lab.execute(request).await
    }

    async fn typescript(&self, code: &str) -> Value {
        let execution = self.run(TypeScript, code).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        execution.result.unwrap_or_default()
    }

    /// Output of a script.
    async fn bash(&self, code: &str) -> String {
        let execution = self.run(Bash, code).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        execution.stdout
    }

    fn most_at_once(&self) -> usize {
        self.tools.most_at_once.swap(0, Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_imports_servers_and_calls_them() {
    let bench = Bench::new().await;
    let code = "import { echo } from 'servers/demo';\nimport { echo as same } from 'servers/demo/echo';\nconst a = await echo({ owner: 'ä', labels: ['x'] });\n[a, (await same({ owner: 'b' })).arguments.owner]";
    let expected = json!([{"server": "demo", "arguments": {"owner": "ä", "labels": ["x"]}}, "b"]);
    assert_eq!(bench.typescript(code).await, expected);
    let code = r#"
        import { more } from "servers/demo";
        const told: unknown[] = [];
        for (const tool of ["fail", "busy", "nothing"]) {
            try { await more.any(tool) } catch (error) {
                if (!(error instanceof more.ToolError)) throw error;
                told.push([error.name, error.server, error.tool, error.code, error.message, error.retryable]);
            }
        }
        told"#;
    let expected = json!([
        ["ToolError", "demo", "fail", "upstream", "it said no", false],
        ["ToolError", "demo", "busy", "upstream", "it said no", true],
        ["ToolError", "demo", "nothing", "unknown_tool", "no such tool", false],
    ]);
    assert_eq!(bench.typescript(code).await, expected);
    let execution = bench.run(TypeScript, "import { more } from 'servers/demo';\n\nawait more.any('fail');").await;
    let failure = execution.failure.expect("it fails");
    assert_eq!(failure.error, "ToolError: demo.fail: it said no (upstream)");
    assert!(failure.traceback.as_deref().is_some_and(|text| text.contains("at <code>:3:7")), "{failure:?}");
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn media_are_files() {
    let bench = Bench::new().await;
    let code = "import { more } from 'servers/demo';\nconst [text, png, odd] = await more.any('picture');\n[text, png, png.readBytes().length, odd.path, readBytes(odd.path).length]";
    let expected = json!(["see", {"type": "media", "path": "/tmp/media/1.png", "mime": "image/png", "size": 4, "uri": "file:///a.png"}, 4, "/tmp/media/2.bin", 2]);
    assert_eq!(bench.typescript(code).await, expected);
    let printed = bench.bash("tool demo picture; stat -c %s /tmp/media/1.png").await;
    let (value, size) = printed.trim_end().split_once('\n').unwrap();
    assert_eq!(size, "4");
    assert_eq!(
        serde_json::from_str::<Value>(value).unwrap()[1],
        json!({"type": "media", "path": "/tmp/media/1.png", "mime": "image/png", "size": 4, "uri": "file:///a.png"})
    );
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_in_parallel() {
    let bench = Bench::new().await;
    let code = "import { more } from 'servers/demo';\nconst all = await Promise.all(Array.from({ length: 100 }, (_, n) => more.any('sleep', { n, ms: 50 })));\n[all.length, all.every((n, i) => n === i)]";
    assert_eq!(bench.typescript(code).await, json!([100, true]));
    // The engine's limit on parallel calls.
    assert_eq!(bench.most_at_once(), 32);
    let printed = bench.bash("for n in 1 2 3 4 5 6 7 8; do tool demo sleep --n $n --ms 500 & done; wait").await;
    let mut numbers: Vec<&str> = printed.split_whitespace().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert!(bench.most_at_once() >= 6, "the calls waited for each other");
    let printed = bench.bash("seq 12 | xargs -P 6 -I{} tool demo sleep --n {} --ms 300 | sort -n | tr '\\n' ' '").await;
    assert_eq!(printed, "1 2 3 4 5 6 7 8 9 10 11 12 ");
    assert!(bench.most_at_once() >= 4, "the calls waited for each other");
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_results_and_arguments_work() {
    let bench = Bench::new().await;
    let code = "import { more } from 'servers/demo';\nconst all = await Promise.all(Array.from({ length: 20 }, () => more.any('large', { bytes: 1_000_000 })));\nconst back = await more.any('echo', { text: 'y'.repeat(900_000) });\n[all.map((t) => t.length).reduce((a, b) => a + b), back.arguments.text.length]";
    assert_eq!(bench.typescript(code).await, json!([20_000_000, 900_000]));
    let printed = bench.bash("for i in 1 2 3 4 5 6; do tool demo large --bytes 1000000 | wc -c & done; wait").await;
    assert_eq!(printed, "1000001\n".repeat(6));
    let printed = bench.bash("printf '{\"owner\": \"%0900000d\"}' 1 | tool demo echo - | wc -c").await;
    assert_eq!(printed, "900043\n");
    // Output printed meanwhile does not block calls.
    let code = "import { more } from 'servers/demo';\nconst all = Promise.all(Array.from({ length: 20 }, () => more.any('large', { bytes: 1_000_000 })));\nfor (let i = 0; i < 2000; i++) console.log('x'.repeat(100));\n(await all).length";
    assert_eq!(bench.typescript(code).await, json!(20));
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_is_an_ordinary_command() {
    let bench = Bench::new().await;
    let cases = [
        ("tool", "demo\n"),
        ("tool demo | head -2", "echo     Does echo.\ntext     Does text.\n"),
        ("tool demo text", "two\nlines\n"),
        (
            "tool demo echo --owner 5 --labels a --labels b --limit 3",
            "{\"server\":\"demo\",\"arguments\":{\"owner\":\"5\",\"labels\":[\"a\",\"b\"],\"limit\":3}}\n",
        ),
        (
            "echo '{\"owner\": \"in\"}' | tool demo echo - --limit=1",
            "{\"server\":\"demo\",\"arguments\":{\"owner\":\"in\",\"limit\":1}}\n",
        ),
        ("tool demo fail 2>&1; echo $?", "tool: demo.fail: it said no (upstream)\n1\n"),
        ("tool demo busy 2>&1; echo $?", "tool: demo.busy: it said no (upstream)\n75\n"),
        ("tool demo ecko 2>&1; echo $?", "tool: demo has no tool \"ecko\"\nhint: did you mean echo?\n2\n"),
        (
            "tool demo echo --ownr 1 2>&1; echo $?",
            "tool: demo.echo: there is no parameter --ownr\nhint: did you mean --owner?\n2\n",
        ),
        ("x=$(tool demo echo --owner sub); echo \"$x\" | grep -c sub", "1\n"),
        ("cd /tmp; env -i PATH=/usr/bin CORACLE_DOOR=$CORACLE_DOOR /coracle/bin/tool demo text", "two\nlines\n"),
        (
            "env -u CORACLE_DOOR tool demo text 2>&1; echo $?",
            "tool: cannot reach the host: `tool` works only in bash runs\n1\n",
        ),
        (
            "python3 -c 'import subprocess; print(subprocess.run([\"tool\", \"demo\", \"text\"], capture_output=True).stdout)'",
            "b'two\\nlines\\n'\n",
        ),
        ("tool demo large --bytes 300000 | head -c 1", "x"),
        ("tool demo sleep --ms 60000 & sleep 0.3; kill $!; wait $! 2>/dev/null; tool demo text | head -1", "two\n"),
    ];
    for (code, expected) in cases {
        assert_eq!(bench.bash(code).await, expected, "{code}");
    }
    let help = bench.bash("tool demo echo --help").await;
    assert!(help.contains("--labels  array"), "{help}");
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_outlive_the_run_are_cancelled() {
    let bench = Bench::new().await;
    let session = |language, code: &str| {
        let mut request = bench.lab.in_session("a", language, code);
        request.calls = Arc::<Tools>::clone(&bench.tools);
        request
    };
    let left = "(tool demo sleep --ms 60000 >/tmp/left 2>&1; echo \"status $?\" >>/tmp/left) & sleep 0.3; echo over";
    let execution = bench.lab.execute(session(Bash, left)).await;
    assert_eq!((error_code(&execution), execution.stdout.as_str()), (None, "over\n"), "{execution:?}");
    let wait = "for i in $(seq 100); do grep -q status /tmp/left && break; sleep 0.05; done; cat /tmp/left";
    let execution = bench.lab.execute(session(Bash, wait)).await;
    assert_eq!(execution.stdout, "tool: demo.sleep: the run is over (cancelled)\nstatus 1\n");
    // The channel still works for every language.
    let execution = bench
        .lab
        .execute(session(TypeScript, "import { echo } from 'servers/demo'; (await echo({ owner: 'o' })).server"))
        .await;
    assert_eq!(execution.result, Some(json!("demo")), "{execution:?}");
    let python = "from coracle_guest import calls\ncalls.call('tool', {'server': 'demo', 'tool': 'text', 'arguments': {}})['value']";
    let execution = bench.lab.execute(session(Python, python)).await;
    assert_eq!(execution.result, Some(json!("two\nlines")), "{execution:?}");
    bench.lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_threads_and_children_share_the_channel() {
    let bench = Bench::new().await;
    let session = |language, code: &str| {
        let mut request = bench.lab.in_session("a", language, code);
        request.calls = Arc::<Tools>::clone(&bench.tools);
        request
    };
    let python = "
import threading, time
from coracle_guest import calls
heard = []
def ask():
    heard.append(calls.call('tool', {'server': 'demo', 'tool': 'sleep', 'arguments': {'n': 1, 'ms': 5}})['value'])
def begin():
    # A call that is under way when a run ends is never answered, so each has a thread of its own.
    for _ in range(30):
        time.sleep(0.02)
        threading.Thread(target=ask, daemon=True).start()
threading.Thread(target=begin, daemon=True).start()";
    let execution = bench.lab.execute(session(Python, python)).await;
    assert_eq!(error_code(&execution), None, "{execution:?}");
    let code = "import { more } from 'servers/demo';\nconst all = [];\nfor (let n = 0; n < 100; n++) all.push(await more.any('sleep', { n, ms: 2 }));\nall.length";
    let execution = bench.lab.execute(session(TypeScript, code)).await;
    assert_eq!(execution.result, Some(json!(100)), "{execution:?}");
    let execution = bench.lab.execute(session(Bash, "for i in 1 2 3; do tool demo text; done | wc -l")).await;
    assert_eq!(execution.stdout, "6\n", "{execution:?}");
    let execution = bench.lab.execute(session(Python, "len(heard) > 3")).await;
    assert_eq!(execution.result, Some(json!(true)), "{execution:?}");
    bench.lab.close().await;
}
