//! One QuickJS per session: receives runs, runs the event loop, answers.

use super::failure::{self, Thrown};
use super::modules::{CORACLE, Files, Names, imports_of};
use super::shared::Shared;
use super::sources::OWN;
use super::wire::{Incoming, Outgoing};
use super::{compile, fetch, names, natives};
use coracle_protocol::RunFailure;
use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, FromJs, Function, Module, Object, Persistent, Promise, Runtime,
    TypedArray, Value,
};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// The scripts of the runtime, in order of their dependencies.
const SCRIPTS: [(&str, &str); 6] = [
    ("base", include_str!("../../typescript/base.js")),
    ("encode", include_str!("../../typescript/encode.js")),
    ("inspect", include_str!("../../typescript/inspect.js")),
    ("helpers", include_str!("../../typescript/helpers.js")),
    ("tools", include_str!("../../typescript/tools.js")),
    ("fetch", include_str!("../../typescript/fetch.js")),
];

/// The stack limit of JavaScript code. The rest of the stack is for native functions.
const JS_STACK_BYTES: usize = 16 << 20;

/// The part of a limited address space that is reserved for everything except QuickJS.
const RESERVE_BYTES: u64 = 112 << 20;

/// The program's name in stack traces.
fn code_name(run: u32) -> String {
    if run == 1 { "<code>".to_owned() } else { format!("<code {run}>") }
}

/// Serves the agent until it disconnects.
pub(super) fn serve() -> io::Result<()> {
    let other = |error: rquickjs::Error| io::Error::other(error.to_string());
    let shared = Rc::new(Shared::default());
    let runtime = Runtime::new().map_err(other)?;
    runtime.set_max_stack_size(JS_STACK_BYTES);
    if let Some(bytes) = memory_limit() {
        runtime.set_memory_limit(bytes);
    }
    runtime.set_loader(
        Names { shared: Rc::clone(&shared), versions: HashMap::new() },
        Files { shared: Rc::clone(&shared) },
    );
    let state = Rc::clone(&shared);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
        let promise = Persistent::save(&ctx, promise);
        let mut all = state.rejections.borrow_mut();
        if handled {
            all.retain(|(known, _)| *known != promise);
        } else {
            all.push((promise, Persistent::save(&ctx, reason)));
        }
    })));
    let context = Context::full(&runtime).map_err(other)?;
    let served = context.with(|ctx| {
        let mut session = Session::new(ctx.clone(), shared).map_err(|error| io::Error::other(error.to_string()))?;
        session.serve()
    });
    // Values that are still held would prevent the engine from shutting down, and the process exits anyway.
    let status = i32::from(served.is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof));
    std::process::exit(status)
}

/// The memory limit of QuickJS, which it reports before the kernel does. With a cgroup, that decides.
fn memory_limit() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    usize::try_from(limit.saturating_sub(RESERVE_BYTES).max(limit / 4)).ok()
}

/// Why a run ended early.
enum Stop<'js> {
    Thrown(Value<'js>),
    Syntax(RunFailure),
    Stuck,
    Wire(io::Error),
}

impl From<io::Error> for Stop<'_> {
    fn from(error: io::Error) -> Self {
        Self::Wire(error)
    }
}

struct Session<'js> {
    ctx: Ctx<'js>,
    shared: Rc<Shared>,
    /// The functions that the scripts offer to us.
    hooks: Object<'js>,
    runs: u32,
}

