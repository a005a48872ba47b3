//! Native functions for the scripts of the runtime: output, timers, calls, files, bytes.

#![expect(clippy::needless_pass_by_value, reason = "the engine hands its arguments over by value")]

use super::shared::Shared;
use super::wire::Outgoing;
use crate::media;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::{Ctx, Exception, Function, Object, TypedArray};
use serde_json::Value;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// The maximum number of files in a listing.
const MAX_LISTED: usize = 100_000;

/// The maximum number of random bytes per request.
const MAX_RANDOM: usize = 64 << 10;

type Result<T> = rquickjs::Result<T>;

/// The object with the functions, for the scripts.
pub(super) fn object<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    let put = |name: &str, function: Result<Function<'js>>| natives.set(name, function?);
    let began = Instant::now();

    put("write", Function::new(ctx.clone(), write))?;
    put("milliseconds", Function::new(ctx.clone(), move || began.elapsed().as_secs_f64() * 1e3))?;
    let state = Rc::clone(shared);
    put("setTimer", Function::new(ctx.clone(), move |id: u64, ms: f64| state.timers.borrow_mut().set(id, ms)))?;
    let state = Rc::clone(shared);
    put("clearTimer", Function::new(ctx.clone(), move |id: u64| state.timers.borrow_mut().clear(id)))?;
    let state = Rc::clone(shared);
    put(
        "call",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, id: u64, method: String, params: String| {
            call(&ctx, &state, id, method, &params)
        }),
    )?;
    let state = Rc::clone(shared);
    put("mapStack", Function::new(ctx.clone(), move |stack: String| map_stack(&state, &stack)))?;

    put("utf8Length", Function::new(ctx.clone(), |text: String| text.len()))?;
    put(
        "encodeText",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| TypedArray::new(ctx, text.into_bytes())),
    )?;
    put("decodeText", Function::new(ctx.clone(), decode_text))?;
    put("fromBase64", Function::new(ctx.clone(), from_base64))?;
    put("randomBytes", Function::new(ctx.clone(), random_bytes))?;
    put("uuid", Function::new(ctx.clone(), uuid))?;

    put("readText", Function::new(ctx.clone(), read_text))?;
    put("readBytes", Function::new(ctx.clone(), read_bytes))?;
    put(
        "writeText",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, path: String, text: String| {
            write_file(&ctx, &path, text.as_bytes())
        }),
    )?;
    put(
        "writeBytes",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, path: String, data: String| {
            write_file(&ctx, &path, &decoded(&ctx, &data)?)
        }),
    )?;
    put("listFiles", Function::new(ctx.clone(), list_files))?;
    put("deleteFile", Function::new(ctx.clone(), delete_file))?;
    put("saveMedia", Function::new(ctx.clone(), save_media))?;
    let state = Rc::clone(shared);
    put(
        "fetch",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, id: u64, request: String| {
            let started = state.fetches.borrow_mut().start(id, &request);
            started.map_err(|reason| Exception::throw_type(&ctx, &reason))
        }),
    )?;
    Ok(natives)
}

/// Throws an error that code can catch.
fn fail<T>(ctx: &Ctx<'_>, what: &str, error: impl Display) -> Result<T> {
    Err(Exception::throw_message(ctx, &format!("{what}: {error}")))
}

fn write(ctx: Ctx<'_>, fd: i32, text: String) -> Result<()> {
    let written = if fd == 2 {
        io::stderr().write_all(text.as_bytes())
    } else {
        let mut stdout = io::stdout();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
    };
    match written {
        Ok(()) => Ok(()),
        Err(error) => fail(&ctx, "cannot write the output", error),
    }
}

fn call(ctx: &Ctx<'_>, shared: &Shared, id: u64, method: String, params: &str) -> Result<()> {
    let params: Value = match serde_json::from_str(params) {
        Ok(params) => params,
        Err(error) => return fail(ctx, "the arguments are not JSON", error),
    };
    match shared.wire.borrow_mut().send(&Outgoing::Call { id, method, params }) {
        Ok(()) => {
            shared.calls.borrow_mut().insert(id);
            Ok(())
        }
        Err(error) => fail(ctx, "cannot make the call", error),
    }
}

