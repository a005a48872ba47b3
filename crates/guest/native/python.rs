//! The library as a Python module, with the few functions of the stable ABI that it needs.

use super::serve::{Part, serve, share};
use super::{Plan, SPAWN, Step, seal};
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong};
use core::ptr;

/// Any Python object. Only pointers to it are used here.
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

/// The number of counts at the head of a plan: steps, pointers, fills.
const HEAD: usize = 3;

/// The maximum number of parts of memory to share, which `confine.py` also knows.
const MOST_PARTS: usize = 256;

/// The number at `index` of a call's arguments, or -1, which is not a descriptor, if it is not a number.
unsafe fn integer(arguments: *mut Object, index: isize) -> c_long {
    // SAFETY: a tuple, as Python passes it; both functions set an error if the item is missing or not a number.
    unsafe { PyLong_AsLong(PyTuple_GetItem(arguments, index)) }
}

/// Parses a plan: counts, steps, pointers, fills and bytes, one after the other, in memory that the zygote keeps.
unsafe fn plan(memory: *mut Object) -> Plan {
    // SAFETY: a bytes object that `confine.py` holds as long as the process lives. It was created for this purpose
    // only, so writing to the plan's bytes does not change any constant.
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
        // Copied to the stack, which is not a part, because the bytes themselves may be in one.
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
    // SAFETY: in a child that `fork` created.
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

/// The function that Python calls when it loads the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit_confine() -> *mut Object {
    // SAFETY: called once, by a process with one thread; the definition lives as long as the process.
    unsafe {
        let definition = &raw mut DEFINITION;
        (*definition).methods = (&raw mut METHODS).cast::<Method>();
        PyModule_Create2(definition, INTERFACE_VERSION)
    }
}
