//! The real NumPy, pandas and Matplotlib in sandboxes: results and figures.

use coracle_engine::{Engine, EngineConfig};
use coracle_sandbox::{NativeBackend, NativeConfig, Packages};
use coracle_store::MemoryStore;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::{Execution, Language, Limits};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tempfile::TempDir;

/// Interpreter of an environment with these packages, readable for all users.
fn python() -> &'static Path {
    static PYTHON: OnceLock<(Option<TempDir>, PathBuf)> = OnceLock::new();
    let (_, python) = PYTHON.get_or_init(|| {
        let environment = coracle_testing::installed::path("venv-science");
        let is_open = |folder: &Path| folder.metadata().unwrap().permissions().mode() & 0o001 != 0;
        // A sandbox has its own /tmp without files of the host.
        if environment.ancestors().all(is_open) && !environment.starts_with("/tmp") {
            return (None, environment.join("bin/python3"));
        }
        let folder = TempDir::new_in("/var/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp").arg("-a").arg(&environment).arg(folder.path()).status().unwrap();
        assert!(copied.success(), "cp: {copied}");
        let python = folder.path().join("venv-science/bin/python3");
        (Some(folder), python)
    });
    python
}

/// Runs `coracle exec --json` with that interpreter and the default limits.
fn run(coracle: &Coracle, code: &str) -> Value {
    let output = coracle
        .command()
        .env("CORACLE_PYTHON", python())
        .args(["exec", "--json", "--workspace"])
        .arg(coracle.workspace())
        .args(["-c", code])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {output:?}"))
}

/// Code with its expected value as JSON.
fn numpy() -> Vec<(&'static str, Value)> {
    vec![
        ("np.float32(1.5)", json!(1.5)),
        ("[np.float64('nan'), np.float64('inf')]", json!(["NaN", "Infinity"])),
        ("[np.int64(3), np.uint64(2**64 - 1), np.bool_(True)]", json!([3, 18_446_744_073_709_551_615_u64, true])),
        ("[np.complex128(1 + 2j), np.str_('x'), np.longdouble('1.25')]", json!(["(1+2j)", "x", "1.25"])),
        ("np.bytes_(b'x')", json!({"type": "bytes", "length": 1, "base64": "eA=="})),
        ("np.datetime64('2024-01-02T03:04:05')", json!("2024-01-02T03:04:05")),
        ("np.datetime64('2024-01-02T03:04:05.000000006')", json!("2024-01-02T03:04:05.000000006")),
        ("[np.datetime64('NaT'), np.timedelta64('NaT')]", json!([null, null])),
        ("[np.timedelta64(90, 's'), np.timedelta64(1500, 'ms')]", json!([90.0, 1.5])),
        ("np.timedelta64(3, 'M')", json!("3 months")),
        ("np.array(5)", json!(5)),
        ("np.array('2024-01-01', dtype='M8[ns]')", json!("2024-01-01T00:00:00.000000000")),
        ("np.arange(6).reshape(2, 3)", json!([[0, 1, 2], [3, 4, 5]])),
        ("np.array([[1.5, np.nan, -np.inf]])", json!([[1.5, "NaN", "-Infinity"]])),
        ("np.zeros((0, 3))", json!([])),
        ("np.array([1, None, 'a'], dtype=object)", json!([1, null, "a"])),
        ("np.array([(1, 2.5)], dtype=[('a', 'i4'), ('b', 'f8')])", json!([{"a": 1, "b": 2.5}])),
        ("np.ma.array([1, 2, 3], mask=[0, 1, 0])", json!([1, null, 3])),
        ("np.matrix([[1, 2], [3, 4]])", json!([[1, 2], [3, 4]])),
        ("{np.int64(1): np.float64(2)}", json!({"1": 2.0})),
        ("np.linalg.solve(np.array([[2.0, 0], [0, 4]]), [2, 4])", json!([1.0, 1.0])),
    ]
}