fn map_stack(shared: &Shared, stack: &str) -> String {
    let lines: Vec<String> = shared.sources.borrow().frames(stack).iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Decodes bytes, which are passed as base64, because accessing the engine's memory would not be safe.
fn decoded(ctx: &Ctx<'_>, data: &str) -> Result<Vec<u8>> {
    match STANDARD.decode(data) {
        Ok(bytes) => Ok(bytes),
        Err(error) => fail(ctx, "this is not base64", error),
    }
}

fn decode_text(ctx: Ctx<'_>, data: String, fatal: bool) -> Result<String> {
    match String::from_utf8(decoded(&ctx, &data)?) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) if fatal => Err(Exception::throw_type(&ctx, &error.to_string())),
        Err(error) => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

fn from_base64(ctx: Ctx<'_>, text: String) -> Result<TypedArray<'_, u8>> {
    let text: String = text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    let bytes = decoded(&ctx, &text)?;
    TypedArray::new(ctx, bytes)
}

fn random_bytes(ctx: Ctx<'_>, length: usize) -> Result<TypedArray<'_, u8>> {
    let mut bytes = vec![0; length.min(MAX_RANDOM)];
    match getrandom::fill(&mut bytes) {
        Ok(()) => TypedArray::new(ctx, bytes),
        Err(error) => fail(&ctx, "cannot get random bytes", error),
    }
}

fn uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        return fail(&ctx, "cannot get random bytes", error);
    }
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let hex = format!("{number:032x}");
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

fn read_text(ctx: Ctx<'_>, path: String) -> Result<String> {
    match fs::read(&path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(_)) => fail(&ctx, &format!("cannot read {path}"), "it is not UTF-8 text: use readBytes"),
        Err(error) => fail(&ctx, &format!("cannot read {path}"), error),
    }
}

fn read_bytes(ctx: Ctx<'_>, path: String) -> Result<TypedArray<'_, u8>> {
    match fs::read(&path) {
        Ok(bytes) => TypedArray::new(ctx, bytes),
        Err(error) => fail(&ctx, &format!("cannot read {path}"), error),
    }
}

fn write_file(ctx: &Ctx<'_>, path: &str, bytes: &[u8]) -> Result<usize> {
    let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    match made.and_then(|()| fs::write(path, bytes)) {
        Ok(()) => Ok(bytes.len()),
        Err(error) => fail(ctx, &format!("cannot write {path}"), error),
    }
}

/// Links to modules in a workspace, which are not files of the user.
const LINKS: [&str; 2] = ["servers", "skills"];

/// The files in a folder whose names match. Their paths begin with that of the folder, unless it is the current one.
fn list_files(ctx: Ctx<'_>, folder: String, pattern: String) -> Result<Vec<String>> {
    if !Path::new(&folder).is_dir() {
        return fail(&ctx, "not a folder", folder);
    }
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let whole = format!("{}/{pattern}", glob::Pattern::escape(&folder));
    let found = match glob::glob_with(&whole, options) {
        Ok(found) => found,
        Err(error) => return fail(&ctx, &format!("invalid pattern: {pattern}"), error),
    };
    let links = LINKS.map(|name| Path::new(&folder).join(name)).into_iter().filter(|path| path.is_symlink());
    let links: Vec<PathBuf> = links.collect();
    let own = |path: &PathBuf| path.is_file() && !links.iter().any(|link| path.starts_with(link));
    let files = found.flatten().filter(own).take(MAX_LISTED);
    let mut names: Vec<String> = files.map(|path| normal(&path).to_string_lossy().into_owned()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The path without `.` components.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

fn delete_file(ctx: Ctx<'_>, path: String) -> Result<()> {
    match fs::remove_file(&path) {
        Ok(()) => Ok(()),
        Err(error) => fail(&ctx, &format!("cannot delete {path}"), error),
    }
}

fn save_media(ctx: Ctx<'_>, mime: String, data: String) -> Result<Object<'_>> {
    match media::save(&mime, &data) {
        Ok((path, size)) => {
            let saved = Object::new(ctx)?;
            saved.set("path", path)?;
            saved.set("size", size)?;
            Ok(saved)
        }
        Err(error) => fail(&ctx, "cannot store the media of a reply", error),
    }
}
