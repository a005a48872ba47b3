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
    /// Of the last child, set in the zygote.
    handle: i32,
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
    Spawn { flags: 0, handle: -1, enter: NO_PLAN, seal: NO_PLAN, ready: Text { start: ptr::null(), length: 0 } };

/// The ends of a new sandbox's streams, as the launcher sent them.
struct Descriptors {
    channel: i32,
    stdout: i32,
    stderr: i32,
    binding: i32,
    artifacts: i32,
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

/// What [`seal`] gives when nobody wants the sandbox any more.
const UNWANTED: i64 = 1;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: i64 = 1;
    pub const RECVMSG: i64 = 47;
    pub const CLONE: i64 = 56;
    pub const FCNTL: i64 = 72;
    pub const DUP3: i64 = 292;
    pub const CLOSE: i64 = 3;
    pub const CLOSE_RANGE: i64 = 436;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const WRITE: i64 = 64;
    pub const RECVMSG: i64 = 212;
    pub const CLONE: i64 = 220;
    pub const FCNTL: i64 = 25;
    pub const DUP3: i64 = 24;
    pub const CLOSE: i64 = 57;
    pub const CLOSE_RANGE: i64 = 436;
}

const F_DUPFD_CLOEXEC: u64 = 1030;
const O_CLOEXEC: u64 = 0o2_000_000;
const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
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

/// Forks. In the zygote: the child's process id, and its handle in `SPAWN`, or minus errno. In the child: zero once it
/// is in its namespaces with its own descriptors, or a failure of [`failed`]'s form, which it must report and end.
///
/// # Safety
/// `SPAWN` must be set up, and the calling process have one thread.
unsafe fn fork(given: Descriptors) -> i64 {
    // SAFETY: one thread, so nobody else uses it.
    let spawn = unsafe { &mut *(&raw mut SPAWN) };
    let handle = &raw mut spawn.handle as u64;
    // SAFETY: no stack of its own: a fork, which goes on with a copy of all memory.
    let pid = unsafe { call(number::CLONE, [spawn.flags, 0, handle, 0, 0, 0]) };
    if pid != 0 {
        return pid;
    }
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
    control: *mut Control,
    control_length: u64,
    flags: i32,
}

#[repr(C)]
struct Control {
    length: u64,
    level: i32,
    kind: i32,
    workspace: i32,
    servers: i32,
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
    let mut control = Control { length: 0, level: 0, kind: 0, workspace: -1, servers: -1 };
    let received = loop {
        let Some(rest) = parameters.get_mut(1..) else { return UNWANTED };
        let mut span = Span { start: rest.as_mut_ptr().cast(), length: size_of_val(rest) as u64 };
        let control_length = size_of::<Control>() as u64;
        let control = &raw mut control;
        let mut message =
            Message { name: 0, name_length: 0, spans: &raw mut span, span_count: 1, control, control_length, flags: 0 };
        // SAFETY: the structures of the kernel's layout, which outlive the call.
        let received =
            unsafe { call(number::RECVMSG, [BINDING as u64, &raw mut message as u64, MSG_CMSG_CLOEXEC, 0, 0, 0]) };
        if received != EINTR {
            break received;
        }
    };
    if received <= 0 || control.workspace < 0 {
        return UNWANTED;
    }
    parameters[0] = control.workspace as u64;
    let Some(servers) = parameters.get_mut(1 + received as usize / size_of::<u64>()) else { return UNWANTED };
    *servers = if control.servers < 0 { NOTHING } else { control.servers as u64 };
    // SAFETY: the launcher's plan.
    let sealed = unsafe { run(&spawn.seal, &parameters) };
    // SAFETY: a descriptor of ours that nobody uses again.
    unsafe { call(number::CLOSE, [BINDING as u64, 0, 0, 0, 0, 0]) };
    sealed
}

/// The calls as a module of Python: the few functions of its stable interface that this takes.
mod python {
    use super::{CStr, Descriptors, Plan, SPAWN, Step, c_char, c_int, c_long, c_longlong, fork, ptr, seal};

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

    /// `fork(channel, stdout, stderr, binding, artifacts)`
    unsafe extern "C" fn py_fork(_: *mut Object, arguments: *mut Object) -> *mut Object {
        // SAFETY: after `setup`, in the zygote, which has one thread.
        unsafe {
            let descriptor = |index| integer(arguments, index) as i32;
            PyLong_FromLongLong(fork(Descriptors {
                channel: descriptor(0),
                stdout: descriptor(1),
                stderr: descriptor(2),
                binding: descriptor(3),
                artifacts: descriptor(4),
            }))
        }
    }

    /// `handle()`
    unsafe extern "C" fn py_handle(_: *mut Object, _: *mut Object) -> *mut Object {
        // SAFETY: only a number is read.
        unsafe { PyLong_FromLongLong((*(&raw const SPAWN)).handle.into()) }
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
        method(c"fork", py_fork),
        method(c"handle", py_handle),
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
