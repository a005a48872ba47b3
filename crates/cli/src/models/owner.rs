//! The user who listens on a port of this machine.
//!
//! Any user of a shared machine can listen on the usual port of a model server. Tasks would be sent to that user's
//! program, and its answers would be run as code with the tools of this user. So servers of other people are not used
//! unless they are configured. Servers of root and of system users are: that is how packages install them.

/// Tables of TCP sockets.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// State of a listening socket in the tables.
const LISTENING: &str = "0A";
/// User IDs of people begin here.
const FIRST_PERSON: u32 = 1_000;
/// User ID of `nobody`, which also stands for users of another namespace.
const NOBODY: u32 = 65_534;
/// User IDs that systemd gives to services.
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// Whether another person listens on this port.
pub(super) fn is_anothers(port: u16) -> bool {
    let this = rustix::process::getuid().as_raw();
    TABLES.iter().any(|table| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        listeners(&text, port).any(|user| is_person(user) && user != this)
    })
}

/// User IDs of the sockets that listen on a port.
fn listeners(table: &str, port: u16) -> impl Iterator<Item = u32> {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_, local) = fields.next()?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let user = fields.nth(3)?.parse().ok()?;
        (state == LISTENING && u16::from_str_radix(local, 16).ok()? == port).then_some(user)
    })
}

fn is_person(user: u32) -> bool {
    user >= FIRST_PERSON && user != NOBODY && !DYNAMIC_USERS.contains(&user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 31337 1 0 100 0 0 10 0
   1: 0100007F:04D2 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 31338 1 0 100 0 0 10 0
   2: 0100007F:2CAA 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1002        0 31339 1 0 100 0 0 10 0
";

    #[test]
    fn the_owner_of_a_port_is_found() {
        assert_eq!(listeners(TABLE, 11_434).collect::<Vec<_>>(), [1001]);
        assert_eq!(listeners(TABLE, 1_234).collect::<Vec<_>>(), [998]);
        assert_eq!(listeners(TABLE, 8_080).count(), 0);
        assert_eq!(listeners("nonsense\n1: x\n2: :: 0A 0A\n", 10).count(), 0);
    }

    #[test]
    fn people_are_told_from_services() {
        for (user, expected) in
            [(0, false), (998, false), (1000, true), (NOBODY, false), (62_000, false), (70_001, true)]
        {
            assert_eq!(is_person(user), expected, "{user}");
        }
    }

    #[test]
    fn a_port_of_this_process_is_not_anothers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().as_ref().map(SocketAddr::port).unwrap();
        let this = rustix::process::getuid().as_raw();
        let table = std::fs::read_to_string(TABLES[0]).unwrap();
        assert_eq!(listeners(&table, port).collect::<Vec<_>>(), [this]);
        assert!(!is_anothers(port));
    }
}
