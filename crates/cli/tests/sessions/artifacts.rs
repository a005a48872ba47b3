//! Artifacts of real executions: versions, previews, the limit, and protection against later changes.

use coracle_engine::ArtifactError;
use coracle_testing::lab::{Lab, error_code};
use coracle_types::{Execution, Language, Limits, Preview, UserId};
use std::time::Duration;

fn lab() -> Lab {
    Lab::new(Limits::default(), 0, Duration::from_mins(10))
}

fn ada() -> UserId {
    UserId::new("ada").unwrap()
}

fn bob() -> UserId {
    UserId::new("bob").unwrap()
}

fn told(execution: &Execution) -> Vec<(&str, &str, u64)> {
    assert_eq!(error_code(execution), None, "{execution:?}");
    let artifacts = execution.artifacts.iter();
    artifacts.map(|one| (one.name.as_str(), one.mime.as_str(), one.version.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_the_same_name_adds_a_version() {
    let lab = lab();
    let write = |text: &str| format!("open('/artifacts/table.csv', 'w').write({text:?})\nNone");
    let first = lab.python(&write("a,b\n1,2\n")).await;
    let second = lab.python(&write("a,b\n3,4\n")).await;
    assert_eq!(told(&first), [("table.csv", "text/csv", 1)]);
    assert_eq!(told(&second), [("table.csv", "text/csv", 2)]);
    let (one, other) = (&first.artifacts[0], &second.artifacts[0]);
    assert_eq!(one.id, other.id);
    assert_ne!(one.uri, other.uri);
    let id = one.id.clone().unwrap();
    for (uri, expected) in [
        (one.uri.clone(), "a,b\n1,2\n"),
        (other.uri.clone(), "a,b\n3,4\n"),
        (format!("coracle://artifacts/{id}"), "a,b\n3,4\n"),
        (format!("coracle://artifacts/{id}/versions/1"), "a,b\n1,2\n"),
    ] {
        let (artifact, bytes) = lab.engine.artifact(&ada(), &uri).await.unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{uri}");
        assert_eq!(artifact.name, "table.csv");
        // Another user cannot read it.
        let refused = lab.engine.artifact(&bob(), &uri).await.unwrap_err();
        assert!(matches!(refused, ArtifactError::Missing { .. }), "{refused}");
    }
    let record = lab.engine.artifact_versions(&ada(), &id).await.unwrap();
    assert_eq!(record.versions.len(), 2);
    let preview = Preview::Text { text: "a,b\n3,4\n".to_owned(), truncated: false };
    assert_eq!(record.versions[0].preview, Some(preview));
    assert_eq!(record.versions[0].execution_id, second.execution_id);
    assert!(lab.engine.delete_artifact(&bob(), &id, None).await.is_err());
    lab.engine.delete_artifact(&ada(), &id, Some(2)).await.unwrap();
    assert!(lab.engine.artifact(&ada(), &other.uri).await.is_err());
    assert_eq!(lab.engine.artifact(&ada(), &format!("coracle://artifacts/{id}")).await.unwrap().1, b"a,b\n1,2\n");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_session_add_changed_files() {
    let lab = lab();
    let step = async |code: &str| lab.execute(lab.in_session("s", Language::Python, code)).await;
    let first = step("open('/artifacts/a.txt', 'w').write('one')\nheld = open('/artifacts/a.txt', 'r+')\nNone").await;
    assert_eq!(told(&first), [("a.txt", "text/plain", 1)]);
    assert_eq!(told(&step("1").await), []);
    let second = step("open('/artifacts/b.txt', 'w').write('two')\nNone").await;
    assert_eq!(told(&second), [("b.txt", "text/plain", 1)]);
    // The code still has the file open, but stored content does not change.
    let third = step("held.write('ONE MORE'); held.flush()\nNone").await;
    assert_eq!(told(&third), [("a.txt", "text/plain", 2)]);
    assert_eq!(lab.engine.artifact(&ada(), &first.artifacts[0].uri).await.unwrap().1, b"one");
    assert_eq!(lab.engine.artifact(&ada(), &third.artifacts[0].uri).await.unwrap().1, b"ONE MORE");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_beyond_the_limit_are_refused_with_a_warning() {
    let lab = lab();
    lab.engine.limit_artifacts(1_000_000);
    let write = |name: &str, bytes: u32| format!("open('/artifacts/{name}', 'wb').write(b'x' * {bytes})\nNone");
    let kept = lab.python(&write("kept.bin", 700_000)).await;
    assert_eq!((told(&kept).len(), kept.warnings.len()), (1, 0));
    let refused = lab.python(&write("more.bin", 400_000)).await;
    assert_eq!(told(&refused), []);
    assert!(refused.warnings[0].contains("/artifacts/more.bin was not kept"), "{:?}", refused.warnings);
    assert!(refused.warnings[0].contains("artifacts.max_mb"), "{:?}", refused.warnings);
    assert_eq!(lab.engine.artifact(&ada(), &kept.artifacts[0].uri).await.unwrap().1.len(), 700_000);
    let small = lab.python(&write("small.bin", 100_000)).await;
    assert_eq!(told(&small).len(), 1, "artifacts within the limit are kept");
    lab.engine.delete_artifact(&ada(), kept.artifacts[0].id.as_ref().unwrap(), None).await.unwrap();
    assert_eq!(told(&lab.python(&write("more.bin", 400_000)).await).len(), 1);
    let many = "for i in range(300): open(f'/artifacts/{i:03}', 'w').close()";
    lab.engine.limit_artifacts(1 << 40);
    let many = lab.python(many).await;
    assert_eq!(many.artifacts.len(), 100, "at most this many are listed");
    assert!(many.warnings.iter().any(|warning| warning.contains("at most 256")), "{:?}", many.warnings);
    lab.close().await;
}

/// A hole uses no space in a sandbox or in the store, but counts with its full length.
#[tokio::test(flavor = "multi_thread")]
async fn sparse_files_stay_sparse_and_count_in_full() {
    let lab = Lab::new(Limits { artifacts_mb: 50, ..Limits::default() }, 0, Duration::from_mins(10));
    let code = "
import hashlib
for number in range(40):
    with open(f'/artifacts/{number:02}.bin', 'wb') as file: file.truncate(500_000_000)
with open('/artifacts/fits.bin', 'wb') as file:
    file.write(b'a' * 10_000)
    file.seek(20_000_000); file.write(b'b' * 10_000)
    file.truncate(30_000_000)
hashlib.sha256(open('/artifacts/fits.bin', 'rb').read()).hexdigest()";
    let execution = lab.python(code).await;
    assert_eq!(told(&execution), [("fits.bin", "application/octet-stream", 1)], "{execution:?}");
    assert!(execution.warnings[0].contains("50 MB, holes in them included"), "{:?}", execution.warnings);
    let uri = &execution.artifacts[0].uri;
    let kept = lab.home.path().join("workspaces/ada/artifacts").join(uri.strip_prefix("coracle://artifacts/").unwrap());
    let (content, metadata) = (std::fs::read(&kept).unwrap(), kept.metadata().unwrap());
    assert_eq!((content.len(), execution.artifacts[0].bytes), (30_000_000, 30_000_000));
    assert_eq!(
        hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&content)),
        execution.result.unwrap().as_str().unwrap()
    );
    let on_disk = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
    assert!(on_disk < 1_000_000, "{on_disk} bytes on the disk");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn special_files_are_not_artifacts_and_cause_a_warning() {
    let lab = lab();
    let code = "
import os
os.symlink('/etc/passwd', '/artifacts/link.txt')
os.symlink('/workspace', '/artifacts/folder')
os.mkfifo('/artifacts/pipe')
open('/artifacts/line\\nbreak.txt', 'w').write('x')
open('/artifacts/secret.txt', 'w').write('x'); os.chmod('/artifacts/secret.txt', 0)
open('/artifacts/plain.txt', 'w').write('x')
open('/artifacts/fake.png', 'w').write('<script>')
None";
    let execution = lab.python(code).await;
    let names: Vec<&str> = told(&execution).iter().map(|(name, ..)| *name).collect();
    assert!(names.contains(&"plain.txt") && names.contains(&"fake.png"), "{names:?}");
    assert!(names.iter().all(|name| ["plain.txt", "fake.png", "secret.txt"].contains(name)), "{names:?}");
    for refused in ["link.txt", "folder", "pipe", "line"] {
        let said = execution.warnings.iter().any(|warning| warning.contains(&format!("/artifacts/{refused}")));
        assert!(said, "{refused}: {:?}", execution.warnings);
    }
    let fake = execution.artifacts.iter().find(|one| one.name == "fake.png").unwrap();
    assert_eq!(fake.mime, "application/octet-stream");
    lab.close().await;
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
