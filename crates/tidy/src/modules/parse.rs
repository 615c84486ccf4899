//! Reads modules from the tokens of their files.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{Import, Module};

/// The keywords after which the name of an item follows; `mut` because of `static mut NAME`.
const ITEM_KEYWORDS: [&str; 10] = [
    "struct", "enum", "union", "trait", "type", "const", "static", "fn", "mod", "mut",
];

/// Collects the modules of one crate. The first one is the root.
#[derive(Default)]
pub(super) struct Parser {
    pub(super) modules: Vec<Module>,
}

/// The context of the tokens that are being read.
#[derive(Clone, Copy)]
struct ParseContext<'p> {
    /// The module to which the tokens belong.
    module: usize,
    /// The directory with the files of the module's children.
    children: &'p Path,
    /// Whether the tokens are items of the module, and not the inside of an item.
    is_top_level: bool,
}

impl Parser {
    /// Reads the root of a crate with all its modules.
    pub(super) fn parse_crate(&mut self, root: &Path) -> Result<(), String> {
        self.modules.push(Module::default());
        self.parse_file(root, root.parent().unwrap_or(root), 0)
    }

    fn parse_file(&mut self, file: &Path, children: &Path, module: usize) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| with_path(file, &error))?;
        let stream: TokenStream = text.parse().map_err(|error| with_path(file, &error))?;
        self.parse_stream(
            stream,
            ParseContext {
                module,
                children,
                is_top_level: true,
            },
        )
    }

    fn parse_stream(
        &mut self,
        stream: TokenStream,
        context: ParseContext<'_>,
    ) -> Result<(), String> {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            index = self.parse_token(&tokens, index, context)?;
        }
        Ok(())
    }

    /// Reads the token at an index, with the tokens that belong to it. Returns the index of the next token.
    fn parse_token(
        &mut self,
        tokens: &[TokenTree],
        index: usize,
        context: ParseContext<'_>,
    ) -> Result<usize, String> {
        match &tokens[index] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let Some(TokenTree::Group(group)) = tokens.get(index + 1) else {
                    return Ok(index + 1);
                };
                Ok(if is_test_only(group) {
                    end_of_item(tokens, index + 2)
                } else {
                    index + 2
                })
            }
            TokenTree::Group(group) => {
                self.parse_stream(
                    group.stream(),
                    ParseContext {
                        is_top_level: false,
                        ..context
                    },
                )?;
                Ok(index + 1)
            }
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                // `use<…>` lists captured generic parameters, and imports nothing.
                "use" if !is_punct(tokens.get(index + 1), '<') => {
                    let end = index
                        + tokens[index..]
                            .iter()
                            .take_while(|token| !is_semicolon(token))
                            .count();
                    let is_public_import = index > 0 && is_public(&tokens[..index]);
                    let imports = &mut self.modules[context.module].imports;
                    parse_use_tree(&tokens[index + 1..end], &[], is_public_import, imports);
                    Ok(end + 1)
                }
                "mod" if context.is_top_level => self.parse_module(tokens, index, context),
                word => Ok(self.parse_word(word, tokens, index, context)),
            },
            _ => Ok(index + 1),
        }
    }

    /// Reads a `mod` declaration, with or without a body.
    fn parse_module(
        &mut self,
        tokens: &[TokenTree],
        index: usize,
        context: ParseContext<'_>,
    ) -> Result<usize, String> {
        let Some(TokenTree::Ident(name)) = tokens.get(index + 1) else {
            return Ok(index + 1);
        };
        let name = name.to_string();
        let child = self.modules.len();
        let parent = &mut self.modules[context.module];
        let path = match parent.path.as_str() {
            "" => name.clone(),
            path => format!("{path}::{name}"),
        };
        parent.children.insert(name.clone(), child);
        let has_file = !matches!(tokens.get(index + 2), Some(TokenTree::Group(_)));
        // An inline module is in the file of its parent; a module without a body has a file of its own.
        let file_module = if has_file { child } else { parent.file_module };
        self.modules.push(Module {
            path,
            parent: context.module,
            file_module,
            ..Module::default()
        });
        let children = context.children.join(&name);
        if let Some(TokenTree::Group(body)) = tokens.get(index + 2) {
            self.parse_stream(
                body.stream(),
                ParseContext {
                    module: child,
                    children: &children,
                    is_top_level: true,
                },
            )?;
        } else {
            self.parse_file(&path_of_module(context.children, &name), &children, child)?;
        }
        Ok(index + 3)
    }

    /// Reads any other word: a name, the keyword of an item, or the first name of a path, with the rest of the path.
    /// Returns the index of the next token.
    fn parse_word(
        &mut self,
        word: &str,
        tokens: &[TokenTree],
        index: usize,
        context: ParseContext<'_>,
    ) -> usize {
        let module = &mut self.modules[context.module];
        module.words.insert(word.to_owned());
        if context.is_top_level {
            // `macro_rules! name`
            let name = if word == "macro_rules" {
                tokens.get(index + 2)
            } else {
                tokens.get(index + 1)
            };
            if let Some(TokenTree::Ident(name)) = name
                && (ITEM_KEYWORDS.contains(&word) || word == "macro_rules")
            {
                module.items.insert(name.to_string());
            }
        }
        let mut path = vec![word.to_owned()];
        let mut next = index + 1;
        while is_path_separator(tokens, next)
            && let Some(TokenTree::Ident(name)) = tokens.get(next + 2)
        {
            path.push(name.to_string());
            next += 3;
        }
        // A name after a separator continues a path that does not begin with a name, such as `<T>::name`.
        let is_continuation = index >= 2 && is_path_separator(tokens, index - 2);
        if path.len() > 1 && !is_continuation {
            module.words.extend(path.iter().cloned());
            module.paths.insert(path);
        }
        next
    }
}