fn pandas() -> Vec<(&'static str, Value)> {
    let frame = |shape: [u32; 2], columns: Value, rows: Value| json!({"type": "dataframe", "shape": shape, "columns": columns, "rows": rows});
    let indexed = |frame: Value, index: Value| {
        let mut frame = frame;
        frame["index"] = index;
        frame
    };
    let series = |name: Value, dtype: &str, index: Value, values: Value| {
        let length = values.as_array().unwrap().len();
        json!({"type": "series", "name": name, "dtype": dtype, "length": length, "index": index, "values": values})
    };
    vec![
        ("pd.Timestamp('2024-01-02 03:04:05.000000006')", json!("2024-01-02T03:04:05.000000006")),
        ("pd.Timestamp('2024-07-01', tz='Europe/Paris')", json!("2024-07-01T00:00:00+02:00")),
        ("[pd.NaT, pd.NA, pd.Timestamp('NaT')]", json!([null, null, null])),
        ("[pd.Timedelta('1h'), pd.Period('2024-01'), pd.Interval(0, 1)]", json!([3600.0, "2024-01", "(0, 1]"])),
        ("pd.DataFrame({'a': [1, 2]})", frame([2, 1], json!(["a"]), json!([{"a": 1}, {"a": 2}]))),
        ("pd.DataFrame()", frame([0, 0], json!([]), json!([]))),
        (
            "pd.DataFrame([[1, 2]], columns=['a', 'a'])",
            frame([1, 2], json!(["a", "a"]), json!([{"a": 1, "a (str)": 2}])),
        ),
        ("pd.DataFrame({1: [2]})", frame([1, 1], json!([1]), json!([{"1": 2}]))),
        (
            "pd.DataFrame({'t': [pd.Timestamp('2024-01-01'), pd.NaT], 'f': [1.5, np.nan], 'o': [None, 'x'], 'i': pd.array([1, None], dtype='Int64'), 'c': pd.Categorical(['a', 'b'])})",
            frame(
                [2, 5],
                json!(["t", "f", "o", "i", "c"]),
                json!([
                    {"t": "2024-01-01T00:00:00", "f": 1.5, "o": null, "i": 1, "c": "a"},
                    {"t": null, "f": "NaN", "o": "x", "i": null, "c": "b"},
                ]),
            ),
        ),
        (
            "pd.DataFrame({'k': ['x', 'y', 'x'], 'v': [1, 2, 3]}).groupby('k').sum()",
            indexed(frame([2, 1], json!(["v"]), json!([{"v": 4}, {"v": 2}])), json!(["x", "y"])),
        ),
        ("pd.Series([1, 2], name='n')", series(json!("n"), "int64", json!([0, 1]), json!([1, 2]))),
        (
            "pd.Series([1.5, None], index=['a', 'b'])",
            series(json!(null), "float64", json!(["a", "b"]), json!([1.5, "NaN"])),
        ),
        (
            "pd.Series([3], index=pd.to_datetime(['2024-01-01']))",
            series(json!(null), "int64", json!(["2024-01-01T00:00:00"]), json!([3])),
        ),
        (
            "pd.Series(pd.to_datetime(['2024-01-01', None]))",
            series(json!(null), "datetime64[ns]", json!([0, 1]), json!(["2024-01-01T00:00:00", null])),
        ),
        ("pd.Index([1, 2])", series(json!(null), "int64", json!([]), json!([1, 2]))),
        ("[pd.Categorical(['a', 'b']), pd.array([1, None])]", json!([["a", "b"], [1, null]])),
    ]
}

/// Runs all cases in one execution: a map from code to value.
fn all(setup: &str, cases: &[(&str, Value)]) -> (String, Value) {
    let lines: Vec<String> = cases.iter().map(|(code, _)| format!("result[{code:?}] = {code}")).collect();
    let expected = cases.iter().map(|(code, value)| ((*code).to_owned(), value.clone())).collect();
    (format!("{setup}\nresult = {{}}\n{}\n", lines.join("\n")), Value::Object(expected))
}

