//! Feeds mutated frames in random pieces: no input causes a panic or takes more memory than one frame needs.
//!
//! By default the run is short, with a fixed seed. `CORACLE_SOAK=1` or the ignored test runs a million frames.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coracle_protocol::{FrameBuffer, FromGuest, MAX_FRAME, ToGuest};
use coracle_testing::mutation::{framed, from_guest, mutated, to_guest};
use fastrand::Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const SHORT: usize = 50_000;
const LONG: usize = 1_000_000;

/// The number of frames after which a new stream begins.
const STREAM_FRAMES: usize = 16;

/// The maximum growth of this process. Frames here are small, but their length field may claim to be large.
const MOST_GROWTH: u64 = 256 << 20;

fn frames() -> usize {
    if std::env::var_os("CORACLE_SOAK").is_some() { LONG } else { SHORT }
}

/// The peak memory of this process in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Feeds a stream in random pieces. Returns the frames before the first error.
fn fed<T: DeserializeOwned>(rng: &mut Rng, stream: &[u8]) -> (Vec<T>, bool) {
    let (mut buffer, mut frames, mut rest) = (FrameBuffer::default(), Vec::new(), stream);
    while !rest.is_empty() {
        let most = 1 << rng.u8(..14);
        let (piece, after) = rest.split_at(rng.usize(1..=rest.len().min(most)));
        rest = after;
        buffer.push(piece);
        loop {
            match buffer.pop() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
    }
    (frames, true)
}

/// Feeds streams of valid and of mutated frames in one direction.
fn fuzz<T>(seed: u64, most: usize, valid: fn(&mut Rng) -> T)
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let mut rng = Rng::with_seed(seed);
    let (mut done, mut accepted, mut refused) = (0, 0, 0);
    let before = peak();
    while done < most {
        let sound: Vec<T> = (0..STREAM_FRAMES).map(|_| valid(&mut rng)).collect();
        let encoded: Vec<Vec<u8>> = sound.iter().map(|frame| framed(&serde_json::to_vec(frame).unwrap())).collect();
        let (heard, whole) = fed::<T>(&mut rng, &encoded.concat());
        assert!(whole && heard == sound, "seed {seed}: valid frames did not arrive unchanged");

        let mut stream = Vec::new();
        for frame in &encoded {
            let other = rng.choice(&encoded).unwrap().clone();
            stream.extend(mutated(&mut rng, frame, &other));
            done += 1;
            // Mostly one frame per stream: nothing is read after the first bad frame.
            if rng.u8(..4) != 0 {
                let (heard, whole) = fed::<T>(&mut rng, &std::mem::take(&mut stream));
                refused += usize::from(!whole);
                for frame in heard {
                    accepted += 1;
                    let again = framed(&serde_json::to_vec(&frame).unwrap());
                    assert_eq!(fed::<T>(&mut rng, &again), (vec![frame], true), "seed {seed}");
                }
            }
        }
        let (_, whole) = fed::<T>(&mut rng, &stream);
        refused += usize::from(!whole);
    }
    let grown = peak() - before;
    assert!(grown < MOST_GROWTH, "seed {seed}: grew by {grown} bytes");
    // If either never happens, the mutations test nothing.
    assert!(accepted > done / 50 && refused > done / 5, "{accepted} taken and {refused} refused of {done}");
    println!("{done} mutated frames: {accepted} taken, {refused} refused, grown by {} KiB", grown >> 10);
}

#[test]
fn mutated_frames_of_guests_are_accepted_or_rejected() {
    fuzz(0xC0_8AC1E, frames(), from_guest);
}

#[test]
fn mutated_frames_of_hosts_are_accepted_or_rejected() {
    fuzz(0xC0_8AC1F, frames(), to_guest);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_a_million_mutated_frames_of_each_side() {
    let seed = Rng::new().u64(..);
    println!("seed {seed}");
    fuzz(seed, LONG, from_guest);
    fuzz(seed, LONG, to_guest);
}

/// A guest that announces the largest frame and sends it slowly costs the memory of one frame.
#[test]
fn the_largest_frame_costs_about_itself() {
    let before = peak();
    let text = "x".repeat(MAX_FRAME - 64);
    let body = format!(r#"{{"type":"call","id":1,"method":"{text}"}}"#);
    let mut buffer = FrameBuffer::default();
    for _ in 0..4 {
        for piece in framed(body.as_bytes()).chunks(64 << 10) {
            assert!(buffer.pop::<FromGuest>().unwrap().is_none());
            buffer.push(piece);
        }
        assert!(matches!(buffer.pop(), Ok(Some(FromGuest::Call { id: 1, method, .. })) if method == text));
    }
    let grown = peak() - before;
    assert!(grown < 16 * MAX_FRAME as u64, "grew by {grown} bytes");
}

/// Duplicate keys, numbers out of range, missing fields and unknown fields.
#[test]
fn contradictory_frames_are_rejected() {
    let sound = r#"{"type":"done","id":1,"ok":true,"exit_code":0}"#;
    let mut buffer = FrameBuffer::default();
    buffer.push(&framed(sound.as_bytes()));
    assert!(matches!(buffer.pop::<FromGuest>(), Ok(Some(FromGuest::Done { id: 1, .. }))));
    for body in [
        r#"{"type":"done","id":1,"id":1,"ok":true,"exit_code":0}"#,
        r#"{"type":"done","type":"done","id":1,"ok":true,"exit_code":0}"#,
        r#"{"type":"done","id":-1,"ok":true,"exit_code":0}"#,
        r#"{"type":"done","id":18446744073709551616,"ok":true,"exit_code":0}"#,
        r#"{"type":"done","id":1.0,"ok":true,"exit_code":0}"#,
        r#"{"type":"done","id":1,"ok":1,"exit_code":0}"#,
        r#"{"type":"done","id":1,"ok":true,"exit_code":2147483648}"#,
        r#"{"type":"done","id":1,"ok":true}"#,
        r#"{"type":"done","id":1,"ok":true,"exit_code":0,"more":1}"#,
        r#"{"type":"done","id":1,"ok":true,"exit_code":0} {"type":"done"}"#,
        r#"{"type":"none","id":1,"ok":true,"exit_code":0}"#,
        r#"{"id":1,"ok":true,"exit_code":0}"#,
        r#"{"type":"call","id":1,"method":"m","params":[]}"#,
        r#"{"type":"call","id":1,"method":"m","params":null}"#,
        r#"[{"type":"done","id":1,"ok":true,"exit_code":0}]"#,
        r"null",
        r"",
    ] {
        let mut buffer = FrameBuffer::default();
        buffer.push(&framed(body.as_bytes()));
        assert!(buffer.pop::<FromGuest>().is_err(), "{body} was taken");
        let mut buffer = FrameBuffer::default();
        buffer.push(&framed(body.as_bytes()));
        assert!(buffer.pop::<ToGuest>().is_err(), "{body} was taken");
    }
}
