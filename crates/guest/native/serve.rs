//! The main loop of the zygote: it forks children when the launcher asks, and shares its memory with them.

use super::{Control, Descriptors, EINTR, Forked, Message, O_CLOEXEC, Span, call, close, fork, number, receive, seal};
use core::ptr;

/// An order of the launcher: a sandbox, whose descriptors are attached. All words are eight bytes.
#[repr(C)]
struct Order {
    slot: u64,
    rehearse: u64,
}

/// A message to the launcher, which `zygote.rs` of the sandbox crate reads.
#[repr(C)]
struct Word {
    kind: u64,
    /// The slot of a new sandbox, or the process ID of one that has ended.
    which: u64,
    /// A process ID, an errno, or a wait status.
    value: i64,
}

/// A child was created, and its pidfd is attached.
const FORKED: u64 = 2;
/// No child could be created.
const FAILED: u64 = 3;
/// A child has ended.
const ENDED: u64 = 4;

/// The result of [`serve`] in a child that does a trial run before it is sealed.
const REHEARSE: i64 = 2;

const F_ADD_SEALS: u64 = 1033;
/// Seals: the file cannot shrink, grow or be written to, and no seal can be removed.
const SEALED: u64 = 0b1111;
const MSG_NOSIGNAL: u64 = 0x4000;
const POLLIN: i16 = 1;
const WNOHANG: u64 = 1;
const SIG_BLOCK: u64 = 0;
/// The mask of SIGCHLD.
const CHILD_ENDED: u64 = 1 << (17 - 1);
const MAP_PRIVATE_FIXED: u64 = 0x12;

/// The exit status of a zygote in an inconsistent state.
const EXIT_BROKEN: u64 = 70;

fn exit(status: u64) -> ! {
    loop {
        // SAFETY: exits the process.
        unsafe { call(number::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

/// Sends a message to the launcher, with a pidfd if there is one. Exits if the launcher is gone.
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
        // SAFETY: the structures have the kernel's layout and outlive the call, which writes to none of them.
        let sent = unsafe { call(number::SENDMSG, [control as u64, &raw const message as u64, MSG_NOSIGNAL, 0, 0, 0]) };
        match sent {
            EINTR => {}
            ..0 => exit(EXIT_BROKEN),
            _ => return,
        }
    }
}

#[repr(C)]
struct Awaited {
    descriptor: i32,
    wanted: i16,
    found: i16,
}

/// Serves the launcher: forks children, and reports which have ended. Returns only in children, with the result of
/// [`fork`] or [`seal`], or with [`REHEARSE`]. Native because every page that the zygote writes to after a fork is
/// copied, and a loop in Python writes to dozens.
///
/// # Safety
/// As for [`fork`].
pub(super) unsafe fn serve(control: i32) -> i64 {
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
        // SAFETY: two structures of the kernel's layout.
        let found = unsafe { call(number::PPOLL, [awaited.as_mut_ptr() as u64, 2, 0, 0, 8, 0]) };
        if found < 0 && found != EINTR {
            exit(EXIT_BROKEN);
        }
        let [order, death] = awaited.map(|one| one.found != 0);
        if death {
            reap(control, deaths);
        }
        // SAFETY: as for this function.
        if order && let Some(outcome) = unsafe { follow(control, mask) } {
            return outcome;
        }
    }
}

/// Reports the children that have ended.
fn reap(control: i32, deaths: i32) {
    let mut signal = [0_u64; 16];
    // SAFETY: the description of a signal has as many bytes. One stands for all signals since the last read.
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

/// Carries out one order. In the child, returns the result for [`serve`].
///
/// # Safety
/// As for [`fork`].
unsafe fn follow(control: i32, mask: u64) -> Option<i64> {
    let mut order = Order { slot: 0, rehearse: 0 };
    let mut beside = Control::new(Descriptors::NONE);
    // SAFETY: numbers only.
    let received = unsafe { receive(control, &mut order, &mut beside) };
    let given = beside.descriptors;
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
        // SAFETY: in a child that has just been created.
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

/// A part of this process's memory, and its protection.
#[repr(C)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) protection: u64,
}

/// Writes parts of this process's memory to a file, seals it, and maps it in their place. Returns zero, or minus errno
/// if nothing was changed. Pages that are not touched again cost a fork nothing, neither to create nor to tear down.
///
/// # Safety
/// The parts must be private mappings of this process, none of them its stack, and `file` an empty memory file.
pub(super) unsafe fn share(file: i32, parts: &[Part]) -> i64 {
    for part in parts {
        let mut done = 0;
        while done < part.length {
            let (at, rest) = (part.start + done, part.length - done);
            // SAFETY: memory of this process, which is only read.
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
        // SAFETY: the contents are the same as before: nothing has been written since, except to the stack.
        let mapped = unsafe { call(number::MMAP, given) };
        if mapped != part.start as i64 {
            // There may be a hole in memory now.
            exit(EXIT_BROKEN);
        }
        offset += part.length;
    }
    0
}
