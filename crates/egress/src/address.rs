//! Addresses that names may lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

use crate::host::{Host, HostError, quoted};

/// Hosts and networks that may be private.
#[derive(Clone, Debug, Default)]
pub struct PrivateAddresses {
    networks: Vec<IpNet>,
    hosts: Vec<Host>,
}

/// An entry of the private addresses that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{entry} is neither a network nor a host name: {reason}")]
pub struct PrivateAddressError {
    entry: String,
    reason: HostError,
}

impl PrivateAddressError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        "write a network such as 10.1.0.0/16, an address such as 10.1.2.3, or a host name such as db.internal"
    }
}

/// What kind of address it is, apart from public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Public,
    /// May be granted to a host by its name: what people call an internal network.
    Private,
    /// Granted only as a network: link-local with its metadata services, multicast, reserved.
    Special,
}

impl PrivateAddresses {
    /// Parses networks (`10.1.0.0/16`), addresses, and host names. A host name grants private addresses (also loopback
    /// and carrier-grade NAT), but no link-local ones, where clouds have their metadata.
    pub fn parse<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Self, PrivateAddressError> {
        let mut parsed = Self::default();
        for entry in entries {
            let entry = entry.as_ref().trim();
            let network = entry.parse::<IpNet>().ok().or_else(|| entry.parse::<IpAddr>().ok().map(IpNet::from));
            match network {
                Some(network) => parsed.networks.push(network.trunc()),
                None => parsed
                    .hosts
                    .push(Host::parse(entry).map_err(|reason| PrivateAddressError { entry: quoted(entry), reason })?),
            }
        }
        Ok(parsed)
    }

    /// Whether connections for `host` may go to `address`.
    pub fn allows(&self, host: &Host, address: IpAddr) -> bool {
        let is_granted = |address: IpAddr| self.networks.iter().any(|network| network.contains(&address));
        let inner = embedded(address);
        match inner.map_or_else(|| kind(address), |inner| kind(IpAddr::V4(inner))) {
            Kind::Public => true,
            Kind::Private if self.hosts.contains(host) => true,
            Kind::Private | Kind::Special => is_granted(address) || inner.is_some_and(|inner| is_granted(inner.into())),
        }
    }
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (10 | 127, _, _) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Kind::Private,
        // This network; link-local with the metadata of clouds; IETF assignments; documentation; 6to4 relays (obsolete);
        // benchmarks; multicast, reserved and broadcast.
        (0 | 224..=255, _, _)
        | (169, 254, _)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => Kind::Special,
        // Metadata and DNS of Azure.
        _ if address == Ipv4Addr::new(168, 63, 129, 16) => Kind::Special,
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    let [a, b, c, ..] = address.segments();
    match (a, b, c) {
        // Metadata of AWS is in the middle of the unique local addresses.
        (0xfd00, 0x0ec2, _) => Kind::Special,
        (0xfc00..=0xfdff, _, _) => Kind::Private,
        _ if address.is_loopback() => Kind::Private,
        // IETF assignments with Teredo and ORCHID; documentation.
        (0x2001, 0..=0x1ff | 0xdb8, _) | (0x3fff, 0..=0xfff, _) => Kind::Special,
        // Everything that is global is in 2000::/3, apart from NAT64, whose embedded address has been looked at.
        (0x2000..=0x3fff, _, _) => Kind::Public,
        _ => Kind::Special,
    }
}

/// The IPv4 address to which an IPv6 address leads: mapped, compatible, NAT64 or 6to4.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let segments = address.segments();
    let [.., last_but_one, last] = segments;
    let from = |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            from(last_but_one, last)
        }
        [0, 0, 0, 0, 0, 0, ..] if !address.is_loopback() && !address.is_unspecified() => from(last_but_one, last),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::PrivateAddresses;
    use crate::host::Host;

    fn allows(granted: &[&str], host: &str, address: &str) -> bool {
        PrivateAddresses::parse(granted).unwrap().allows(&Host::parse(host).unwrap(), address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "93.184.216.34",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::1",
            "::ffff:1.1.1.1",
        ] {
            assert!(allows(&[], "example.org", address), "{address}");
        }
    }

    #[test]
    fn others_are_refused_in_every_form() {
        let refused = [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.254",
            "169.254.169.254",
            "168.63.129.16",
            "0.0.0.0",
            "0.1.2.3",
            "192.0.0.192",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "198.18.0.1",
            "192.88.99.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "5f00::1",
        ];
        for address in refused {
            assert!(!allows(&[], "example.org", address), "{address}");
        }
    }

    #[test]
    fn networks_and_hosts_are_granted() {
        assert!(allows(&["10.1.0.0/16"], "db.internal", "10.1.2.3"));
        assert!(!allows(&["10.1.0.0/16"], "db.internal", "10.2.2.3"));
        assert!(allows(&["10.1.2.3"], "db.internal", "::ffff:10.1.2.3"));
        assert!(allows(&["db.internal"], "DB.internal.", "10.2.2.3"));
        assert!(!allows(&["db.internal"], "other.internal", "10.2.2.3"));
        assert!(allows(&["fd00::/8"], "db.internal", "fd00:ec2::254"));
    }

    #[test]
    fn a_host_name_never_grants_metadata() {
        assert!(!allows(&["db.internal"], "db.internal", "169.254.169.254"));
        assert!(!allows(&["db.internal"], "db.internal", "fd00:ec2::254"));
        assert!(allows(&["169.254.169.254"], "db.internal", "169.254.169.254"));
    }

    #[test]
    fn wrong_entries_are_named() {
        let error = PrivateAddresses::parse(["10.0.0.0/33"]).unwrap_err().to_string();
        assert!(error.contains("10.0.0.0/33"), "{error}");
    }
}
