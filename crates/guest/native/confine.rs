//! Turns a fork of the zygote into a sandbox: everything from the fork to the first untrusted instruction.
//!
//! The zygote, which is Python, loads this library. It makes the system calls of a plan (see `plan.rs` of the sandbox
//! crate, where plans are written) without knowing their meaning. It is native because a fresh fork pays for every page
//! that it touches, and Python touches hundreds for what takes ten here. It uses neither a standard library nor libc,
//! and only a few functions of Python's stable ABI, so it works with any version of either.
//!
//! Trust boundary: runs before any untrusted code, and never after.
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
    /// The index among the kept results. Not kept if negative.
    keep: i64,
    /// The offset in the plan's bytes where the result is written as four bytes. Not written if negative.
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

/// The value of a parameter that was not given.
const NOTHING: u64 = u64::MAX;

/// An offset into the plan's bytes, and the value to store there.
#[repr(C)]
pub struct Pair {
    at: u64,
    what: u64,
}

/// Calls and the bytes that they point to, in the memory of the zygote. A fork has a private copy.
#[repr(C)]
pub struct Plan {
    steps: *const Step,
    step_count: u64,
    bytes: *mut u8,
    /// Addresses of other bytes of the plan.
    pointers: *const Pair,
    pointer_count: u64,
    /// Parameters to store.
    fills: *const Pair,
    fill_count: u64,
}

/// The parameters of new sandboxes.
struct Spawn {
    /// Flags for `clone`, including CLONE_PIDFD and the signal.
    flags: u64,
    enter: Plan,
    seal: Plan,
    /// The `ready` frame.
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

/// The zygote is single-threaded, and each child has a private copy.
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
    /// Padding, because descriptors are sent in whole words.
    nothing: i32,
}

impl Descriptors {
    const NONE: Self = Self { channel: -1, stdout: -1, stderr: -1, binding: -1, artifacts: -1, nothing: -1 };
}

/// Descriptor numbers in a sandbox.
const CHANNEL: i32 = 3;
const BINDING: i32 = 4;
const ARTIFACTS: i32 = 5;
const FIRST_UNUSED: i32 = 6;
const STDOUT_COPY: i32 = 8;
const STDERR_COPY: i32 = 9;
const SPARE: i32 = 10;

/// A number that is out of the way while descriptors are moved.
const ASIDE: i32 = 200;

/// The maximum numbers of kept results and of parameters.
const MOST_KEPT: usize = 64;
const MOST_PARAMETERS: usize = 16;

/// The number of optional descriptors besides the workspace: mounts of servers and of skills, the tasks file of a
/// cgroup, a folder that is hidden, and the folder that is mounted over it.
const GIVEN: usize = 5;

/// The result of [`seal`] if the sandbox is no longer needed.
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

/// Makes a raw system call. Returns minus errno if it fails.
///
/// # Safety
/// The effects of the call must be sound.
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

/// Makes a raw system call. Returns minus errno if it fails.
///
/// # Safety
/// The effects of the call must be sound.
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

/// Encodes a failure of step `index` as a negative number.
fn failed(index: u64, errno: i64) -> i64 {
    -((index as i64 + 1) << 16 | errno)
}

/// Makes the calls of a plan in order. Returns zero, or the first failure.
///
/// # Safety
/// The plan must be as the launcher wrote it, and its calls sound for this process.
unsafe fn run(plan: &Plan, parameters: &[u64]) -> i64 {
    let mut kept = [0_i64; MOST_KEPT];
    let at = |offset: u64| plan.bytes.wrapping_add(offset as usize);
    for index in 0..plan.pointer_count {
        // SAFETY: offsets are within the plan's bytes, as the launcher wrote them.
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
        // SAFETY: there are as many steps.
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

/// The result of a fork.
enum Forked {
    /// In the zygote: the child's process ID or minus errno, and its pidfd.
    Parent(i64, i32),
    /// In the child: zero once it is in its namespaces with its own descriptors, or a failure as in [`failed`], which
    /// it must report before it exits.
    Child(i64),
}

/// Forks. `mask` is the signal mask of the child.
///
/// # Safety
/// `SPAWN` must be set up, and the calling process must be single-threaded.
unsafe fn fork(given: Descriptors, mask: u64) -> Forked {
    // SAFETY: single-threaded, so there are no other references.
    let spawn = unsafe { &*(&raw const SPAWN) };
    let mut handle: i32 = -1;
    // SAFETY: without a separate stack this is a fork, which continues with a copy of all memory.
    let pid = unsafe { call(number::CLONE, [spawn.flags, 0, &raw mut handle as u64, 0, 0, 0]) };
    if pid != 0 {
        return Forked::Parent(pid, handle);
    }
    // SAFETY: `mask` is eight bytes. It cannot fail.
    unsafe { call(number::RT_SIGPROCMASK, [SIG_SETMASK, &raw const mask as u64, 0, 8, 0, 0]) };
    // SAFETY: in the child.
    Forked::Child(unsafe { settle(spawn, given) })
}

/// Sets up a new child: its descriptors, and the plan `entering`.
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
    // Copies of the output streams that the code does not know about, and a few descriptors in reserve.
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
    /// Creates a buffer for descriptors to receive or to send.
    fn new(descriptors: T) -> Self {
        Self { length: (16 + size_of::<T>()) as u64, level: SOL_SOCKET, kind: SCM_RIGHTS, descriptors }
    }
}

/// Receives a message and its descriptors. Returns its length, zero at the end, or minus errno.
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
        // SAFETY: the structures have the kernel's layout and outlive the call.
        let received =
            unsafe { call(number::RECVMSG, [socket as u64, &raw mut message as u64, MSG_CMSG_CLOEXEC, 0, 0, 0]) };
        if received != EINTR {
            return received;
        }
    }
}

fn close(descriptor: i32) {
    // SAFETY: only descriptors that this library received or created.
    unsafe { call(number::CLOSE, [descriptor as u64, 0, 0, 0, 0, 0]) };
}

/// Sends `ready`, waits for a workspace, and seals the process. Returns zero, [`UNWANTED`], or a failure.
///
/// # Safety
/// As for [`fork`], in a child that it created.
unsafe fn seal() -> i64 {
    // SAFETY: single-threaded, so there are no other references.
    let spawn = unsafe { &*(&raw const SPAWN) };
    let ready = &spawn.ready;
    // SAFETY: the buffer has that many bytes. A short frame always fits into an empty socket.
    let written = unsafe { call(number::WRITE, [CHANNEL as u64, ready.start as u64, ready.length, 0, 0, 0]) };
    if written != ready.length as i64 {
        return UNWANTED;
    }
    // Parameter 0 is the mount of the workspace, and the next are from the message. The last of them are optional
    // descriptors, each as an index into the received descriptors.
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
    // Steps are numbered after those of the first plan.
    let sealed = if sealed < 0 { sealed - ((spawn.enter.step_count as i64) << 16) } else { sealed };
    if sealed < 0 {
        // Reported to the launcher on a socket that untrusted code cannot use: anyone could write to the channel.
        // SAFETY: eight bytes, into a socket that is empty.
        unsafe { call(number::WRITE, [BINDING as u64, &raw const sealed as u64, size_of_val(&sealed) as u64, 0, 0, 0]) };
    }
    close(BINDING);
    sealed
}

/// Required by the compiler. Nothing here panics.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
