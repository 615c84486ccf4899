//! Which module of a crate uses which, and the circles among them.
//!
//! A module here is a file of `src/`; modules written inside a file belong to it. Module A uses
//! module B if a path in A names something that is defined in B: re-exports are followed to the
//! definition, and do not count as a use by the module that re-exports. A module and what is inside
//! of it are one subject, so that either may use the other. Tests do not count.
//!
//! Paths are read off the tokens, so names that a macro makes are not seen: a path that cannot be
//! followed counts as a use of the last module that it goes through.

mod parse;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parse::Parser;

/// A module: a file, or part of one.
#[derive(Debug, Default)]
struct Module {
    /// Its path in the crate, as `a::b`. Empty for the root.
    path: String,
    /// The module around it. The root has itself.
    parent: usize,
    /// The module whose file it is in: itself, if it has one of its own.
    owner: usize,
    /// The modules in it.
    children: BTreeMap<String, usize>,
    /// The names that it defines.
    items: BTreeSet<String>,
    /// What its `use` declarations name.
    imports: Vec<Import>,
    /// All other paths of at least two names.
    paths: BTreeSet<Vec<String>>,
    /// Every name outside of `use` declarations.
    words: BTreeSet<String>,
}

/// One name that a `use` declaration brings in, or a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    /// Where it comes from, as written.
    path: Vec<String>,
    /// The name that it has here; `None` for a glob.
    name: Option<String>,
    /// Whether it is visible outside of the module.
    public: bool,
}

/// The modules of one crate.
#[derive(Debug)]
pub struct Modules {
    modules: Vec<Module>,
}

/// Modules of which each uses each other, directly or through others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// Their paths in the crate, ordered. The root of the crate is `crate`.
    pub members: Vec<String>,
    /// Which of them uses which, and the first path that says so.
    pub uses: Vec<(String, String, String)>,
}

impl Modules {
    /// Reads the modules of the crate whose root is the file `root`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not made of Rust's tokens. The text names it.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut parser = Parser::default();
        parser.file(root)?;
        Ok(Self {
            modules: parser.modules,
        })
    }

    /// How many modules have a file.
    #[must_use]
    pub fn files(&self) -> usize {
        self.modules
            .iter()
            .enumerate()
            .filter(|(at, module)| module.owner == *at)
            .count()
    }

    /// The circles among the modules, the largest first.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let uses = self.uses();
        let reach: Vec<BTreeSet<usize>> = (0..self.modules.len())
            .map(|from| reachable(&uses, from))
            .collect();
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut circles = Vec::new();
        for from in 0..self.modules.len() {
            if !reach[from].contains(&from) || done.contains(&from) {
                continue;
            }
            let members: BTreeSet<usize> = reach[from]
                .iter()
                .copied()
                .filter(|&to| reach[to].contains(&from))
                .collect();
            done.extend(&members);
            circles.push(self.circle(&members, &uses));
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.members.len()));
        circles
    }

    fn circle(&self, members: &BTreeSet<usize>, uses: &Uses) -> Circle {
        let mut names: Vec<String> = members.iter().map(|&member| self.name(member)).collect();
        names.sort();
        let inner = uses
            .iter()
            .filter(|((from, to), _)| members.contains(from) && members.contains(to));
        let uses = inner
            .map(|(&(from, to), path)| (self.name(from), self.name(to), path.join("::")))
            .collect();
        Circle {
            members: names,
            uses,
        }
    }

    fn name(&self, module: usize) -> String {
        match self.modules[module].path.as_str() {
            "" => "crate".to_owned(),
            path => path.to_owned(),
        }
    }
}

/// Which module uses which, with a path that says so.
type Uses = BTreeMap<(usize, usize), Vec<String>>;

/// What can be reached from a module in one step or more.
fn reachable(uses: &Uses, from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for (&(_, to), _) in uses.range((next, 0)..=(next, usize::MAX)) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}
