//! Times of executions and of whole commands.

use coracle_sandbox::NativeBackend;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Duration in milliseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the duration of a future in milliseconds, and its output.
pub async fn timed<T>(future: impl Future<Output = T>) -> (f64, T) {
    let begun = Instant::now();
    let value = future.await;
    (milliseconds(begun.elapsed()), value)
}

/// Waits until the pool is full and the system is idle again; `false` if that takes too long.
pub async fn refilled(backend: &NativeBackend, pool: usize, within: Duration) -> bool {
    /// Time for the kernel to clean up sandboxes that have ended.
    const SETTLE: Duration = Duration::from_millis(5);
    let deadline = Instant::now() + within;
    while backend.prepared().await < pool {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(SETTLE).await;
    true
}

/// Command `coracle exec -c CODE`.
pub fn cold_command(workspace: &Path, code: &str) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["exec", "-c", code, "--workspace"]).arg(workspace).stdin(Stdio::null());
    Ok(command)
}

/// Median of the values, which are sorted; zero if there are none.
pub fn median(times: &mut [f64]) -> f64 {
    quantile(times, 0.5)
}

/// Quantile of the values, which are sorted, with linear interpolation; zero if there are none.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn quantile(times: &mut [f64], part: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    let Some(last) = times.len().checked_sub(1) else { return 0.0 };
    let place = part * last as f64;
    let (below, above) = (times[place.floor() as usize], times[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_interpolated() {
        let mut times = [4.0, 1.0, 3.0, 2.0];
        for (part, value) in [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0)] {
            assert!((quantile(&mut times, part) - value).abs() < f64::EPSILON, "{part}");
        }
        assert!(quantile(&mut [], 0.5).abs() < f64::EPSILON);
    }
}