fn with_path(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn path_of_module(directory: &Path, name: &str) -> PathBuf {
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

fn is_semicolon(token: &TokenTree) -> bool {
    is_punct(Some(token), ';')
}

fn is_path_separator(tokens: &[TokenTree], index: usize) -> bool {
    is_punct(tokens.get(index), ':') && is_punct(tokens.get(index + 1), ':')
}

/// Whether the tokens end with `pub` or `pub(…)`.
fn is_public(tokens: &[TokenTree]) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "pub");
    match tokens {
        [.., previous, TokenTree::Group(group)] => {
            group.delimiter() == Delimiter::Parenthesis && is_pub(previous)
        }
        [.., last] => is_pub(last),
        [] => false,
    }
}

/// Whether an attribute limits its item to tests.
fn is_test_only(attribute: &Group) -> bool {
    let mut text = attribute.stream().to_string();
    text.retain(|character| !character.is_whitespace());
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The index after the item that begins at `index`.
fn end_of_item(tokens: &[TokenTree], index: usize) -> usize {
    let inside = tokens[index.min(tokens.len())..]
        .iter()
        .take_while(|token| {
            let is_body =
                matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
            !is_body && !is_semicolon(token)
        });
    index + inside.count() + 1
}

/// Appends the imports of a `use` declaration, or of a part of one with the path `prefix`.
fn parse_use_tree(
    tokens: &[TokenTree],
    prefix: &[String],
    is_public_import: bool,
    imports: &mut Vec<Import>,
) {
    for tree in tokens.split(|token| is_punct(Some(token), ',')) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut is_renamed = false;
        for token in tree {
            match token {
                TokenTree::Ident(word) if *word == "as" => is_renamed = true,
                TokenTree::Ident(word) if is_renamed => name = Some(word.to_string()),
                TokenTree::Ident(word) if *word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let group_tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                    parse_use_tree(&group_tokens, &path, is_public_import, imports);
                    path.clear();
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    imports.push(Import {
                        path: std::mem::take(&mut path),
                        name: None,
                        is_public: is_public_import,
                    });
                }
                _ => {}
            }
        }
        if let Some(last) = path.last() {
            let name = name.or_else(|| Some(last.clone()));
            imports.push(Import {
                path,
                name,
                is_public: is_public_import,
            });
        }
    }
}
