//! Makes a sandbox out of a fork of the zygote: the way from the fork to the first foreign instruction, in one piece.
//!
//! The zygote, which is Python, loads this as a library. It makes the system calls that a plan tells it to make (see
//! `plan.rs` of the sandbox crate, where plans are written) and knows nothing of their meaning. It is native because a
//! fresh fork pays for every page it touches, and Python touches hundreds to do what this does with ten. No standard
//! library and no libc, and of Python only a few functions of its stable interface: it works under any of either.
//!
//! Trust boundary: runs before any foreign code, never after.
#![no_std]

mod python;
mod serve;

use core::arch::asm;
use core::ptr;

/// One system call of a plan. The layout is that of `plan.rs`: all words are eight bytes.
#[repr(C)]
pub struct Step {
    number: i64,
    arguments: [Argument; 6],
    /// Where among the results this one is kept; negative: nowhere.
    keep: i64,
    /// Where in the plan's bytes the result is written as four bytes; negative: nowhere.
    poke: i64,
}

#[repr(C)]
struct Argument {
    kind: u64,
    value: u64,
}

const VALUE: u64 = 0;
const BYTES: u64 = 1;
const RESULT: u64 = 2;
const IF_GIVEN: u64 = 4;

/// A parameter that was not given.
const NOTHING: u64 = u64::MAX;

/// A list of pairs: an offset into the plan's bytes, and what is to stand there.
#[repr(C)]
pub struct Pair {
    at: u64,
    what: u64,
}

/// Calls and the bytes they point to, in the memory of the zygote: a fork's copy is its own.
#[repr(C)]
pub struct Plan {
    steps: *const Step,
    step_count: u64,
    bytes: *mut u8,
    /// Addresses of other bytes of the plan.
    pointers: *const Pair,
    pointer_count: u64,
    /// Parameters of the run.
    fills: *const Pair,
    fill_count: u64,
}

/// What a new sandbox needs.
struct Spawn {
    /// Flags for `clone`, with CLONE_PIDFD and the signal.
    flags: u64,
    enter: Plan,
    seal: Plan,
    /// The frame that says that the sandbox waits.
    ready: Text,
}

struct Text {
    start: *const u8,
    length: u64,
}

const NO_PLAN: Plan = Plan {
    steps: ptr::null(),
    step_count: 0,
    bytes: ptr::null_mut(),
    pointers: ptr::null(),
    pointer_count: 0,
    fills: ptr::null(),
    fill_count: 0,
};

/// The zygote has one thread, and each child a copy of its own.
static mut SPAWN: Spawn =
    Spawn { flags: 0, enter: NO_PLAN, seal: NO_PLAN, ready: Text { start: ptr::null(), length: 0 } };

/// The ends of a new sandbox's streams, in the order in which the launcher sends them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptors {
    channel: i32,
    stdout: i32,
    stderr: i32,
    binding: i32,
    artifacts: i32,
    /// Descriptors are sent in whole words.
    nothing: i32,
}

impl Descriptors {
    const NONE: Self = Self { channel: -1, stdout: -1, stderr: -1, binding: -1, artifacts: -1, nothing: -1 };
}

/// Where a sandbox finds its descriptors.
const CHANNEL: i32 = 3;
const BINDING: i32 = 4;
const ARTIFACTS: i32 = 5;
const FIRST_UNUSED: i32 = 6;
const STDOUT_COPY: i32 = 8;
const STDERR_COPY: i32 = 9;
const SPARE: i32 = 10;

/// Out of the way of all those while they are put in place.
const ASIDE: i32 = 200;

/// Results that a plan can keep, and parameters that it can have.
const MOST_KEPT: usize = 64;
const MOST_PARAMETERS: usize = 16;

/// What a sandbox can be given beside its workspace: mounts of servers and of skills, the door of a cgroup, a folder that is
/// hidden and what is seen instead.
const GIVEN: usize = 5;

