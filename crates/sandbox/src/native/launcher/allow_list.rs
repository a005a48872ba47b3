//! A seccomp filter that allows system calls by number: a binary search over sorted bounds.
//!
//! Comparing with each number in turn would work, but the kernel evaluates a filter for every system call when it is
//! installed, which for hundreds of comparisons takes longer than the rest of the confinement.
//!
//! Trust boundary: allowed calls reach the host's kernel.

use seccompiler::{BpfProgram, sock_filter};
use std::collections::BTreeSet;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;

/// A system call that is allowed only with some values of one argument, of which the lower half counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrowed {
    pub(super) number: u32,
    pub(super) argument: u32,
    pub(super) values: &'static [u32],
    /// The error for all other values.
    pub(super) errno: u16,
}

impl Narrowed {
    /// The program for this call. It expects the number of the call to be loaded, and leaves it loaded for other calls.
    fn program(self) -> BpfProgram {
        let mut values = Vec::new();
        for (place, value) in self.values.iter().enumerate() {
            // Jumps past the following values and the refusal.
            let to_allowed = (self.values.len() - place) as u8;
            values.push(sock_filter { code: IF_EQUAL, jt: to_allowed, jf: 0, k: *value });
        }
        let mut program = vec![
            sock_filter { code: IF_EQUAL, jt: 0, jf: values.len() as u8 + 3, k: self.number },
            // Both supported architectures are little-endian.
            step(LOAD, ARGUMENTS + 8 * self.argument),
        ];
        program.extend(values);
        program.push(step(RETURN, libc::SECCOMP_RET_ERRNO | u32::from(self.errno)));
        program.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
        program
    }
}

/// Allows the calls in `numbers`, and answers all others with `errno`. Kills a process that makes calls of another
/// architecture, whose numbers mean something else.
pub(super) fn allow_only(numbers: &BTreeSet<u32>, narrowed: &[Narrowed], errno: u16) -> BpfProgram {
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: OURS },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, NUMBER),
    ];
    program.extend(narrowed.iter().flat_map(|narrowed| narrowed.program()));
    let outside = libc::SECCOMP_RET_ERRNO | u32::from(errno);
    program.extend(search(&bounds(numbers), [outside, libc::SECCOMP_RET_ALLOW]));
    program
}

/// The numbers where membership in the set changes: the first bound is the beginning of a range, the second its end,
/// and so on.
fn bounds(numbers: &BTreeSet<u32>) -> Vec<u32> {
    let mut bounds = Vec::new();
    for number in numbers {
        if bounds.last() == Some(number) {
            bounds.pop();
        } else {
            bounds.push(*number);
        }
        bounds.push(number + 1);
    }
    bounds
}

/// A binary search over `bounds`. `answers` are the answer below the first bound, and the one above it; they alternate.
fn search(bounds: &[u32], answers: [u32; 2]) -> BpfProgram {
    let middle = bounds.len() / 2;
    let Some(bound) = bounds.get(middle) else { return vec![step(RETURN, answers[0])] };
    let [even, odd] = answers;
    let beyond = if middle.is_multiple_of(2) { [odd, even] } else { [even, odd] };
    let below = search(&bounds[..middle], answers);
    let mut program = match u8::try_from(below.len()) {
        Ok(distance) => vec![sock_filter { code: IF_AT_LEAST, jt: distance, jf: 0, k: *bound }],
        // Too far for a conditional jump.
        Err(_) => {
            vec![sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: *bound }, step(JUMP, below.len() as u32)]
        }
    };
    program.extend(below);
    program.extend(search(&bounds[middle + 1..], beyond));
    program
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::{
        ARCHITECTURE, ARGUMENTS, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, NUMBER, Narrowed, OURS, RETURN, allow_only,
    };
    use proptest::collection::btree_set;
    use seccompiler::sock_filter;

    const ERRNO: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    /// Evaluates a program like the kernel does.
    fn answer(program: &[sock_filter], architecture: u32, number: u32) -> u32 {
        answer_with(program, architecture, number, 0)
    }

    /// Like `answer`, for a call whose second argument is `argument`.
    fn answer_with(program: &[sock_filter], architecture: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = match code {
                LOAD => {
                    loaded = match k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        _ => argument,
                    };
                    assert!(k == NUMBER || k == ARCHITECTURE || k == ARGUMENTS + 8);
                    continue;
                }
                IF_EQUAL => loaded == k,
                IF_AT_LEAST => loaded >= k,
                JUMP => {
                    at += k as usize;
                    continue;
                }
                RETURN => return k,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if jump { jt } else { jf });
        }
    }

    proptest::proptest! {
        #[test]
        fn exactly_the_named_calls_are_allowed(numbers in btree_set(0_u32..1200, 0..600)) {
            let program = allow_only(&numbers, &[], libc::ENOSYS as u16);
            for number in (0..1300).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
                let expected = if numbers.contains(&number) { libc::SECCOMP_RET_ALLOW } else { ERRNO };
                proptest::prop_assert_eq!(answer(&program, OURS, number), expected, "{}", number);
                proptest::prop_assert_eq!(answer(&program, OURS + 1, number), libc::SECCOMP_RET_KILL_PROCESS);
            }
        }

        #[test]
        fn a_narrowed_call_needs_one_of_its_values(
            numbers in btree_set(0_u32..1200, 0..600), number in 0_u32..1200, argument in 0_u32..16
        ) {
            let errno = libc::EOPNOTSUPP as u16;
            let narrowed = Narrowed { number, argument: 1, values: &[3, 8, 11], errno };
            let program = allow_only(&numbers, &[narrowed], libc::ENOSYS as u16);
            let refused = libc::SECCOMP_RET_ERRNO | u32::from(errno);
            let expected = if [3, 8, 11].contains(&argument) { libc::SECCOMP_RET_ALLOW } else { refused };
            proptest::prop_assert_eq!(answer_with(&program, OURS, number, argument), expected);
            for other in (0..1300).filter(|other| *other != number) {
                let expected = if numbers.contains(&other) { libc::SECCOMP_RET_ALLOW } else { ERRNO };
                proptest::prop_assert_eq!(answer_with(&program, OURS, other, argument), expected, "{}", other);
            }
        }
    }
}