impl<'js> Session<'js> {
    fn new(ctx: Ctx<'js>, shared: Rc<Shared>) -> rquickjs::Result<Self> {
        let hooks = Object::new(ctx.clone())?;
        let natives = natives::object(&ctx, &shared)?;
        for (name, source) in SCRIPTS {
            let mut options = EvalOptions::default();
            options.filename = Some(format!("{OWN}{name}"));
            let script: Function<'js> = ctx.eval_with_options(source, options)?;
            script.call::<_, ()>((natives.clone(), hooks.clone()))?;
        }
        let module = format!("export const {{ {EXPORTS} }} = globalThis.{HANDOVER};");
        ctx.globals().set(HANDOVER, hooks.get::<_, Object<'js>>("exports")?)?;
        let evaluated = Module::evaluate(ctx.clone(), CORACLE, module)?;
        evaluated.finish::<()>()?;
        ctx.globals().remove(HANDOVER)?;
        Ok(Self { ctx, shared, hooks, runs: 0 })
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let frame = self.shared.wire.borrow_mut().next()?;
            match frame {
                Some(request) if request.r#type == "run" => {
                    let answer = self.run(&request)?;
                    let mut wire = self.shared.wire.borrow_mut();
                    wire.send(&answer)?;
                    wire.flush()?;
                }
                // A reply to a call that is no longer pending.
                Some(_) => {}
                None => self.shared.wire.borrow_mut().wait(None, None)?,
            }
        }
    }

    fn run(&mut self, request: &Incoming) -> io::Result<Outgoing> {
        self.runs += 1;
        let outcome = self.execute(request);
        let answer = match outcome {
            Ok(value) => self.encode(value, request.result_bytes),
            Err(stop) => Err(stop),
        };
        self.settle_down();
        match answer {
            Ok(done) => Ok(done),
            Err(Stop::Wire(error)) => Err(error),
            Err(stop) => {
                let error = Some(self.told(stop));
                Ok(Outgoing::Done {
                    ok: false,
                    exit_code: 1,
                    result: serde_json::Value::Null,
                    result_truncated: false,
                    error,
                })
            }
        }
    }

    /// Runs the code to its value, and to the end of everything that it has started.
    fn execute(&mut self, request: &Incoming) -> Result<Value<'js>, Stop<'js>> {
        let name = code_name(self.runs);
        // If the folder is gone, the program stays where it was.
        let _ = std::env::set_current_dir(&request.directory);
        self.set_variables(request)?;
        self.shared.fetches.borrow_mut().begin(request.network.clone());
        let compiled = compile::program(&request.code)
            .map_err(|why| Stop::Syntax(failure::rejected(&why, &name, &request.code)))?;
        self.shared.sources.borrow_mut().add(&name, compiled.positions, &request.code);
        self.hook::<()>("beginRun", ())?;
        if let Some(imports) = compiled.imports {
            let module = imports_of(self.runs);
            let promise = self.caught(Module::evaluate(self.ctx.clone(), module, imports))?;
            self.finish(&promise)?;
        }
        let mut options = EvalOptions::default();
        options.strict = true;
        options.promise = true;
        options.filename = Some(name.clone());
        let started = self.ctx.eval_with_options::<Promise<'js>, _>(compiled.code, options);
        let promise = match self.caught(started) {
            Ok(promise) => promise,
            // Nothing has run yet: QuickJS does not support some of the newest syntax.
            Err(Stop::Thrown(thrown)) => return Err(self.not_compiled(thrown)),
            Err(stop) => return Err(stop),
        };
        let completion = self.finish(&promise)?;
        let last: Value<'js> = completion
            .as_object()
            .map_or_else(|| Ok(Value::new_undefined(self.ctx.clone())), |it| self.caught(it.get("value")))?;
        let chosen: Object<'js> = self.hook("takeResult", (last, compiled.has_value))?;
        let mut value: Value<'js> = self.caught(chosen.get("value"))?;
        while let Some(promise) = value.as_promise().cloned() {
            value = self.finish(&promise)?;
        }
        self.drain()?;
        Ok(value)
    }

    fn set_variables(&self, request: &Incoming) -> Result<(), Stop<'js>> {
        for (name, json) in &request.vars {
            if !names::is_variable(name) {
                let name: String = name.chars().take(100).collect();
                let message = format!("the variable name \"{name}\" is not a valid name in TypeScript");
                return Err(Stop::Syntax(failure::plain(message, None)));
            }
            let value: Value<'js> = self.caught(self.ctx.json_parse(json.get()))?;
            self.caught(self.ctx.globals().set(name.as_str(), value))?;
        }
        Ok(())
    }

    /// Runs the loop until the promise is settled.
    fn finish(&self, promise: &Promise<'js>) -> Result<Value<'js>, Stop<'js>> {
        loop {
            while self.ctx.execute_pending_job() {}
            match promise.state() {
                PromiseState::Pending => {}
                _ => match promise.result::<Value<'js>>() {
                    Some(result) => {
                        self.forget_rejection(promise);
                        return self.caught(result);
                    }
                    None => return Err(Stop::Stuck),
                },
            }
            if self.is_idle() {
                return Err(Stop::Stuck);
            }
            self.turn()?;
        }
    }

    /// Runs the loop until nothing is left to do. An unhandled rejection is then an error.
    fn drain(&self) -> Result<(), Stop<'js>> {
        loop {
            while self.ctx.execute_pending_job() {}
            if self.is_idle() {
                break;
            }
            self.turn()?;
        }
        let unheard = self.shared.rejections.borrow_mut().drain(..).next();
        match unheard {
            Some((_, reason)) => Err(Stop::Thrown(self.caught(reason.restore(&self.ctx))?)),
            None => Ok(()),
        }
    }

    fn is_idle(&self) -> bool {
        let Shared { timers, calls, fetches, .. } = &*self.shared;
        timers.borrow().is_empty() && calls.borrow().is_empty() && fetches.borrow().is_empty()
    }

    /// Waits for the next timer or reply and passes it on.
    fn turn(&self) -> Result<(), Stop<'js>> {
        let wait = self.shared.timers.borrow().wait();
        let woken = self.shared.fetches.borrow().woken();
        self.shared.wire.borrow_mut().wait(wait, fetch::borrowed(woken.as_ref()))?;
        loop {
            let frame = self.shared.wire.borrow_mut().next()?;
            let Some(frame) = frame else { break };
            if frame.r#type == "reply" {
                self.answer(&frame)?;
                while self.ctx.execute_pending_job() {}
            }
        }
        self.settle_fetches()?;
        let now = Instant::now();
        loop {
            let due = self.shared.timers.borrow_mut().take_due(now);
            let Some(id) = due else { return Ok(()) };
            self.hook::<()>("fire", (id,))?;
            while self.ctx.execute_pending_job() {}
        }
    }

    fn answer(&self, reply: &Incoming) -> Result<(), Stop<'js>> {
        if !self.shared.calls.borrow_mut().remove(&reply.id) {
            return Ok(());
        }
        let text = match (&reply.value, &reply.error) {
            (Some(value), _) if reply.ok => value.get().to_owned(),
            (_, Some(error)) if !reply.ok => serde_json::to_string(error).unwrap_or_default(),
            _ => "null".to_owned(),
        };
        self.hook("answer", (reply.id, reply.ok, text))
    }

    /// Passes on the outcomes of requests.
    fn settle_fetches(&self) -> Result<(), Stop<'js>> {
        loop {
            let outcome = self.shared.fetches.borrow_mut().take();
            let Some((id, outcome)) = outcome else { return Ok(()) };
            let (ok, text, bytes) = match outcome {
                Ok((head, body)) => (true, serde_json::to_string(&head).unwrap_or_default(), body),
                Err(reason) => (false, reason, Vec::new()),
            };
            let bytes = self.caught(TypedArray::<u8>::new(self.ctx.clone(), bytes))?;
            self.hook::<()>("fetched", (id, ok, text, bytes))?;
            while self.ctx.execute_pending_job() {}
        }
    }

    fn encode(&self, value: Value<'js>, limit: usize) -> Result<Outgoing, Stop<'js>> {
        let (mut result, mut result_truncated) = (serde_json::Value::Null, false);
        if !value.is_undefined() && !value.is_null() {
            let encoded: Object<'js> = self.hook("encode", (value, limit))?;
            let text: String = self.caught(encoded.get("text"))?;
            result_truncated = self.caught(encoded.get("truncated"))?;
            result = serde_json::from_str(&text).unwrap_or_else(|error| format!("<no JSON: {error}>").into());
        }
        Ok(Outgoing::Done { ok: true, exit_code: 0, result, result_truncated, error: None })
    }

    /// Cancels everything that a run has left pending.
    fn settle_down(&self) {
        self.shared.timers.borrow_mut().clear_all();
        self.shared.calls.borrow_mut().clear();
        self.shared.fetches.borrow_mut().clear();
        self.shared.rejections.borrow_mut().clear();
        // These fail if there is no memory, which cannot be helped.
        let _ = self.hook::<()>("forget", ());
        let _ = self.hook::<()>("forgetFetches", ());
        let _ = self.hook::<()>("endRun", ());
        while self.ctx.execute_pending_job() {}
        self.shared.rejections.borrow_mut().clear();
    }

    fn told(&self, stop: Stop<'js>) -> RunFailure {
        match stop {
            Stop::Syntax(failure) => failure,
            Stop::Thrown(thrown) => {
                let mut told = self.thrown(thrown).told(&self.shared.sources.borrow());
                if self.shared.fetches.borrow().has_network() {
                    told.hint = told.hint.filter(|hint| hint != failure::NETWORK_HINT);
                }
                told
            }
            Stop::Stuck => failure::plain(
                "the program awaits something that can never happen",
                Some("a promise is awaited that no timer and no call will ever settle"),
            ),
            Stop::Wire(error) => failure::plain(error.to_string(), None),
        }
    }

    fn thrown(&self, thrown: Value<'js>) -> Thrown {
        let told = self.hook::<String>("explain", (thrown,)).ok();
        told.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(Thrown::out_of_memory)
    }

    fn not_compiled(&self, thrown: Value<'js>) -> Stop<'js> {
        let thrown = self.thrown(thrown);
        if thrown.name != "SyntaxError" {
            return Stop::Syntax(thrown.told(&self.shared.sources.borrow()));
        }
        let mut told = thrown.told(&self.shared.sources.borrow());
        "syntax".clone_into(&mut told.code);
        Stop::Syntax(told)
    }

    fn forget_rejection(&self, promise: &Promise<'js>) {
        let promise = Persistent::save(&self.ctx, promise.clone().into_value());
        self.shared.rejections.borrow_mut().retain(|(known, _)| *known != promise);
    }

    /// Calls a function of the scripts.
    fn hook<T: FromJs<'js>>(&self, name: &str, args: impl rquickjs::function::IntoArgs<'js>) -> Result<T, Stop<'js>> {
        let function: Function<'js> = self.caught(self.hooks.get(name))?;
        self.caught(function.call(args))
    }

    fn caught<T>(&self, result: rquickjs::Result<T>) -> Result<T, Stop<'js>> {
        result.catch(&self.ctx).map_err(|error| match error {
            CaughtError::Exception(exception) => Stop::Thrown(exception.into_value()),
            CaughtError::Value(value) => Stop::Thrown(value),
            CaughtError::Error(error) => Stop::Syntax(failure::plain(error.to_string(), None)),
        })
    }
}

/// A temporary global from which the module `coracle` takes its exports.
const HANDOVER: &str = "__coracle_exports";

/// The exports of the module `coracle`.
const EXPORTS: &str = "call, search_tools, checkpoint, ToolError, MediaFile, save_skill, load_skill, list_skills, search_skills, \
    delete_skill, get_skill, tokenize_pii, detokenize_pii";