/// What [`seal`] gives when nobody wants the sandbox any more.
const UNWANTED: i64 = 1;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: i64 = 0;
    pub const WRITE: i64 = 1;
    pub const CLOSE: i64 = 3;
    pub const MMAP: i64 = 9;
    pub const RT_SIGPROCMASK: i64 = 14;
    pub const SENDMSG: i64 = 46;
    pub const RECVMSG: i64 = 47;
    pub const CLONE: i64 = 56;
    pub const WAIT4: i64 = 61;
    pub const FCNTL: i64 = 72;
    pub const EXIT_GROUP: i64 = 231;
    pub const PPOLL: i64 = 271;
    pub const SIGNALFD4: i64 = 289;
    pub const DUP3: i64 = 292;
    pub const CLOSE_RANGE: i64 = 436;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const DUP3: i64 = 24;
    pub const FCNTL: i64 = 25;
    pub const CLOSE: i64 = 57;
    pub const READ: i64 = 63;
    pub const WRITE: i64 = 64;
    pub const PPOLL: i64 = 73;
    pub const SIGNALFD4: i64 = 74;
    pub const EXIT_GROUP: i64 = 94;
    pub const RT_SIGPROCMASK: i64 = 135;
    pub const SENDMSG: i64 = 211;
    pub const RECVMSG: i64 = 212;
    pub const CLONE: i64 = 220;
    pub const MMAP: i64 = 222;
    pub const WAIT4: i64 = 260;
    pub const CLOSE_RANGE: i64 = 436;
}

const F_DUPFD_CLOEXEC: u64 = 1030;
const O_CLOEXEC: u64 = 0o2_000_000;
const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SIG_SETMASK: u64 = 2;
const EPROTO: i64 = 71;
const EINTR: i64 = -4;

/// One raw system call; minus errno if it fails.
///
/// # Safety
/// What the call does with its arguments must be sound.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: i64, a: [u64; 6]) -> i64 {
    let result;
    // SAFETY: the kernel's calling convention; it clobbers rcx and r11 and may write to memory.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// One raw system call; minus errno if it fails.
///
/// # Safety
/// What the call does with its arguments must be sound.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: i64, a: [u64; 6]) -> i64 {
    let result;
    // SAFETY: the kernel's calling convention; it may write to memory.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] as i64 => result, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// A failure of step `index` as one number below zero.
fn failed(index: u64, errno: i64) -> i64 {
    -((index as i64 + 1) << 16 | errno)
}

/// Makes the calls of a plan in order: zero, or the first failure.
///
/// # Safety
/// The plan must be as the launcher wrote it, and its calls sound for this process.
unsafe fn run(plan: &Plan, parameters: &[u64]) -> i64 {
    let mut kept = [0_i64; MOST_KEPT];
    let at = |offset: u64| plan.bytes.wrapping_add(offset as usize);
    for index in 0..plan.pointer_count {
        // SAFETY: offsets are within the plan's bytes, as the launcher made them.
        unsafe {
            let pair = &*plan.pointers.wrapping_add(index as usize);
            at(pair.at).cast::<u64>().write_unaligned(at(pair.what) as u64);
        }
    }
    for index in 0..plan.fill_count {
        // SAFETY: as above.
        unsafe {
            let pair = &*plan.fills.wrapping_add(index as usize);
            let Some(value) = parameters.get(pair.what as usize) else { return failed(index, EPROTO) };
            at(pair.at).cast::<u64>().write_unaligned(*value);
        }
    }
    for index in 0..plan.step_count {
        // SAFETY: there are so many steps.
        let step = unsafe { &*plan.steps.wrapping_add(index as usize) };
        let mut arguments = [0_u64; 6];
        let mut wanted = true;
        for (argument, given) in arguments.iter_mut().zip(&step.arguments) {
            let found = match given.kind {
                VALUE => Some(given.value),
                BYTES => Some(at(given.value) as u64),
                RESULT => kept.get(given.value as usize).map(|result| *result as u64),
                _ => parameters.get(given.value as usize).copied(),
            };
            let Some(value) = found else { return failed(index, EPROTO) };
            wanted &= given.kind != IF_GIVEN || value != NOTHING;
            *argument = value;
        }
        if !wanted {
            continue;
        }
        // SAFETY: the launcher's calls, which point to the plan's own bytes.
        let result = unsafe { call(step.number, arguments) };
        if result < 0 {
            return failed(index, -result);
        }
        if step.keep >= 0 {
            let Some(place) = kept.get_mut(step.keep as usize) else { return failed(index, EPROTO) };
            *place = result;
        }
        if step.poke >= 0 {
            // SAFETY: within the plan's bytes.
            unsafe { at(step.poke as u64).cast::<i32>().write_unaligned(result as i32) };
        }
    }
    0
}

