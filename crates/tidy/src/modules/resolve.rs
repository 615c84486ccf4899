//! Following paths to the modules that define what they name.

use std::collections::BTreeSet;

use super::{Import, Module, Modules, Uses};

/// Where a name leads, seen from a module.
enum Found {
    /// It is defined in this module, or is this module.
    In(usize),
    /// It comes from another crate.
    Outside,
    /// Nothing says where it comes from.
    Unknown,
}

impl Found {
    /// The module, or `last` where nothing is known.
    fn or(self, last: usize) -> Option<usize> {
        match self {
            Self::In(module) => Some(module),
            Self::Outside => None,
            Self::Unknown => Some(last),
        }
    }
}

impl Modules {
    /// Which file uses which.
    pub(super) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (at, module) in self.modules.iter().enumerate() {
            for import in &module.imports {
                if let Some(to) = self.use_of_import(at, import) {
                    self.note(&mut uses, at, to, &import.path);
                }
            }
            for path in &module.paths {
                if let Some(to) = self.target(at, path, true) {
                    self.note(&mut uses, at, to, path);
                }
            }
        }
        uses
    }

    fn note(&self, uses: &mut Uses, from: usize, to: usize, path: &[String]) {
        let (from, to) = (self.modules[from].owner, self.modules[to].owner);
        let (one, other) = (&self.modules[from].path, &self.modules[to].path);
        if from != to && !is_within(one, other) && !is_within(other, one) {
            uses.entry((from, to)).or_insert_with(|| path.to_vec());
        }
    }

    /// The module that an import uses. The name of a module alone is no use: the paths that begin
    /// with it are. A re-export is one where its name is also used in the module itself.
    fn use_of_import(&self, at: usize, import: &Import) -> Option<usize> {
        if let Some(name) = &import.name {
            if import.public && !self.modules[at].words.contains(name) {
                return None;
            }
            let (module, rest) = self.walk(at, &import.path)?;
            if rest.is_empty() && module != at {
                return None;
            }
        } else if import.public {
            return None;
        }
        self.target(at, &import.path, false)
    }

    /// The module that defines what a path in the module `at` names, if it is one of this crate.
    fn target(&self, at: usize, path: &[String], through_imports: bool) -> Option<usize> {
        if let Some((module, rest)) = self.walk(at, path) {
            return self.find(module, rest, &mut BTreeSet::new()).or(module);
        }
        // A path that begins with an imported name, which is that of a module.
        let first = path.first().filter(|_| through_imports)?;
        let mut imports = self.modules[at].imports.iter();
        let import = imports.find(|import| import.name.as_ref() == Some(first))?;
        let (module, rest) = self.walk(at, &import.path)?;
        let whole: Vec<String> = rest.iter().chain(&path[1..]).cloned().collect();
        self.find(module, &whole, &mut BTreeSet::new()).or(module)
    }

    /// Goes along a path as far as it names modules. `None` if it does not begin in this crate.
    fn walk<'p>(&self, at: usize, path: &'p [String]) -> Option<(usize, &'p [String])> {
        let mut module = at;
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                module = 0;
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    module = self.modules[module].parent;
                    rest = &rest[1..];
                }
            }
            first => {
                self.modules[at].children.get(first)?;
            }
        }
        while let Some(&child) = rest
            .first()
            .and_then(|name| self.modules[module].children.get(name))
        {
            module = child;
            rest = &rest[1..];
        }
        Some((module, rest))
    }

    /// Where the first name of `rest` is defined, seen from a module that it is no child of.
    fn find(&self, at: usize, rest: &[String], seen: &mut BTreeSet<(usize, String)>) -> Found {
        let Some(name) = rest.first() else {
            return Found::In(at);
        };
        let module = &self.modules[at];
        if module.items.contains(name) {
            return Found::In(at);
        }
        if !seen.insert((at, name.clone())) {
            return Found::Unknown;
        }
        if let Some(import) = named(module, name) {
            let path: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
            return match self.walk(at, &path) {
                Some((next, rest)) => self.find(next, rest, seen),
                None => Found::Outside,
            };
        }
        for glob in module.imports.iter().filter(|import| import.name.is_none()) {
            if let Some((next, inner)) = self.walk(at, &glob.path)
                && inner.is_empty()
            {
                let (next, rest) = self.descend(next, rest);
                if let Found::In(module) = self.find(next, rest, seen) {
                    return Found::In(module);
                }
            }
        }
        Found::Unknown
    }

    fn descend<'p>(&self, mut at: usize, mut rest: &'p [String]) -> (usize, &'p [String]) {
        while let Some(&child) = rest
            .first()
            .and_then(|name| self.modules[at].children.get(name))
        {
            at = child;
            rest = &rest[1..];
        }
        (at, rest)
    }
}

/// Whether a module is in another one, or in one of that.
fn is_within(inner: &str, outer: &str) -> bool {
    outer.is_empty()
        || inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.starts_with("::"))
}

fn named<'m>(module: &'m Module, name: &str) -> Option<&'m Import> {
    module
        .imports
        .iter()
        .find(|import| import.name.as_deref() == Some(name))
}
