//! Makes a sandbox out of a fork of the zygote: the way from the fork to the first foreign instruction, in one piece.
//!
//! The zygote, which is Python, loads this as a library. It makes the system calls that a plan tells it to make (see
//! `plan.rs` of the sandbox crate, where plans are written) and knows nothing of their meaning. It is native because a
//! fresh fork pays for every page it touches, and Python touches hundreds to do what this does with ten. No standard
//! library and no libc, and of Python only a few functions of its stable interface: it works under any of either.
//!
//! Trust boundary: runs before any foreign code, never after.
#![no_std]

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong};
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
}

/// What the launcher orders: a sandbox, whose descriptors come beside it. All words are eight bytes.
#[repr(C)]
struct Order {
    slot: u64,
    rehearse: u64,
}

/// What the launcher is told; `zygote.rs` of the sandbox crate reads it.
#[repr(C)]
struct Word {
    kind: u64,
    /// The slot of a new sandbox, or the process id of one that has ended.
    which: u64,
    /// A process id, an errno, or a wait status.
    value: i64,
}

/// A child was made; its handle comes beside.
const FORKED: u64 = 2;
/// No child could be made.
const FAILED: u64 = 3;
/// A child has ended.
const ENDED: u64 = 4;

/// The exit status of a zygote that does not understand the world any more.
const EXIT_BROKEN: u64 = 70;

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

/// What [`seal`] gives when nobody wants the sandbox any more.
const UNWANTED: i64 = 1;

/// What [`serve`] gives in a child that is to touch what a run touches before it is sealed.
const REHEARSE: i64 = 2;

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
const F_ADD_SEALS: u64 = 1033;
/// No seal can be taken off, and the file can neither shrink nor grow nor be written to.
const SEALED: u64 = 0b1111;
const O_CLOEXEC: u64 = 0o2_000_000;
const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
const MSG_NOSIGNAL: u64 = 0x4000;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const POLLIN: i16 = 1;
const WNOHANG: u64 = 1;
const SIG_BLOCK: u64 = 0;
const SIG_SETMASK: u64 = 2;
const CHILD_ENDED: u64 = 1 << (17 - 1);
const MAP_PRIVATE_FIXED: u64 = 0x12;
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

/// Tells the launcher, with a handle if there is one. Without the launcher there is no zygote.
fn tell(control: i32, word: &Word, handle: Option<i32>) {
    let mut span = Span { start: ptr::from_ref(word).cast_mut().cast(), length: size_of::<Word>() as u64 };
    let mut beside = Control::new([handle.unwrap_or(-1), 0]);
    beside.length = 16 + 4;
    let (beside_at, beside_length) = match handle {
        Some(_) => ((&raw mut beside).cast(), size_of_val(&beside) as u64),
        None => (ptr::null_mut(), 0),
    };
    let message = Message {
        name: 0,
        name_length: 0,
        spans: &raw mut span,
        span_count: 1,
        control: beside_at,
        control_length: beside_length,
        flags: 0,
    };
    loop {
        // SAFETY: the structures of the kernel's layout, which outlive the call; it writes to none of them.
        let sent = unsafe { call(number::SENDMSG, [control as u64, &raw const message as u64, MSG_NOSIGNAL, 0, 0, 0]) };
        match sent {
            EINTR => {}
            ..0 => exit(EXIT_BROKEN),
            _ => return,
        }
    }
}

