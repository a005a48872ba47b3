//! The kernel versions that are supported.

/// The oldest supported version. Before it, `RLIMIT_NPROC` counted the processes of a user on the whole machine: one
/// sandbox could use up those of all others, and of the host's user.
pub const OLDEST_KERNEL: (u32, u32) = (5, 14);

/// Major and minor version in the release that `uname -r` prints.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Why a kernel of this release is not supported. A release that cannot be parsed counts as too old.
pub(super) fn check(release: &str) -> Result<(), String> {
    let (major, minor) = OLDEST_KERNEL;
    match kernel_version(release) {
        Some(version) if version >= OLDEST_KERNEL => Ok(()),
        Some(_) => Err(format!(
            "Linux {release} is too old: {major}.{minor} or later is needed, since before that the limit on processes \
             is shared by all sandboxes of a user"
        )),
        None => Err(format!("cannot tell the version of Linux from {release:?}: {major}.{minor} or later is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, kernel_version};

    #[test]
    fn versions_are_parsed_from_releases_of_all_kinds() {
        for (release, version) in [
            ("5.14.0", Some((5, 14))),
            ("6.1.0-18-amd64", Some((6, 1))),
            ("5.15.167.4-microsoft-standard-WSL2", Some((5, 15))),
            ("6.12-rc3", Some((6, 12))),
            ("10.0", Some((10, 0))),
            ("4.18.0-553.el8_10.x86_64", Some((4, 18))),
            ("", None),
            ("6", None),
            ("linux-6.1", None),
            ("6.x", None),
        ] {
            assert_eq!(kernel_version(release), version, "{release:?}");
        }
    }

    #[test]
    fn old_kernels_are_rejected_with_a_reason() {
        for release in ["5.14.0-70.el9", "5.15.0-1.fc35", "6.0.0", "10.1"] {
            assert_eq!(check(release), Ok(()), "{release}");
        }
        for release in ["5.13.19", "5.4.0-200-generic", "4.18.0", "2.6.78"] {
            let reason = check(release).unwrap_err();
            assert!(reason.starts_with(&format!("Linux {release} is too old: 5.14 or later is needed")), "{reason}");
        }
        assert!(check("unknown").unwrap_err().contains("5.14 or later is needed"));
    }
}
