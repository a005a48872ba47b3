//! What a program says of itself: its processor, the libraries it links, and the glibc it needs.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Glibc {
    /// Reads the name of a symbol version, such as `GLIBC_2.17`. A third number is a patch level that nobody tags
    /// packages with.
    fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        Some(Self { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
    }
}

impl fmt::Display for Glibc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// A processor, with the names that package formats have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processor {
    X86_64,
    Aarch64,
}

impl Processor {
    /// As Rust, Python and the kernel say it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Node.js says it.
    pub(crate) fn npm(self) -> &'static str {
        match self {
            Self::X86_64 => "x64",
            Self::Aarch64 => "arm64",
        }
    }

    /// As Debian and container images say it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// What a program needs to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) processor: Processor,
    /// The newest version among the symbols of glibc that it links.
    pub(crate) glibc: Glibc,
    /// File names of the libraries that the loader looks for, such as `libc.so.6`.
    pub(crate) libraries: Vec<String>,
}

impl Needs {
    /// Reads an ELF file.
    pub(crate) fn of(program: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(program).context("the program is no 64-bit ELF file")?;
        let endian = header.endian()?;
        let processor = match header.e_machine(endian) {
            EM_X86_64 => Processor::X86_64,
            EM_AARCH64 => Processor::Aarch64,
            other => bail!("there are no packages for the processor with ELF number {other}"),
        };
        let sections = header.sections(endian, program)?;
        let mut versions = Vec::new();
        if let Some((mut files, strings)) = sections.gnu_verneed(endian, program)? {
            let strings = sections.strings(endian, program, strings)?;
            while let Some((_, mut symbols)) = files.next()? {
                while let Some(symbol) = symbols.next()? {
                    versions.push(String::from_utf8_lossy(symbol.name(endian, strings)?).into_owned());
                }
            }
        }
        let mut libraries = Vec::new();
        if let Some((entries, strings)) = sections.dynamic(endian, program)? {
            let strings = sections.strings(endian, program, strings)?;
            for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
                libraries.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
            }
        }
        let glibc = versions.iter().filter_map(|name| Glibc::parse(name)).max();
        let glibc = glibc.context("the program links no glibc: packages for other C libraries are not made yet")?;
        Ok(Self { processor, glibc, libraries })
    }

    /// Whether the file has no table of symbols, which takes space and which only debuggers read.
    pub(crate) fn is_stripped(program: &[u8]) -> Result<bool> {
        let header = FileHeader64::<Endianness>::parse(program).context("the program is no 64-bit ELF file")?;
        let endian = header.endian()?;
        let sections = header.sections(endian, program)?;
        Ok(!sections.iter().any(|section| section.sh_type(endian) == elf::SHT_SYMTAB))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let parse = |name| Glibc::parse(name).unwrap();
        assert!(parse("GLIBC_2.4") < parse("GLIBC_2.31"));
        assert_eq!(parse("GLIBC_2.2.5"), Glibc { major: 2, minor: 2 });
        for name in ["GLIBC_PRIVATE", "GCC_3.0", "GLIBC_2"] {
            assert_eq!(Glibc::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_program_says_what_it_needs() {
        // The test program itself: built for this machine, and with symbols.
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = Needs::of(&program).unwrap();
        assert_eq!(needs.processor.name(), std::env::consts::ARCH);
        assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "{needs:?}");
        assert!(needs.glibc >= Glibc { major: 2, minor: 17 }, "Rust's standard library needs that: {needs:?}");
        assert!(!Needs::is_stripped(&program).unwrap());
        assert!(Needs::of(b"#!/bin/sh\n").is_err());
    }
}
