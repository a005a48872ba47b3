//! A plan: the system calls that confine a child, as data.
//!
//! The launcher decides which calls to make. `native/confine.rs` of the guest makes them without knowing their meaning.
//! So the whole confinement is in one place, `confinement.rs`.

use super::kernel::call;
use rustix::io::Errno;
use std::ffi::CString;

/// The value of an optional parameter that was not given: no descriptor has this number.
pub(super) const NOTHING: u64 = u64::MAX;

/// The working directory, as an argument of a call that takes a folder.
pub(super) const AT_FDCWD: Arg = Arg::Value(libc::AT_FDCWD as i64 as u64);

/// An argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    /// A number.
    Value(u64),
    /// The address of bytes of the plan.
    Bytes(Offset),
    /// The result of an earlier call.
    Result(Kept),
    /// A number that is known only when the plan runs.
    Parameter(usize),
    /// Like `Parameter`, but the call is skipped if it is [`NOTHING`].
    IfGiven(usize),
}

impl Arg {
    /// The kind and the value, as `confine.rs` of the guest reads them.
    fn words(self) -> [u64; 2] {
        match self {
            Self::Value(value) => [0, value],
            Self::Bytes(Offset(at)) => [1, at as u64],
            Self::Result(Kept(index)) => [2, index as u64],
            Self::Parameter(index) => [3, index as u64],
            Self::IfGiven(index) => [4, index as u64],
        }
    }
}

/// The position of bytes in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset(usize);

impl Offset {
    pub(super) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes)
    }
}

/// The result of a call, for later calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept(usize);

#[derive(Clone, Debug)]
struct Step {
    name: String,
    number: i64,
    args: Vec<Arg>,
    keep: Option<usize>,
    poke: Option<usize>,
}

/// The number of arguments of a system call.
const ARGUMENTS: usize = 6;

impl Step {
    fn words(&self) -> Vec<u64> {
        let place = |place: Option<usize>| place.map_or(u64::MAX, |place| place as u64);
        let mut words = vec![self.number as u64];
        let padded = self.args.iter().copied().chain(std::iter::repeat(Arg::Value(0))).take(ARGUMENTS);
        words.extend(padded.flat_map(Arg::words));
        words.extend([place(self.keep), place(self.poke)]);
        words
    }
}

/// System calls in order, and the bytes that they point to.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    blob: Vec<u8>,
    pointers: Vec<(usize, usize)>,
    fills: Vec<(usize, usize)>,
    steps: Vec<Step>,
    kept: usize,
}

/// The alignment of everything in the blob.
const ALIGNMENT: usize = 8;

