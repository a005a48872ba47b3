//! The modules of one crate target, with what each of them defines, imports and names.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// Index of a module in [`Modules::all`].
pub(super) type ModuleId = usize;

/// A path in the source, and the line it is on.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// One name that a `use` declaration brings into a module.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) path: Named,
    pub(super) binds: Binding,
    /// `pub use`, of any visibility: other modules may name the item through this one.
    pub(super) is_public: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    Name(String),
    /// `use path::*`.
    Glob,
    /// `use path as _`.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    pub(super) parent: Option<ModuleId>,
    pub(super) children: BTreeMap<String, ModuleId>,
    pub(super) items: HashSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of two segments or more outside `use` declarations.
    pub(super) paths: Vec<Named>,
    /// All identifiers outside `use` declarations.
    pub(super) identifiers: HashSet<String>,
}

/// All modules of one target, those in files of their own and those written inline. The first one is the root.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
}

/// The module that is being read, and where the files of its children are.
struct Place<'a> {
    module: ModuleId,
    file: &'a Path,
    /// The folder of `name.rs` for `mod name;`.
    folder: PathBuf,
}

type Tokens = Peekable<IntoIter<TokenTree>>;

impl Modules {
    /// Reads the target whose root module is `file`, such as `src/lib.rs`.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        modules.read_file(file, None, folder)?;
        Ok(modules)
    }

    fn add(&mut self, file: &Path, parent: Option<ModuleId>) -> ModuleId {
        self.all.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: HashSet::new(),
            imports: Vec::new(),
            paths: Vec::new(),
            identifiers: HashSet::new(),
        });
        self.all.len() - 1
    }

    fn read_file(&mut self, file: &Path, parent: Option<ModuleId>, folder: PathBuf) -> Result<ModuleId> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow!("cannot read {} as Rust: {error}", file.display()))?;
        let module = self.add(file, parent);
        self.items(tokens, &Place { module, file, folder })?;
        Ok(module)
    }

    /// Reads what a module consists of.
    fn items(&mut self, tokens: TokenStream, place: &Place<'_>) -> Result<()> {
        let mut tokens = into_tokens(tokens);
        let (mut is_public, mut path) = (false, None);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => match attribute(&mut tokens) {
                    Attribute::Test => skip_item(&mut tokens),
                    Attribute::Path(given) => path = Some(given),
                    Attribute::Other => {}
                },
                TokenTree::Ident(ident) if ident == "pub" => {
                    is_public = true;
                    if is_group(tokens.peek(), Delimiter::Parenthesis) {
                        tokens.next();
                    }
                    // It is about the item that follows.
                    continue;
                }
                TokenTree::Ident(ident) if ident == "use" => self.import(&mut tokens, place.module, is_public),
                TokenTree::Ident(ident) if ident == "mod" => self.child(&mut tokens, place, path.take())?,
                TokenTree::Ident(ident) if DEFINES.contains(&ident.to_string().as_str()) => {
                    if let Some(TokenTree::Ident(name)) = tokens.peek()
                        && !DEFINES.contains(&name.to_string().as_str())
                    {
                        self.all[place.module].items.insert(name.to_string());
                    }
                }
                TokenTree::Ident(ident) if ident == "macro_rules" => {
                    tokens.next();
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        self.all[place.module].items.insert(name.to_string());
                    }
                }
                TokenTree::Ident(ident) => self.name(&ident, &mut tokens, place.module),
                TokenTree::Group(group) => self.body(&group, place.module),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            is_public = false;
        }
        Ok(())
    }

    /// Reads what is not a list of items: bodies, arguments, fields, what is given to macros.
    fn body(&mut self, group: &Group, module: ModuleId) {
        let mut tokens = into_tokens(group.stream());
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if matches!(attribute(&mut tokens), Attribute::Test) {
                        skip_item(&mut tokens);
                    }
                }
                TokenTree::Ident(ident) if ident == "use" && !is_punct(tokens.peek(), '<') => {
                    self.import(&mut tokens, module, false);
                }
                TokenTree::Ident(ident) => self.name(&ident, &mut tokens, module),
                TokenTree::Group(group) => self.body(&group, module),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads a path that begins with `first`.
    fn name(&mut self, first: &Ident, tokens: &mut Tokens, module: ModuleId) {
        let line = first.span().start().line;
        let mut segments = vec![first.to_string()];
        while is_punct(tokens.peek(), ':') {
            let mut ahead = tokens.clone();
            ahead.next();
            if !is_punct(ahead.peek(), ':') {
                break;
            }
            ahead.next();
            let Some(TokenTree::Ident(ident)) = ahead.peek() else { break };
            segments.push(ident.to_string());
            ahead.next();
            *tokens = ahead;
        }
        let module = &mut self.all[module];
        module.identifiers.insert(segments[0].clone());
        if segments.len() > 1 {
            module.paths.push(Named { segments, line });
        }
    }

    /// Reads a `use` declaration up to its semicolon.
    fn import(&mut self, tokens: &mut Tokens, module: ModuleId, is_public: bool) {
        let tree: TokenStream = tokens.by_ref().take_while(|token| !is_punct(Some(token), ';')).collect();
        let mut imports = Vec::new();
        use_tree(tree, &[], &mut imports);
        let imports = imports.into_iter().map(|(path, binds)| Import { path, binds, is_public });
        self.all[module].imports.extend(imports);
    }

    /// Reads `mod name;` or `mod name { … }`.
    fn child(&mut self, tokens: &mut Tokens, place: &Place<'_>, path: Option<String>) -> Result<()> {
        let Some(TokenTree::Ident(name)) = tokens.next() else { return Ok(()) };
        let name = name.to_string();
        let child = if let Some(TokenTree::Group(inline)) = tokens.next() {
            let module = self.add(place.file, Some(place.module));
            let folder = place.folder.join(&name);
            self.items(inline.stream(), &Place { module, file: place.file, folder })?;
            module
        } else if let Some(path) = path {
            let file = place.file.parent().map(|folder| folder.join(&path)).unwrap_or_default();
            let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
            self.read_file(&file, Some(place.module), folder)?
        } else {
            let file = place.folder.join(format!("{name}.rs"));
            self.read_file(&file, Some(place.module), place.folder.join(&name))?
        };
        self.all[place.module].children.insert(name, child);
        Ok(())
    }
}