/// What becomes of a fork.
enum Forked {
    /// In the zygote: the child's process id, or minus errno, and its handle.
    Parent(i64, i32),
    /// In the child: zero once it is in its namespaces with its own descriptors, or a failure of [`failed`]'s form, which
    /// it must report and end.
    Child(i64),
}

/// Forks. A child has the signals that `mask` says.
///
/// # Safety
/// `SPAWN` must be set up, and the calling process have one thread.
unsafe fn fork(given: Descriptors, mask: u64) -> Forked {
    // SAFETY: one thread, so nobody else uses it.
    let spawn = unsafe { &*(&raw const SPAWN) };
    let mut handle: i32 = -1;
    // SAFETY: no stack of its own: a fork, which goes on with a copy of all memory.
    let pid = unsafe { call(number::CLONE, [spawn.flags, 0, &raw mut handle as u64, 0, 0, 0]) };
    if pid != 0 {
        return Forked::Parent(pid, handle);
    }
    // SAFETY: `mask` is eight bytes. It cannot fail.
    unsafe { call(number::RT_SIGPROCMASK, [SIG_SETMASK, &raw const mask as u64, 0, 8, 0, 0]) };
    // SAFETY: in the child.
    Forked::Child(unsafe { settle(spawn, given) })
}

/// In a new child: its descriptors, and the plan `entering`.
///
/// # Safety
/// As for [`fork`], in a child.
unsafe fn settle(spawn: &Spawn, given: Descriptors) -> i64 {
    let fixed = [
        (given.channel, CHANNEL, O_CLOEXEC),
        (given.binding, BINDING, O_CLOEXEC),
        (given.artifacts, ARTIFACTS, O_CLOEXEC),
        (given.stdout, 1, 0),
        (given.stderr, 2, 0),
    ];
    let mut high = [0_u64; 5];
    for (place, (source, _, _)) in high.iter_mut().zip(&fixed) {
        // SAFETY: only descriptors.
        let copy = unsafe { call(number::FCNTL, [*source as u64, F_DUPFD_CLOEXEC, ASIDE as u64, 0, 0, 0]) };
        if copy < 0 {
            return failed(0, -copy);
        }
        *place = copy as u64;
    }
    for (source, (_, target, flags)) in high.iter().zip(&fixed) {
        // SAFETY: only descriptors; those overwritten belong to the zygote, which this process no longer is.
        let placed = unsafe { call(number::DUP3, [*source, *target as u64, *flags, 0, 0, 0]) };
        if placed < 0 {
            return failed(0, -placed);
        }
    }
    // SAFETY: only descriptors of the zygote.
    let closed = unsafe { call(number::CLOSE_RANGE, [FIRST_UNUSED as u64, u32::MAX as u64, 0, 0, 0, 0]) };
    if closed < 0 {
        return failed(0, -closed);
    }
    // Copies of the output streams that the code does not know of, and a few descriptors in reserve.
    for (source, target) in [(1, STDOUT_COPY), (2, STDERR_COPY), (2, SPARE), (2, SPARE + 1), (2, SPARE + 2)] {
        // SAFETY: only descriptors.
        let placed = unsafe { call(number::DUP3, [source as u64, target as u64, O_CLOEXEC, 0, 0, 0]) };
        if placed < 0 {
            return failed(0, -placed);
        }
    }
    // SAFETY: the launcher's plan.
    unsafe { run(&spawn.enter, &[ARTIFACTS as u64]) }
}

#[repr(C)]
struct Span {
    start: *mut u8,
    length: u64,
}

