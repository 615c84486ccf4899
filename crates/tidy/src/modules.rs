//! The uses between the modules of a crate, and the cycles among them.
//!
//! A module here is a file of `src/`; inline modules belong to the module of their file. Module A uses module B if a
//! path in A names something that is defined in B. Re-exports are followed to the definition; the module that
//! re-exports an item does not count as a user of it. A module and its descendants may use each other. Tests are
//! ignored.
//!
//! Paths are read from tokens, so names that a macro generates are not seen. A path that cannot be
//! resolved to a definition is a use of the last module that it names.

mod parse;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parse::Parser;

/// A module: a file, or part of one.
#[derive(Debug, Default)]
struct Module {
    /// The path in the crate, such as `a::b`; empty for the root.
    path: String,
    /// The parent module; of the root, the root itself.
    parent: usize,
    /// The module whose file has its code: itself, unless it is an inline module.
    file_module: usize,
    /// The child modules by name.
    children: BTreeMap<String, usize>,
    /// The names of the items that the module defines.
    items: BTreeSet<String>,
    /// The imports of its `use` declarations.
    imports: Vec<Import>,
    /// All other paths with at least two names.
    paths: BTreeSet<Vec<String>>,
    /// All names outside of `use` declarations.
    words: BTreeSet<String>,
}

/// A name, or a glob, that a `use` declaration imports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    /// The path as written.
    path: Vec<String>,
    /// The name in the importing module; `None` for a glob.
    name: Option<String>,
    /// Whether the name is visible outside of the importing module: a re-export.
    is_public: bool,
}

/// The modules of one crate.
#[derive(Debug)]
pub struct Modules {
    modules: Vec<Module>,
}

/// Modules each of which uses all the other ones, directly or through further modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The paths of the modules in the crate, sorted. The root is `crate`.
    pub members: Vec<String>,
    /// The uses between the members: the using module, the used one, and the first path that is a use.
    pub uses: Vec<(String, String, String)>,
}

impl Modules {
    /// Reads the modules of the crate whose root is the file `root`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or cannot be split into Rust tokens. The text names it.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut parser = Parser::default();
        parser.parse_crate(root)?;
        Ok(Self {
            modules: parser.modules,
        })
    }

    /// The number of modules that have a file.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.modules
            .iter()
            .enumerate()
            .filter(|(index, module)| module.file_module == *index)
            .count()
    }

    /// The cycles among the modules, the largest first.
    #[must_use]
    pub fn cycles(&self) -> Vec<Cycle> {
        let uses = self.uses();
        let reachable_from: Vec<BTreeSet<usize>> = (0..self.modules.len())
            .map(|start| reachable_modules(&uses, start))
            .collect();
        let mut assigned: BTreeSet<usize> = BTreeSet::new();
        let mut cycles = Vec::new();
        for start in 0..self.modules.len() {
            if !reachable_from[start].contains(&start) || assigned.contains(&start) {
                continue;
            }
            let members: BTreeSet<usize> = reachable_from[start]
                .iter()
                .copied()
                .filter(|&target| reachable_from[target].contains(&start))
                .collect();
            assigned.extend(&members);
            cycles.push(self.cycle(&members, &uses));
        }
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.members.len()));
        cycles
    }

    fn cycle(&self, members: &BTreeSet<usize>, uses: &ModuleUses) -> Cycle {
        let mut names: Vec<String> = members.iter().map(|&member| self.name(member)).collect();
        names.sort();
        let cycle_uses = uses
            .iter()
            .filter(|((start, target), _)| members.contains(start) && members.contains(target));
        let uses = cycle_uses
            .map(|(&(start, target), path)| (self.name(start), self.name(target), path.join("::")))
            .collect();
        Cycle {
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

/// The uses between modules by their indexes, with a path that is a use.
type ModuleUses = BTreeMap<(usize, usize), Vec<String>>;

/// The modules that a module uses, directly or through others.
fn reachable_modules(uses: &ModuleUses, start: usize) -> BTreeSet<usize> {
    let mut reachable = BTreeSet::new();
    let mut pending = vec![start];
    while let Some(module) = pending.pop() {
        for (&(_, target), _) in uses.range((module, 0)..=(module, usize::MAX)) {
            if reachable.insert(target) {
                pending.push(target);
            }
        }
    }
    reachable
}
