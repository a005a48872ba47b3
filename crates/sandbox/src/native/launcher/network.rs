//! The network of a sandbox whose code may use a proxy: one listener in a network namespace of its own.
//!
//! A socket stays in the namespace that it was created in. The child creates a listener in its new namespace, which has
//! nothing but a loopback interface, sends it to the server, and closes its own copy. So the server accepts connections
//! from inside, and knows by the listener which sandbox they belong to, and code finds no path, process or socket that
//! it could use for anything else.
//!
//! Trust boundary: `seccomp.rs` and `landlock.rs` allow code to connect to this listener and to nothing else, and to
//! create no listener of its own. There is no route out of the namespace, so these are further layers.

use super::plan::{Arg, Plan};
use crate::{Network, PROXY};
use Arg::{Bytes, Result as Kept, Value};

/// The descriptor number of the channel to the server, as `native/confine.rs` of the guest sets it.
const CHANNEL: u64 = 3;

/// The byte that the listener travels with. No frame begins with it.
const BESIDE: &[u8] = b"L";

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u64 = 1_024;

const LOOPBACK: &[u8] = b"lo";
const NAME_BYTES: usize = 16;
const UP: i16 = libc::IFF_UP as i16;

/// The minimum, initial and maximum buffers of a connection, in bytes: the kernel's memory for them does not count
/// against the sandbox everywhere, and its own maximum is several megabytes for each connection.
const BUFFERS: &str = "4096 131072 524288\n";

/// The namespaces for each child besides those that every child gets.
pub(super) fn namespaces(network: Network) -> i32 {
    match network {
        Network::Off => 0,
        Network::Proxy => libc::CLONE_NEWNET,
    }
}

/// Adds the calls that limit the buffers of connections, while the `/proc` of the zygote is still there.
pub(super) fn limit_buffers(plan: &mut Plan) {
    for name in ["tcp_rmem", "tcp_wmem"] {
        plan.write_file(&format!("/proc/sys/net/ipv4/{name}"), BUFFERS);
    }
}

/// Adds the calls that create the listener and send it to the server.
pub(super) fn listen(plan: &mut Plan) {
    let descriptor =
        [&20_u64.to_ne_bytes()[..], &libc::SOL_SOCKET.to_ne_bytes(), &libc::SCM_RIGHTS.to_ne_bytes(), &[0; 8]];
    let control = plan.bytes(&descriptor.concat());
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
    let socket =
        plan.call_keep("create a socket", libc::SYS_socket, &[Value(libc::AF_INET as u64), Value(kind), Value(0)]);
    plan.poke(control.plus(16));
    let mut interface = [0_u8; NAME_BYTES + 24];
    interface[..LOOPBACK.len()].copy_from_slice(LOOPBACK);
    interface[NAME_BYTES..NAME_BYTES + 2].copy_from_slice(&UP.to_ne_bytes());
    let interface = plan.bytes(&interface);
    let args = [Kept(socket), Value(libc::SIOCSIFFLAGS), Bytes(interface)];
    plan.call("bring up the loopback interface", libc::SYS_ioctl, &args);
    let (family, port) = (libc::AF_INET as u16, PROXY.port());
    let address = [&family.to_ne_bytes()[..], &port.to_be_bytes(), &PROXY.ip().octets(), &[0; 8]].concat();
    let (length, address) = (address.len() as u64, plan.bytes(&address));
    plan.call("bind the listener", libc::SYS_bind, &[Kept(socket), Bytes(address), Value(length)]);
    plan.call("listen", libc::SYS_listen, &[Kept(socket), Value(BACKLOG)]);
    // struct msghdr: name, its length, spans, their number, control, its length, flags.
    let beside = plan.bytes(BESIDE);
    let span = plan.bytes(&[[0; 8], (BESIDE.len() as u64).to_ne_bytes()].concat());
    plan.pointer(span, beside);
    let words: [u64; 7] = [0, 0, 0, 1, 0, 24, 0];
    let message = plan.bytes(&words.map(u64::to_ne_bytes).concat());
    plan.pointer(message.plus(16), span);
    plan.pointer(message.plus(32), control);
    let args = [Value(CHANNEL), Bytes(message), Value(libc::MSG_NOSIGNAL as u64)];
    plan.call("send the listener to the server", libc::SYS_sendmsg, &args);
    plan.call("close the listener", libc::SYS_close, &[Kept(socket)]);
}