/// Keywords that are followed by the name of what they define.
const DEFINES: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mut", "unsafe", "async"];

enum Attribute {
    /// `#[cfg(test)]` and `#[test]`: what follows is not part of the crate.
    Test,
    /// `#[path = "…"]`.
    Path(String),
    Other,
}

/// Reads an attribute after its `#`.
fn attribute(tokens: &mut Tokens) -> Attribute {
    if is_punct(tokens.peek(), '!') {
        tokens.next();
    }
    if !is_group(tokens.peek(), Delimiter::Bracket) {
        return Attribute::Other;
    }
    let Some(TokenTree::Group(group)) = tokens.next() else { return Attribute::Other };
    let text: String = group.stream().into_iter().map(|token| token.to_string().replace(' ', "")).collect();
    match text.strip_prefix("path=") {
        Some(path) => Attribute::Path(path.trim_matches('"').to_owned()),
        None if text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,") => Attribute::Test,
        None => Attribute::Other,
    }
}

/// Skips one item, with the attributes that it still has.
fn skip_item(tokens: &mut Tokens) {
    let mut until_semicolon = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                attribute(tokens);
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            TokenTree::Ident(ident) if ["use", "const", "static", "let"].contains(&ident.to_string().as_str()) => {
                // `const fn` ends with its body.
                let is_fn = matches!(tokens.peek(), Some(TokenTree::Ident(next)) if next == "fn");
                until_semicolon = !is_fn;
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !until_semicolon => return,
            _ => {}
        }
    }
}

/// Takes `a::{b, c as d, e::*}` apart.
fn use_tree(tree: TokenStream, before: &[String], imports: &mut Vec<(Named, Binding)>) {
    let mut tokens = into_tokens(tree);
    while tokens.peek().is_some() {
        let mut segments = before.to_vec();
        let (mut line, mut binds, mut is_nested) = (0, None, false);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ',' => break,
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    line = punct.span().start().line;
                    binds = Some(Binding::Glob);
                }
                TokenTree::Ident(ident) if ident == "as" => {
                    binds = match tokens.next() {
                        Some(TokenTree::Ident(name)) if name != "_" => Some(Binding::Name(name.to_string())),
                        _ => Some(Binding::Nothing),
                    };
                }
                // `a::{self}` names `a`.
                TokenTree::Ident(ident) if ident == "self" && !segments.is_empty() => {
                    line = ident.span().start().line;
                }
                TokenTree::Ident(ident) => {
                    line = ident.span().start().line;
                    segments.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    use_tree(group.stream(), &segments, imports);
                    is_nested = true;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if let (false, Some(last)) = (is_nested, segments.last().cloned()) {
            imports.push((Named { segments, line }, binds.unwrap_or(Binding::Name(last))));
        }
    }
}

fn into_tokens(tokens: TokenStream) -> Tokens {
    tokens.into_iter().collect::<Vec<_>>().into_iter().peekable()
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}
