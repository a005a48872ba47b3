//! `cargo xtask dist`: packages for people without a compiler.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::WrongUsage;
use crate::dist::{self, Contents, Effort, Kind};
use crate::metadata::{Metadata, Resolve};
use crate::steps::Steps;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// Where the packages go; `target/dist` without it.
    out: Option<PathBuf>,
    /// A binary that is there already; without it, one is built.
    binary: Option<PathBuf>,
    kinds: Vec<Kind>,
    allow_newer_glibc: bool,
    effort: Effort,
    verify: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            out: None,
            binary: None,
            kinds: Kind::ALL.to_vec(),
            allow_newer_glibc: false,
            effort: Effort::Best,
            verify: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| WrongUsage(format!("`{argument}` needs a value")));
            match argument.as_str() {
                "--out" => options.out = Some(value()?.into()),
                "--binary" => options.binary = Some(value()?.into()),
                "--only" => options.kinds = kinds(value()?)?,
                "--allow-newer-glibc" => options.allow_newer_glibc = true,
                "--fast" => options.effort = Effort::Fast,
                "--verify" => options.verify = true,
                _ => bail!(WrongUsage(format!("`{argument}` comes unexpectedly"))),
            }
        }
        Ok(options)
    }
}

fn kinds(names: &str) -> Result<Vec<Kind>> {
    let find = |name| {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            let all = Kind::ALL.map(Kind::name).join(", ");
            WrongUsage(format!("there is no package `{name}`: there are {all}")).into()
        })
    };
    names.split(',').map(find).collect()
}

pub(super) fn run(steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let out = match options.out {
        Some(out) => std::path::absolute(out).context("find the current folder")?,
        None => Metadata::load(Resolve::Members)?.target_directory.join("dist"),
    };
    let binary = match options.binary {
        Some(binary) => binary,
        None => dist::release_binary(steps)?,
    };
    let contents = Contents::gather(&binary)?;
    eprintln!("the program takes {} MB and needs glibc {}", contents.program_size() / 1_000_000, contents.glibc());
    if !options.allow_newer_glibc {
        dist::check_glibc(contents.glibc())?;
    }
    let mut all = Vec::new();
    for kind in options.kinds {
        let mut packages = Vec::new();
        steps.step(kind.name(), &format!("in {}", out.display()), || {
            packages = dist::make(kind, &contents, options.effort, &out)?;
            for package in &packages {
                let size = package.metadata().map_or(0, |metadata| metadata.len());
                let name = package.file_name().unwrap_or_default().to_string_lossy();
                eprintln!("{name}  {}.{} MB", size / 1_000_000, size / 100_000 % 10);
            }
            Ok(())
        })?;
        if options.verify {
            steps.step("verify", kind.name(), || dist::verify(kind, &packages, &contents))?;
        }
        all.extend(packages);
    }
    steps.step("checksums", "SHA256SUMS", || dist::write_checksums(&all, &out).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let options = parse(&["--out", "here", "--only", "npm,deb", "--verify"]).unwrap();
        let expected = Options {
            out: Some("here".into()),
            binary: None,
            kinds: vec![Kind::Npm, Kind::Deb],
            allow_newer_glibc: false,
            effort: Effort::Best,
            verify: true,
        };
        assert_eq!(options, expected);
        for (words, message) in [
            (&["--out"][..], "`--out` needs a value"),
            (&["--only", "rpm"], "there is no package `rpm`: there are tarball, wheel, npm, deb, image"),
            (&["rest"], "`rest` comes unexpectedly"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), message);
        }
    }
}
