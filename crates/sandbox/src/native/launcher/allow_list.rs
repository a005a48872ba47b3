//! A filter that lets some system calls through by their number: a search in sorted bounds.
//!
//! A comparison with each number in turn would do, but when a filter is installed the kernel tries it with every number
//! there is, which for hundreds of comparisons takes longer than all else that confines a process.
//!
//! Trust boundary: what this lets through reaches the host's kernel.

use seccompiler::{BpfProgram, sock_filter};
use std::collections::BTreeSet;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where `struct seccomp_data` has what we look at.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;

/// Lets through what is in `numbers`; answers everything else with `errno`. Ends a process that makes calls of another
/// architecture, whose numbers mean something else.
pub(super) fn allow_only(numbers: &BTreeSet<u32>, errno: u16) -> BpfProgram {
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: OURS },
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, NUMBER),
    ];
    let outside = libc::SECCOMP_RET_ERRNO | u32::from(errno);
    program.extend(search(&bounds(numbers), [outside, libc::SECCOMP_RET_ALLOW]));
    program
}

/// Where being in the set changes: the first bound is where it begins, the second where it ends, and so on.
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

/// Halves `bounds` until none is left. `answers`: below the first of them, and then by turns.
fn search(bounds: &[u32], answers: [u32; 2]) -> BpfProgram {
    let middle = bounds.len() / 2;
    let Some(bound) = bounds.get(middle) else { return vec![step(RETURN, answers[0])] };
    let [even, odd] = answers;
    let beyond = if middle.is_multiple_of(2) { [odd, even] } else { [even, odd] };
    let below = search(&bounds[..middle], answers);
    let mut program = match u8::try_from(below.len()) {
        Ok(distance) => vec![sock_filter { code: IF_AT_LEAST, jt: distance, jf: 0, k: *bound }],
        // Too far for a condition.
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
    use super::{ARCHITECTURE, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, NUMBER, OURS, RETURN, allow_only};
    use proptest::collection::btree_set;
    use seccompiler::sock_filter;

    const ERRNO: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    /// What the kernel would answer, by the meaning of its instructions.
    fn answer(program: &[sock_filter], architecture: u32, number: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = match code {
                LOAD => {
                    loaded = if k == NUMBER { number } else { architecture };
                    assert!(k == NUMBER || k == ARCHITECTURE);
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
        fn exactly_what_is_named_comes_through(numbers in btree_set(0_u32..1200, 0..600)) {
            let program = allow_only(&numbers, libc::ENOSYS as u16);
            for number in (0..1300).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
                let expected = if numbers.contains(&number) { libc::SECCOMP_RET_ALLOW } else { ERRNO };
                proptest::prop_assert_eq!(answer(&program, OURS, number), expected, "{}", number);
                proptest::prop_assert_eq!(answer(&program, OURS + 1, number), libc::SECCOMP_RET_KILL_PROCESS);
            }
        }
    }
}
