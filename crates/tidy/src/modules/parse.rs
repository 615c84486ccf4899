//! Reading modules off the tokens of their files.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{Import, Module};

/// The words after which a module's item has its name.
const ITEMS: [&str; 10] = [
    "struct", "enum", "union", "trait", "type", "const", "static", "fn", "mod", "mut",
];

#[derive(Default)]
pub(super) struct Parser {
    pub(super) modules: Vec<Module>,
}

/// Where the tokens being read are.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// The module that they belong to.
    module: usize,
    /// The directory where the files of the module's children are.
    children: &'p Path,
    /// Whether they are the module's own items and not the inside of one.
    top: bool,
}

impl Parser {
    /// Reads the root of a crate with all its modules.
    pub(super) fn file(&mut self, root: &Path) -> Result<(), String> {
        self.modules.push(Module::default());
        self.read(root, root.parent().unwrap_or(root), 0)
    }

    fn read(&mut self, file: &Path, children: &Path, module: usize) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| says(file, &error))?;
        let stream: TokenStream = text.parse().map_err(|error| says(file, &error))?;
        self.stream(
            stream,
            Place {
                module,
                children,
                top: true,
            },
        )
    }

    fn stream(&mut self, stream: TokenStream, place: Place<'_>) -> Result<(), String> {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.token(&tokens, at, place)?;
        }
        Ok(())
    }

    /// Reads what begins with a token, and says where the next begins.
    fn token(
        &mut self,
        tokens: &[TokenTree],
        at: usize,
        place: Place<'_>,
    ) -> Result<usize, String> {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let Some(TokenTree::Group(group)) = tokens.get(at + 1) else {
                    return Ok(at + 1);
                };
                Ok(if is_for_tests(group) {
                    after_item(tokens, at + 2)
                } else {
                    at + 2
                })
            }
            TokenTree::Group(group) => {
                self.stream(
                    group.stream(),
                    Place {
                        top: false,
                        ..place
                    },
                )?;
                Ok(at + 1)
            }
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "use" if !is_punct(tokens.get(at + 1), '<') => {
                    let end = at + tokens[at..].iter().take_while(|token| !ends(token)).count();
                    let public = at > 0 && is_public(&tokens[..at]);
                    let imports = &mut self.modules[place.module].imports;
                    use_tree(&tokens[at + 1..end], &[], public, imports);
                    Ok(end + 1)
                }
                "mod" if place.top => self.module(tokens, at, place),
                word => Ok(self.word(word, tokens, at, place)),
            },
            _ => Ok(at + 1),
        }
    }

    /// A `mod` declaration, with or without a body.
    fn module(
        &mut self,
        tokens: &[TokenTree],
        at: usize,
        place: Place<'_>,
    ) -> Result<usize, String> {
        let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else {
            return Ok(at + 1);
        };
        let name = name.to_string();
        let child = self.modules.len();
        let parent = &mut self.modules[place.module];
        let path = match parent.path.as_str() {
            "" => name.clone(),
            path => format!("{path}::{name}"),
        };
        parent.children.insert(name.clone(), child);
        let own_file = !matches!(tokens.get(at + 2), Some(TokenTree::Group(_)));
        let owner = if own_file { child } else { parent.owner };
        self.modules.push(Module {
            path,
            parent: place.module,
            owner,
            ..Module::default()
        });
        let children = place.children.join(&name);
        if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
            self.stream(
                body.stream(),
                Place {
                    module: child,
                    children: &children,
                    top: true,
                },
            )?;
        } else {
            self.read(&file_of(place.children, &name), &children, child)?;
        }
        Ok(at + 3)
    }

    /// Any other word: a name, the word before an item's name, or the first of a path.
    fn word(&mut self, word: &str, tokens: &[TokenTree], at: usize, place: Place<'_>) -> usize {
        let module = &mut self.modules[place.module];
        module.words.insert(word.to_owned());
        if place.top {
            // `macro_rules! name`
            let name = if word == "macro_rules" {
                tokens.get(at + 2)
            } else {
                tokens.get(at + 1)
            };
            if let Some(TokenTree::Ident(name)) = name
                && (ITEMS.contains(&word) || word == "macro_rules")
            {
                module.items.insert(name.to_string());
            }
        }
        let mut path = vec![word.to_owned()];
        let mut next = at + 1;
        while is_path_separator(tokens, next)
            && let Some(TokenTree::Ident(name)) = tokens.get(next + 2)
        {
            path.push(name.to_string());
            next += 3;
        }
        // What comes after a separator continues a path that begins with something else.
        let goes_on = at >= 2 && is_path_separator(tokens, at - 2);
        if path.len() > 1 && !goes_on {
            module.words.extend(path.iter().cloned());
            module.paths.insert(path);
        }
        next
    }
}

fn says(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    let file = directory.join(format!("{name}.rs"));
    if file.is_file() {
        file
    } else {
        directory.join(name).join("mod.rs")
    }
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn ends(token: &TokenTree) -> bool {
    is_punct(Some(token), ';')
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

/// Whether the tokens end with `pub` or `pub(…)`.
fn is_public(tokens: &[TokenTree]) -> bool {
    let word = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "pub");
    match tokens {
        [.., before, TokenTree::Group(group)] => {
            group.delimiter() == Delimiter::Parenthesis && word(before)
        }
        [.., last] => word(last),
        [] => false,
    }
}

/// Whether an attribute keeps its item for tests.
fn is_for_tests(attribute: &Group) -> bool {
    let mut text = attribute.stream().to_string();
    text.retain(|character| !character.is_whitespace());
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Where the item that begins at `at` is over.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let inside = tokens[at.min(tokens.len())..].iter().take_while(|token| {
        let body =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        !body && !ends(token)
    });
    at + inside.count() + 1
}

/// Takes the imports of a `use` declaration, or of a part of one behind `prefix`.
fn use_tree(tokens: &[TokenTree], prefix: &[String], public: bool, imports: &mut Vec<Import>) {
    for tree in tokens.split(|token| is_punct(Some(token), ',')) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut renamed = false;
        for token in tree {
            match token {
                TokenTree::Ident(word) if *word == "as" => renamed = true,
                TokenTree::Ident(word) if renamed => name = Some(word.to_string()),
                TokenTree::Ident(word) if *word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    use_tree(&inner, &path, public, imports);
                    path.clear();
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    imports.push(Import {
                        path: std::mem::take(&mut path),
                        name: None,
                        public,
                    });
                }
                _ => {}
            }
        }
        if let Some(last) = path.last() {
            let name = name.or_else(|| Some(last.clone()));
            imports.push(Import { path, name, public });
        }
    }
}
