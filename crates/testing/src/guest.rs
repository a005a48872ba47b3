//! The host's side of the guest protocol, for tests of sandboxes without an engine.

use coracle_protocol::{CallFailure, FromGuest, Reply, ToGuest, read_frame, write_frame};
use coracle_sandbox::Sandbox;

/// Maximum size of a result.
const MAX_RESULT: u64 = 1 << 20;

/// Runs code in a sandbox and returns the answer of the guest, or `None` if the sandbox ends. Calls to the host are
/// refused.
pub async fn answer_to(sandbox: &mut Sandbox, id: u64, language: &str, code: &str) -> Option<FromGuest> {
    let (language, code) = (language.to_owned(), code.to_owned());
    let run =
        ToGuest::Run { id, language, code, vars: serde_json::Map::new(), result_bytes: MAX_RESULT, network: None };
    write_frame(&mut sandbox.to_guest, &run).await.ok()?;
    loop {
        let frame = read_frame(&mut sandbox.from_guest, &mut sandbox.buffer).await.ok().flatten()?;
        let FromGuest::Call { id, .. } = frame else { return Some(frame) };
        let (code, message) = ("unknown".to_owned(), "there is nothing to call".to_owned());
        let error = Some(CallFailure { code, message, retryable: false });
        let refused = ToGuest::Reply(Reply { id, ok: false, value: serde_json::Value::Null, error });
        write_frame(&mut sandbox.to_guest, &refused).await.ok()?;
    }
}
