//! The zygote at work: it makes children when the launcher asks, and shares its memory with them.

use super::{Control, Descriptors, EINTR, Forked, Message, O_CLOEXEC, Span, call, close, fork, number, receive, seal};
use core::ptr;

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

/// What [`serve`] gives in a child that is to touch what a run touches before it is sealed.
const REHEARSE: i64 = 2;

const F_ADD_SEALS: u64 = 1033;
/// No seal can be taken off, and the file can neither shrink nor grow nor be written to.
const SEALED: u64 = 0b1111;
const MSG_NOSIGNAL: u64 = 0x4000;
const POLLIN: i16 = 1;
const WNOHANG: u64 = 1;
const SIG_BLOCK: u64 = 0;
/// The signal that a child has ended, as a mask.
const CHILD_ENDED: u64 = 1 << (17 - 1);
const MAP_PRIVATE_FIXED: u64 = 0x12;

/// The exit status of a zygote that does not understand the world any more.
const EXIT_BROKEN: u64 = 70;

fn exit(status: u64) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(number::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
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
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) protection: u64,
}

/// Writes parts of this process's memory to a file, which nobody can write to any more, and maps it in their place: zero,
/// or minus errno if all is as it was. What is not touched again costs a fork nothing, neither to make nor to take down.
///
/// # Safety
/// The parts must be private mappings of this process, none of them its stack, and `file` an empty file in memory.
pub(super) unsafe fn share(file: i32, parts: &[Part]) -> i64 {
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