#[repr(C)]
struct Message {
    name: u64,
    name_length: u32,
    spans: *mut Span,
    span_count: u64,
    control: *mut u8,
    control_length: u64,
    flags: i32,
}

#[repr(C)]
struct Control<T> {
    length: u64,
    level: i32,
    kind: i32,
    descriptors: T,
}

impl<T> Control<T> {
    /// For descriptors that are to come, or are to be sent.
    fn new(descriptors: T) -> Self {
        Self { length: (16 + size_of::<T>()) as u64, level: SOL_SOCKET, kind: SCM_RIGHTS, descriptors }
    }
}

/// Receives a message and the descriptors beside it: its length, zero at the end, or minus errno.
///
/// # Safety
/// Any bytes must be a valid `T`, and any numbers valid descriptors in `control`.
unsafe fn receive<T: ?Sized, D>(socket: i32, into: &mut T, control: &mut Control<D>) -> i64 {
    let mut span = Span { start: ptr::from_mut(into).cast(), length: size_of_val(into) as u64 };
    loop {
        let mut message = Message {
            name: 0,
            name_length: 0,
            spans: &raw mut span,
            span_count: 1,
            control: ptr::from_mut(control).cast(),
            control_length: size_of_val(control) as u64,
            flags: 0,
        };
        // SAFETY: the structures of the kernel's layout, which outlive the call.
        let received =
            unsafe { call(number::RECVMSG, [socket as u64, &raw mut message as u64, MSG_CMSG_CLOEXEC, 0, 0, 0]) };
        if received != EINTR {
            return received;
        }
    }
}

fn close(descriptor: i32) {
    // SAFETY: only descriptors that this library was given or made.
    unsafe { call(number::CLOSE, [descriptor as u64, 0, 0, 0, 0, 0]) };
}

/// Says that this sandbox waits, waits for a workspace, and seals the process: zero, [`UNWANTED`], or a failure.
///
/// # Safety
/// As for [`fork`], in a child that it made.
unsafe fn seal() -> i64 {
    // SAFETY: one thread, so nobody else uses it.
    let spawn = unsafe { &*(&raw const SPAWN) };
    let ready = &spawn.ready;
    // SAFETY: so many bytes are there. A short frame fits into an empty socket at once.
    let written = unsafe { call(number::WRITE, [CHANNEL as u64, ready.start as u64, ready.length, 0, 0, 0]) };
    if written != ready.length as i64 {
        return UNWANTED;
    }
    // Parameter 0 is the mount of the workspace, the next came in the message; the last of them are what else is given,
    // each told by its place among the descriptors.
    let mut parameters = [0_u64; MOST_PARAMETERS];
    let mut beside = Control::new([-1_i32; 1 + GIVEN]);
    let Some(rest) = parameters.get_mut(1..) else { return UNWANTED };
    // SAFETY: numbers only.
    let received = unsafe { receive(BINDING, rest, &mut beside) };
    let workspace = beside.descriptors[0];
    if received <= 0 || workspace < 0 {
        return UNWANTED;
    }
    parameters[0] = workspace as u64;
    let end = 1 + received as usize / size_of::<u64>();
    let Some(given) = parameters.get_mut(end.saturating_sub(GIVEN)..end) else { return UNWANTED };
    for place in given {
        if *place != NOTHING {
            let Some(descriptor) = beside.descriptors.get(*place as usize) else { return UNWANTED };
            *place = *descriptor as u64;
        }
    }
    // SAFETY: the launcher's plan.
    let sealed = unsafe { run(&spawn.seal, &parameters) };
    // Numbered after the steps of the first plan.
    let sealed = if sealed < 0 { sealed - ((spawn.enter.step_count as i64) << 16) } else { sealed };
    if sealed < 0 {
        // The launcher is told where no foreign code can tell it anything: what the channel says may come from anybody.
        // SAFETY: eight bytes, into a socket that is empty.
        unsafe { call(number::WRITE, [BINDING as u64, &raw const sealed as u64, size_of_val(&sealed) as u64, 0, 0, 0]) };
    }
    close(BINDING);
    sealed
}

/// Nothing here panics; the compiler wants to know what would happen.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
