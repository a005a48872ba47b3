//! Addresses of networks and devices: IPv4, IPv6, MAC.

use super::Scan;
use super::context::Words;
use super::view::View;
use crate::kinds::Kind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// What four numbers with dots often are instead of an address.
static VERSION: LazyLock<Words> = LazyLock::new(|| {
    Words::new(["version", "ver", "v", "release", "build", "section", "chapter", "oid", "asn.1", "upgrade", "rev"])
});

/// The longest text of an IPv6 address.
const IPV6_MOST: usize = 45;

impl Scan<'_> {
    /// Examines the first digit of a number, and returns the end of the IPv4 address there.
    pub(super) fn ipv4(&mut self, start: usize) -> Option<usize> {
        let end = ipv4_end(&self.view, start)?;
        let view = &self.view;
        let address: Ipv4Addr = view.str(start, end).parse().ok()?;
        let follows = (view.at(end), view.at(end + 1));
        let goes_on = !view.is_word_end(end)
            || matches!(follows, (Some(b'.' | b'-'), Some(next)) if next.is_ascii_alphanumeric());
        if goes_on {
            return None;
        }
        let is_version = VERSION.are_before(view, start, 10);
        if is_personal_v4(address) && !is_version {
            self.found(Kind::IpAddress, start..end, if address.is_private() { 60 } else { 85 });
        }
        Some(end)
    }

    /// Examines the first character of a word or a colon, and returns the end of the IPv6 or MAC address there.
    pub(super) fn ipv6_or_mac(&mut self, start: usize) -> Option<usize> {
        if matches!(self.view.before(start, 1), Some(b':' | b'-' | b'.'))
            && self.view.before(start, 2).is_some_and(|b| b.is_ascii_hexdigit() || b == b':')
        {
            return None;
        }
        self.mac(start).or_else(|| self.ipv6(start))
    }

    fn mac(&mut self, start: usize) -> Option<usize> {
        let view = &self.view;
        let sign = match (view.at(start + 2)?, view.at(start + 4)?) {
            (sign @ (b':' | b'-'), _) => sign,
            (_, b'.') => return self.mac_with_dots(start),
            _ => return None,
        };
        let mut digits = [0_u8; 12];
        for pair in 0..6 {
            let from = start + pair * 3;
            digits[pair * 2] = view.at(from).filter(u8::is_ascii_hexdigit)?;
            digits[pair * 2 + 1] = view.at(from + 1).filter(u8::is_ascii_hexdigit)?;
            if pair < 5 && view.at(from + 2)? != sign {
                return None;
            }
        }
        self.mac_of(start, start + 17, &digits)
    }

    fn mac_with_dots(&mut self, start: usize) -> Option<usize> {
        let view = &self.view;
        let mut digits = [0_u8; 12];
        for (position, digit) in digits.iter_mut().enumerate() {
            *digit = view.at(start + position + position / 4).filter(u8::is_ascii_hexdigit)?;
        }
        if view.at(start + 4) != Some(b'.')
            || view.at(start + 9) != Some(b'.')
            || !digits.iter().any(u8::is_ascii_alphabetic)
        {
            return None;
        }
        self.mac_of(start, start + 14, &digits)
    }

    fn mac_of(&mut self, start: usize, end: usize, digits: &[u8; 12]) -> Option<usize> {
        let view = &self.view;
        let goes_on = !view.is_word_end(end)
            || matches!((view.at(end), view.at(end + 1)), (Some(b':' | b'-' | b'.'), Some(next)) if next.is_ascii_hexdigit());
        let is_one_digit = digits.iter().all(|digit| digit.eq_ignore_ascii_case(&digits[0]));
        // Six numbers of two digits are as likely two times or a date as an address.
        let separator = view.at(start + 2);
        let is_date = separator == Some(b'-') && digits.iter().all(u8::is_ascii_digit);
        if goes_on || is_one_digit || is_date {
            return None;
        }
        self.found(Kind::MacAddress, start..end, 85);
        Some(end)
    }

    fn ipv6(&mut self, start: usize) -> Option<usize> {
        let view = &self.view;
        let mut end = view.run(start, IPV6_MOST + 1, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
        // A sign of the sentence.
        while end > start
            && (view.at(end - 1) == Some(b'.') || (view.at(end - 1) == Some(b':') && view.before(end, 2) != Some(b':')))
        {
            end -= 1;
        }
        let text = view.str(start, end);
        if text.len() > IPV6_MOST
            || text.bytes().filter(|byte| *byte == b':').count() < 2
            || !view.is_word_end(end)
            || view.at(end) == Some(b':')
        {
            return None;
        }
        let address: Ipv6Addr = text.parse().ok()?;
        let mapped = address.to_ipv4_mapped();
        let groups = text.split(':').filter(|group| !group.is_empty()).count();
        let first = address.segments()[0];
        // `a::b` is a path of Rust, and `1::2` may be anything. Addresses in use start with 2, 3, f or 64.
        let is_in_use = (0x2000..0x4000).contains(&first) || first >= 0xfc00 || first == 0x64 || mapped.is_some();
        let is_personal = mapped
            .map_or(!address.is_loopback() && !address.is_unspecified() && !address.is_multicast(), is_personal_v4);
        if is_in_use && is_personal && groups >= 2 && text.bytes().any(|byte| byte.is_ascii_digit()) {
            let is_local = first >= 0xfc00;
            self.found(Kind::IpAddress, start..end, if is_local { 60 } else { 90 });
        }
        Some(end)
    }
}

fn ipv4_end(view: &View<'_>, start: usize) -> Option<usize> {
    let mut position = start;
    for part in 0..4 {
        let end = view.run(position, 4, |byte| byte.is_ascii_digit());
        if end == position || end - position > 3 {
            return None;
        }
        position = end;
        if part < 3 {
            if view.at(position)? != b'.' {
                return None;
            }
            position += 1;
        }
    }
    Some(position)
}

/// Whether an address may be that of a person's device.
fn is_personal_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    // Netmasks start with 255; what starts with 0 is rather a version.
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || first >= 240 || first == 0)
}