fn exit(status: u64) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(number::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

fn close(descriptor: i32) {
    // SAFETY: only descriptors that this library was given or made.
    unsafe { call(number::CLOSE, [descriptor as u64, 0, 0, 0, 0, 0]) };
}

#[repr(C)]
struct Awaited {
    descriptor: i32,
    wanted: i16,
    found: i16,
}

/// Serves the launcher: makes children, and tells which have ended. Comes back in children only, with what [`fork`] says
/// there, with what [`seal`] says, or with [`REHEARSE`]. Native because every page that the zygote writes to after
/// a fork is copied, and a loop in Python writes to dozens.
///
/// # Safety
/// As for [`fork`].
unsafe fn serve(control: i32) -> i64 {
    let (mut mask, ended) = (0_u64, CHILD_ENDED);
    // SAFETY: masks are eight bytes.
    let deaths = unsafe {
        call(number::RT_SIGPROCMASK, [SIG_BLOCK, &raw const ended as u64, &raw mut mask as u64, 8, 0, 0]);
        call(number::SIGNALFD4, [-1_i64 as u64, &raw const ended as u64, 8, O_CLOEXEC, 0, 0]) as i32
    };
    if deaths < 0 {
        exit(EXIT_BROKEN);
    }
    loop {
        let mut awaited = [control, deaths].map(|descriptor| Awaited { descriptor, wanted: POLLIN, found: 0 });
        // SAFETY: two of the kernel's structures.
        let found = unsafe { call(number::PPOLL, [awaited.as_mut_ptr() as u64, 2, 0, 0, 8, 0]) };
        if found < 0 && found != EINTR {
            exit(EXIT_BROKEN);
        }
        let [order, death] = awaited.map(|one| one.found != 0);
        if death {
            bury(control, deaths);
        }
        // SAFETY: as for this function.
        if order && let Some(outcome) = unsafe { follow(control, mask) } {
            return outcome;
        }
    }
}

/// Tells which children have ended.
fn bury(control: i32, deaths: i32) {
    let mut signal = [0_u64; 16];
    // SAFETY: a signal's description has as many bytes. One stands for all that came since the last was read.
    unsafe { call(number::READ, [deaths as u64, signal.as_mut_ptr() as u64, size_of_val(&signal) as u64, 0, 0, 0]) };
    loop {
        let mut status: i32 = 0;
        // SAFETY: the kernel writes four bytes.
        let pid = unsafe { call(number::WAIT4, [-1_i64 as u64, &raw mut status as u64, WNOHANG, 0, 0, 0]) };
        if pid <= 0 {
            return;
        }
        tell(control, &Word { kind: ENDED, which: pid as u64, value: status.into() }, None);
    }
}

/// Follows one order. In the child: what [`serve`] is to give.
///
/// # Safety
/// As for [`fork`].
unsafe fn follow(control: i32, mask: u64) -> Option<i64> {
    let mut order = Order { slot: 0, rehearse: 0 };
    // A word more than there are descriptors: the kernel wants whole ones.
    let mut beside =
        Control::new((Descriptors { channel: -1, stdout: -1, stderr: -1, binding: -1, artifacts: -1 }, 0_i32));
    // SAFETY: numbers only.
    let received = unsafe { receive(control, &mut order, &mut beside) };
    let given = beside.descriptors.0;
    if received == 0 {
        // The launcher is gone.
        exit(0);
    }
    if received != size_of::<Order>() as i64 || given.artifacts < 0 {
        exit(EXIT_BROKEN);
    }
    // SAFETY: as for this function.
    let (pid, handle) = match unsafe { fork(given, mask) } {
        Forked::Child(0) if order.rehearse != 0 => return Some(REHEARSE),
        // SAFETY: in a child that has just been made.
        Forked::Child(0) => return Some(unsafe { seal() }),
        Forked::Child(failure) => return Some(failure),
        Forked::Parent(pid, handle) => (pid, handle),
    };
    for descriptor in [given.channel, given.stdout, given.stderr, given.binding, given.artifacts] {
        close(descriptor);
    }
    if pid < 0 {
        tell(control, &Word { kind: FAILED, which: order.slot, value: -pid }, None);
    } else {
        tell(control, &Word { kind: FORKED, which: order.slot, value: pid }, Some(handle));
        close(handle);
    }
    None
}

/// A part of this process's memory, and how it is protected.
#[repr(C)]
pub struct Part {
    start: u64,
    length: u64,
    protection: u64,
}

/// Writes parts of this process's memory to a file, which nobody can write to any more, and maps it in their place: zero,
/// or minus errno if all is as it was. What is not touched again costs a fork nothing, neither to make nor to take down.
///
/// # Safety
/// The parts must be private mappings of this process, none of them its stack, and `file` an empty file in memory.
unsafe fn share(file: i32, parts: &[Part]) -> i64 {
    for part in parts {
        let mut done = 0;
        while done < part.length {
            let (at, rest) = (part.start + done, part.length - done);
            // SAFETY: memory of this process that is only read.
            match unsafe { call(number::WRITE, [file as u64, at, rest, 0, 0, 0]) } {
                EINTR => {}
                failure @ ..=0 => return failure.min(-1),
                written => done += written as u64,
            }
        }
    }
    // SAFETY: only a file.
    let sealed = unsafe { call(number::FCNTL, [file as u64, F_ADD_SEALS, SEALED, 0, 0, 0]) };
    if sealed < 0 {
        return sealed;
    }
    let mut offset = 0;
    for part in parts {
        let given = [part.start, part.length, part.protection, MAP_PRIVATE_FIXED, file as u64, offset];
        // SAFETY: what is there now has been there before: nothing has been written since, but to the stack.
        let mapped = unsafe { call(number::MMAP, given) };
        if mapped != part.start as i64 {
            // Perhaps there is a hole now.
            exit(EXIT_BROKEN);
        }
        offset += part.length;
    }
    0
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
    // Parameter 0 is the mount of the workspace, the next came in the message, then the mount of the servers' modules.
    let mut parameters = [0_u64; MOST_PARAMETERS];
    let mut beside = Control::new([-1_i32; 2]);
    let Some(rest) = parameters.get_mut(1..) else { return UNWANTED };
    // SAFETY: numbers only.
    let received = unsafe { receive(BINDING, rest, &mut beside) };
    let [workspace, modules] = beside.descriptors;
    if received <= 0 || workspace < 0 {
        return UNWANTED;
    }
    parameters[0] = workspace as u64;
    let Some(servers) = parameters.get_mut(1 + received as usize / size_of::<u64>()) else { return UNWANTED };
    *servers = if modules < 0 { NOTHING } else { modules as u64 };
    // SAFETY: the launcher's plan.
    let sealed = unsafe { run(&spawn.seal, &parameters) };
    // Numbered after the steps of the first plan.
    let sealed = if sealed < 0 { sealed - ((spawn.enter.step_count as i64) << 16) } else { sealed };
    close(BINDING);
    sealed
}

/// The calls as a module of Python: the few functions of its stable interface that this takes.
mod python {
    use super::{CStr, Part, Plan, SPAWN, Step, c_char, c_int, c_long, c_longlong, ptr, seal, serve, share};

    /// Any object of Python; only pointers to it are handled here.
    #[repr(C)]
    pub struct Object([u8; 0]);

    type Function = unsafe extern "C" fn(*mut Object, *mut Object) -> *mut Object;

    #[repr(C)]
    struct Method {
        name: *const c_char,
        function: Option<Function>,
        flags: c_int,
        text: *const c_char,
    }

    /// PyModuleDef, which begins with an object's header of two words.
    #[repr(C)]
    struct Definition {
        header: [usize; 2],
        start: usize,
        index: isize,
        copy: usize,
        name: *const c_char,
        text: *const c_char,
        size: isize,
        methods: *mut Method,
        rest: [usize; 4],
    }

    unsafe extern "C" {
        fn PyModule_Create2(definition: *mut Definition, version: c_int) -> *mut Object;
        fn PyTuple_GetItem(tuple: *mut Object, index: isize) -> *mut Object;
        fn PyLong_AsLong(object: *mut Object) -> c_long;
        fn PyLong_FromLongLong(value: c_longlong) -> *mut Object;
        fn PyBytes_AsString(object: *mut Object) -> *mut c_char;
        fn PyBytes_Size(object: *mut Object) -> isize;
    }

    const VARIABLE_ARGUMENTS: c_int = 1;
    const INTERFACE_VERSION: c_int = 1013;

    /// Counts at the head of a plan: steps, pointers, fills.
    const HEAD: usize = 3;

    /// So many parts of memory can be shared; `confine.py` knows.
    const MOST_PARTS: usize = 256;

    /// The number at `index` of a call's arguments; minus one, which is no descriptor, if it is none.
    unsafe fn integer(arguments: *mut Object, index: isize) -> c_long {
        // SAFETY: a tuple, as Python hands it over; both functions give an error for what is not there or no number.
        unsafe { PyLong_AsLong(PyTuple_GetItem(arguments, index)) }
    }

    /// Lays a plan out: counts, steps, pointers, fills and bytes, one after the other, in memory that the zygote keeps.
    unsafe fn plan(memory: *mut Object) -> Plan {
        // SAFETY: a bytes object that `confine.py` holds for as long as the process lives. It was made for this purpose
        // alone, so that writing to the plan's own bytes changes nobody's constant.
        unsafe {
            let words = PyBytes_AsString(memory).cast::<u64>();
            let count = |index: usize| words.add(index).read_unaligned();
            let steps = words.add(HEAD).cast::<Step>();
            let pointers = steps.add(count(0) as usize).cast::<super::Pair>();
            let fills = pointers.add(count(1) as usize);
            let bytes = fills.add(count(2) as usize).cast::<u8>();
            Plan { steps, step_count: count(0), bytes, pointers, pointer_count: count(1), fills, fill_count: count(2) }
        }
    }

    /// `setup(flags, enter, seal, ready)`
    unsafe extern "C" fn py_setup(_: *mut Object, arguments: *mut Object) -> *mut Object {
        // SAFETY: called by `confine.py` with a number and three bytes objects, before any fork.
        unsafe {
            let spawn = &mut *(&raw mut SPAWN);
            spawn.flags = integer(arguments, 0) as u64;
            spawn.enter = plan(PyTuple_GetItem(arguments, 1));
            spawn.seal = plan(PyTuple_GetItem(arguments, 2));
            let ready = PyTuple_GetItem(arguments, 3);
            spawn.ready.start = PyBytes_AsString(ready).cast::<u8>();
            spawn.ready.length = PyBytes_Size(ready) as u64;
            PyLong_FromLongLong(0)
        }
    }

    /// `share(file, parts)`
    unsafe extern "C" fn py_share(_: *mut Object, arguments: *mut Object) -> *mut Object {
        // SAFETY: called by `confine.py` with a file, and with parts that it has found in the list of this process's
        // mappings, laid out as words.
        unsafe {
            let (file, parts) = (integer(arguments, 0) as i32, PyTuple_GetItem(arguments, 1));
            let count = PyBytes_Size(parts) as usize / size_of::<Part>();
            // Copied to the stack, which is no part: the bytes themselves may lie in one.
            let mut copy = [const { Part { start: 0, length: 0, protection: 0 } }; MOST_PARTS];
            let first = PyBytes_AsString(parts).cast::<Part>();
            for (index, place) in copy.iter_mut().enumerate().take(count) {
                *place = first.add(index).read_unaligned();
            }
            PyLong_FromLongLong(share(file, copy.get(..count).unwrap_or_default()))
        }
    }

    /// `serve(control)`
    unsafe extern "C" fn py_serve(_: *mut Object, arguments: *mut Object) -> *mut Object {
        // SAFETY: after `setup`, in the zygote, which has one thread.
        unsafe { PyLong_FromLongLong(serve(integer(arguments, 0) as i32)) }
    }

    /// `seal()`
    unsafe extern "C" fn py_seal(_: *mut Object, _: *mut Object) -> *mut Object {
        // SAFETY: in a child that `fork` made.
        unsafe { PyLong_FromLongLong(seal()) }
    }

    const fn method(name: &'static CStr, function: Function) -> Method {
        Method { name: name.as_ptr(), function: Some(function), flags: VARIABLE_ARGUMENTS, text: ptr::null() }
    }

    static mut METHODS: [Method; 5] = [
        method(c"setup", py_setup),
        method(c"share", py_share),
        method(c"serve", py_serve),
        method(c"seal", py_seal),
        Method { name: ptr::null(), function: None, flags: 0, text: ptr::null() },
    ];

    static mut DEFINITION: Definition = Definition {
        header: [1, 0],
        start: 0,
        index: 0,
        copy: 0,
        name: c"confine".as_ptr(),
        text: ptr::null(),
        size: -1,
        methods: ptr::null_mut(),
        rest: [0; 4],
    };

    /// What Python calls when it loads this.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn PyInit_confine() -> *mut Object {
        // SAFETY: called once, by a process with one thread; the definition lives as long as the process.
        unsafe {
            let definition = &raw mut DEFINITION;
            (*definition).methods = (&raw mut METHODS).cast::<Method>();
            PyModule_Create2(definition, INTERFACE_VERSION)
        }
    }
}

/// Nothing here panics; the compiler wants to know what would happen.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