impl Plan {
    /// Adds bytes that calls can point to.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Offset {
        while !self.blob.len().is_multiple_of(ALIGNMENT) {
            self.blob.push(0);
        }
        let offset = Offset(self.blob.len());
        self.blob.extend_from_slice(bytes);
        offset
    }

    /// Adds a NUL-terminated string.
    pub(super) fn text(&mut self, text: &str) -> Offset {
        let text = CString::new(text).unwrap_or_default();
        self.bytes(text.as_bytes_with_nul())
    }

    /// Stores the address of `target` at `at` (eight bytes of the blob).
    pub(super) fn pointer(&mut self, at: Offset, target: Offset) {
        self.pointers.push((at.0, target.0));
    }

    /// Stores a parameter at `at` (eight bytes of the blob) when the plan runs.
    pub(super) fn fill(&mut self, at: Offset, parameter: usize) {
        self.fills.push((at.0, parameter));
    }

    /// Adds a call that must succeed.
    pub(super) fn call(&mut self, name: impl Into<String>, number: i64, args: &[Arg]) {
        self.steps.push(Step { name: name.into(), number, args: args.to_vec(), keep: None, poke: None });
    }

    /// Adds a call whose result later calls need.
    pub(super) fn call_keep(&mut self, name: impl Into<String>, number: i64, args: &[Arg]) -> Kept {
        self.call(name, number, args);
        let kept = self.kept;
        self.kept += 1;
        if let Some(step) = self.steps.last_mut() {
            step.keep = Some(kept);
        }
        Kept(kept)
    }

    /// Adds the calls that write a file that exists.
    pub(super) fn write_file(&mut self, path: &str, text: &str) {
        let name = self.text(path);
        let content = self.bytes(text.as_bytes());
        let flags = Arg::Value((libc::O_WRONLY | libc::O_CLOEXEC) as u64);
        let file = self.call_keep(format!("open {path}"), libc::SYS_openat, &[AT_FDCWD, Arg::Bytes(name), flags]);
        let args = [Arg::Result(file), Arg::Bytes(content), Arg::Value(text.len() as u64)];
        self.call(format!("write {path}"), libc::SYS_write, &args);
        self.call(format!("close {path}"), libc::SYS_close, &[Arg::Result(file)]);
    }

    /// Also writes the result of the last call, as an `i32`, at `at`.
    pub(super) fn poke(&mut self, at: Offset) {
        if let Some(step) = self.steps.last_mut() {
            step.poke = Some(at.0);
        }
    }

    /// Makes the calls in this process, as `confine.rs` of the guest does in a fork of the zygote. Returns the name and
    /// the error of the step that failed.
    pub(super) fn carry_out(&self, parameters: &[u64]) -> Result<(), (&str, Errno)> {
        let mut blob = self.blob.clone();
        let base = blob.as_mut_ptr() as u64;
        for (at, target) in &self.pointers {
            write_at(&mut blob, *at, &(base + *target as u64).to_ne_bytes()).map_err(|errno| ("pointers", errno))?;
        }
        for (at, parameter) in &self.fills {
            let value = parameters.get(*parameter).ok_or(("parameters", Errno::INVAL))?;
            write_at(&mut blob, *at, &value.to_ne_bytes()).map_err(|errno| ("parameters", errno))?;
        }
        let mut kept = vec![0; self.kept];
        'steps: for step in &self.steps {
            let failed = |errno| (step.name.as_str(), errno);
            let mut arguments = [0; ARGUMENTS];
            for (place, argument) in arguments.iter_mut().zip(&step.args) {
                *place = match *argument {
                    Arg::Value(value) => value,
                    Arg::Bytes(Offset(at)) => base + at as u64,
                    Arg::Result(Kept(index)) => *kept.get(index).ok_or(failed(Errno::INVAL))?,
                    Arg::Parameter(index) => *parameters.get(index).ok_or(failed(Errno::INVAL))?,
                    Arg::IfGiven(index) => match parameters.get(index) {
                        Some(&NOTHING) => continue 'steps,
                        given => *given.ok_or(failed(Errno::INVAL))?,
                    },
                };
            }
            let result = call(step.number, arguments).map_err(failed)?;
            if let Some(place) = step.keep.and_then(|index| kept.get_mut(index)) {
                *place = result as u64;
            }
            if let Some(at) = step.poke {
                write_at(&mut blob, at, &(result as i32).to_ne_bytes()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The names of the steps, and the plan as `confine.rs` of the guest reads it: three counts, the steps, the
    /// pointers, the fills, the bytes.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let counts = [self.steps.len(), self.pointers.len(), self.fills.len()].map(|count| count as u64);
        let pairs = self.pointers.iter().chain(&self.fills).flat_map(|(at, what)| [*at as u64, *what as u64]);
        let words = counts.into_iter().chain(self.steps.iter().flat_map(Step::words)).chain(pairs);
        let mut plan: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        plan.extend_from_slice(&self.blob);
        let names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
        serde_json::json!({ "names": names, "plan": hex(&plan) })
    }
}

fn write_at(blob: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Errno> {
    let place = blob.get_mut(at..at + bytes.len()).ok_or(Errno::INVAL)?;
    place.copy_from_slice(bytes);
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}