fn assert_same(found: &Value, expected: &Value) {
    let (found, expected) = (found.as_object().unwrap(), expected.as_object().unwrap());
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(code, value)| found.get(*code) != Some(*value))
        .map(|(code, value)| format!("{code}\n  is  {}\n  not {value}", found.get(code).unwrap_or(&Value::Null)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

each_user!(values_of_numpy_and_pandas_are_results);
fn values_of_numpy_and_pandas_are_results(who: As) {
    let coracle = Coracle::new(who);
    for (setup, cases) in [("import numpy as np", numpy()), ("import numpy as np, pandas as pd", pandas())] {
        let (code, expected) = all(setup, &cases);
        let execution = run(&coracle, &code);
        assert_eq!(execution["success"], true, "as {who:?}: {execution:#}");
        assert_same(&execution["result"], &expected);
        assert_eq!(execution["stderr"], "", "as {who:?}");
    }
}

each_user!(large_values_are_summarized);
fn large_values_are_summarized(who: As) {
    let coracle = Coracle::new(who);
    let execution = run(&coracle, "import numpy as np; np.arange(1_000_000).reshape(1000, 1000)");
    let result = &execution["result"];
    assert_eq!(
        (&result["type"], &result["length"], &result["shape"], &result["dtype"]),
        (&json!("ndarray"), &json!(1000), &json!([1000, 1000]), &json!("int64")),
        "as {who:?}: {execution:#}"
    );
    let execution = run(&coracle, "import pandas as pd; pd.DataFrame({'a': range(1_000_000)})");
    let result = &execution["result"];
    assert_eq!(result["shape"], json!([1_000_000, 1]), "as {who:?}: {execution:#}");
    assert_eq!(result["rows"].as_array().unwrap().len(), 20, "as {who:?}");
}

each_user!(a_csv_file_of_50_megabytes_is_read);
/// With the default limits, and again with too little memory, which is reported.
fn a_csv_file_of_50_megabytes_is_read(who: As) {
    let write = "
row = ','.join(str(number * 1.25 + 1000) for number in range(12))
with open('/workspace/large.csv', 'w') as file:
    file.write(','.join(f'c{number}' for number in range(12)) + '\\n')
    written = 0
    while written < 50_000_000:
        written += file.write((row + '\\n') * 1000)
written";
    let read = "
import pandas as pd
frame = pd.read_csv('/workspace/large.csv')
[int(frame.shape[1]), len(frame) > 400_000, float(frame.c3.mean())]";
    let coracle = Coracle::new(who);
    assert_eq!(run(&coracle, write)["success"], true, "as {who:?}");
    let execution = run(&coracle, read);
    assert_eq!(execution["success"], true, "as {who:?}: {execution:#}");
    assert_eq!(execution["result"], json!([12, true, 1003.75]), "as {who:?}");
    let little = coracle
            .command()
            .env("CORACLE_PYTHON", python())
            .args(["exec", "--json", "--memory", "150", "--workspace"])
            .arg(coracle.workspace())
            // Stays above the limit until the time limit, however rarely memory is checked.
            .args(["-c", &format!("{read}\nall = [frame.copy() for _ in range(4)]\nwhile True: __import__('time').sleep(1)")])
            .output()
            .unwrap();
    let little: Value = serde_json::from_slice(&little.stdout).unwrap();
    assert_eq!(little["error_code"], "memory", "as {who:?}: {little:#}");
    assert!(little["error"].as_str().unwrap().contains("150 MB"), "as {who:?}: {little:#}");
}

each_user!(open_figures_become_artifacts);
fn open_figures_become_artifacts(who: As) {
    let code = "
import matplotlib.pyplot as plt
open('/artifacts/figure_2.png', 'w').write('mine')
plt.plot([1, 2]); plt.title('größer ∑')
plt.figure(); plt.bar(['a', 'b'], [1, 2])
plt.savefig('/artifacts/bars.svg'); plt.savefig('/artifacts/bars.pdf')
plt.figure(); plt.close()
plt.show()
";
    let coracle = Coracle::new(who);
    let execution = run(&coracle, code);
    assert_eq!((&execution["success"], &execution["stderr"]), (&json!(true), &json!("")), "as {who:?}: {execution:#}");
    let found: Vec<(&str, &str)> = execution["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|artifact| (artifact["name"].as_str().unwrap(), artifact["mime"].as_str().unwrap()))
        .collect();
    let expected = [
        ("bars.pdf", "application/pdf"),
        ("bars.svg", "image/svg+xml"),
        ("figure_1.png", "image/png"),
        ("figure_2.png", "application/octet-stream"),
        ("figure_3.png", "image/png"),
    ];
    assert_eq!(found, expected, "as {who:?}");
    let kept = coracle.home().join("workspaces/local/artifacts");
    let uri = execution["artifacts"][2]["uri"].as_str().unwrap().strip_prefix("coracle://artifacts/").unwrap();
    let png = std::fs::read(kept.join(uri)).unwrap();
    // PNG signature, and the size in the header.
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n", "as {who:?}");
    assert_eq!(png[16..24], [0, 0, 640_u16.to_be_bytes()[0], 640_u16.to_be_bytes()[1], 0, 0, 1, 224], "as {who:?}");

    let failing = "import matplotlib.pyplot as plt\nplt.figure().savefig = None\n7";
    let execution = run(&coracle, failing);
    assert_eq!((&execution["success"], &execution["result"]), (&json!(true), &json!(7)), "as {who:?}: {execution:#}");
    let words = execution["stderr"].as_str().unwrap();
    assert!(words.starts_with("cannot save a figure: TypeError"), "as {who:?}: {words}");
}

/// In a sandbox forked from a warm zygote, with default limits on memory, processes and threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_at_the_default_limits() {
    let lab = Lab::with_python(Some(python().to_owned()), Limits::default(), 2, Duration::from_mins(10));
    let step = async |code: &str| -> Execution {
        let execution = lab.execute(lab.in_session("data", Language::Python, code)).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        execution
    };
    step("import numpy as np, pandas as pd\nframe = pd.DataFrame({'x': np.arange(1000), 'y': np.arange(1000) % 7})")
        .await;
    let mean = step("frame.groupby('y').x.mean().loc[3]").await;
    assert_eq!(mean.result, Some(json!(500.0)));
    // A product for which libraries use threads.
    let product = step("a = np.ones((600, 600)); float((a @ a).sum())").await;
    assert_eq!(product.result, Some(json!(216_000_000.0)));
    let threads = step("import os\nlen(os.listdir('/proc/self/task'))").await;
    assert_eq!(threads.result, Some(json!(1)));
    // Files in common formats, with threads and child processes.
    let written = step(
        "frame.to_csv('frame.csv', index=False); frame.to_pickle('frame.pkl'); np.save('a.npy', a)\n\
         from concurrent.futures import ThreadPoolExecutor\n\
         with ThreadPoolExecutor(4) as pool: sums = list(pool.map(lambda n: int(np.full(10, n).sum()), range(4)))\n\
         import subprocess, sys\n\
         line = 'import pandas as pd; print(len(pd.read_csv(\"frame.csv\")))'\n\
         child = subprocess.run([sys.executable, '-c', line], capture_output=True, text=True)\n\
         [len(pd.read_csv('frame.csv')), np.load('a.npy').shape, sums, child.stdout, child.stderr]",
    )
    .await;
    assert_eq!(written.result, Some(json!([1000, [600, 600], [0, 10, 20, 30], "1000\n", ""])));
    let drawn = step("import matplotlib.pyplot as plt\nframe.plot(x='x', y='y')\nplt.show()").await;
    assert_eq!(drawn.artifacts.iter().map(|artifact| artifact.name.as_str()).collect::<Vec<_>>(), ["figure_1.png"]);
    // The figure was closed with the execution that drew it.
    assert_eq!(step("plt.get_fignums()").await.result, Some(json!([])));
    // Memory of arrays counts like any other, and exceeding it has its own error code.
    let large = lab.python("import numpy as np\nnp.ones(200_000_000)").await;
    assert_eq!(error_code(&large), Some(coracle_types::ErrorCode::Memory), "{large:?}");
    lab.close().await;
}

/// Warm server that preloads these modules.
fn warmed(preload: &[&str]) -> Lab {
    let (home, limits) = (TempDir::new().unwrap(), Limits::default());
    let backend = NativeBackend::new(NativeConfig {
        home: home.path().to_owned(),
        launcher: coracle_testing::harness::built(),
        python: Some(python().into()),
        pool: 2,
        preload: true,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: limits.clone(),
    });
    let preload = preload.iter().map(|&name| name.to_owned()).collect();
    let backend = Arc::new(backend.with_packages(Packages { environment: None, preload }));
    let config = EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(10) };
    let engine = Engine::new(config, Arc::<NativeBackend>::clone(&backend), Arc::new(MemoryStore::new()), None);
    Lab { engine, backend, home, limits }
}

/// Preloaded modules are available at once, with different random numbers in every sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn preloaded_modules_are_separate_in_every_sandbox() {
    const CODE: &str = "import sys\nthere = [name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]
import numpy as np, pandas as pd
np.random.shuffle(drawn := np.arange(1000))
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig('/artifacts/line.png')
plt.close()
[there, [float(np.random.random()), *map(int, drawn)], int(pd.Series([40, 2]).sum())]";
    let lab = warmed(&["numpy", "pandas", "matplotlib.pyplot"]);
    let mut drawn = Vec::new();
    for _ in 0..4 {
        let execution = lab.python(CODE).await;
        assert_eq!((error_code(&execution), execution.artifacts.len()), (None, 1), "{execution:?}");
        let result = execution.result.unwrap();
        assert_eq!((&result[0], &result[2]), (&json!([true, true, true]), &json!(42)));
        assert!(!drawn.contains(&result[1]), "two sandboxes drew the same");
        drawn.push(result[1].clone());
    }
    lab.close().await;
}

each_user!(the_benchmark_measures_imports);
fn the_benchmark_measures_imports(who: As) {
    let coracle = Coracle::new(who);
    let rows = ["import_pandas", "import_pandas_preloaded"];
    let mut command = coracle.command();
    command.env("CORACLE_PYTHON", python()).args(["bench", "sandbox", "--quick", "--json", "--only", &rows.join(",")]);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let names: Vec<&Value> = report["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, rows, "as {who:?}: {report:#}");
}
