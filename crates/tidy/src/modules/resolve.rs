//! Resolves paths to the modules that define the named items.

use std::collections::BTreeSet;

use super::{Import, Module, ModuleUses, Modules};

/// Where a name is defined.
enum Definition {
    /// In this module, or the name is that of this module.
    Module(usize),
    /// In another crate, which is not followed.
    OtherCrate,
    /// No item or import with this name was found.
    Unresolved,
}

impl Definition {
    /// The module of this crate, or `last` if the name was not resolved.
    fn module_or(self, last: usize) -> Option<usize> {
        match self {
            Self::Module(module) => Some(module),
            Self::OtherCrate => None,
            Self::Unresolved => Some(last),
        }
    }
}

impl Modules {
    /// All uses between modules with files.
    pub(super) fn uses(&self) -> ModuleUses {
        let mut uses = ModuleUses::new();
        for (from, module) in self.modules.iter().enumerate() {
            for import in &module.imports {
                if let Some(to) = self.use_of_import(from, import) {
                    self.add_use(&mut uses, from, to, &import.path);
                }
            }
            for path in &module.paths {
                if let Some(to) = self.resolve(from, path) {
                    self.add_use(&mut uses, from, to, path);
                }
            }
        }
        uses
    }

    /// Records a use between the files of two modules, unless one module is within the other.
    fn add_use(&self, uses: &mut ModuleUses, from: usize, to: usize, path: &[String]) {
        let (from, to) = (self.modules[from].file_module, self.modules[to].file_module);
        let (from_path, to_path) = (&self.modules[from].path, &self.modules[to].path);
        if from != to && !is_within(from_path, to_path) && !is_within(to_path, from_path) {
            uses.entry((from, to)).or_insert_with(|| path.to_vec());
        }
    }

    /// The module that an import uses; `None` if the import does not count as a use. The import of a module does not:
    /// only the paths that begin with the module's name are uses. A re-export does only if its name is also used in the
    /// module that re-exports it.
    fn use_of_import(&self, from: usize, import: &Import) -> Option<usize> {
        if let Some(name) = &import.name {
            if import.is_public && !self.modules[from].words.contains(name) {
                return None;
            }
            let (module, remaining) = self.follow_modules(from, &import.path)?;
            if remaining.is_empty() && module != from {
                return None;
            }
        } else if import.is_public {
            return None;
        }
        self.resolve_without_imports(from, &import.path)
    }

    /// The module that defines an item. The item is named by a path in the module `from`. `None` if another crate
    /// defines it.
    fn resolve(&self, from: usize, path: &[String]) -> Option<usize> {
        if self.follow_modules(from, path).is_some() {
            return self.resolve_without_imports(from, path);
        }
        // The path may begin with the imported name of a module.
        let first = path.first()?;
        let mut imports = self.modules[from].imports.iter();
        let import = imports.find(|import| import.name.as_ref() == Some(first))?;
        let (module, remaining) = self.follow_modules(from, &import.path)?;
        let full_path: Vec<String> = remaining.iter().chain(&path[1..]).cloned().collect();
        self.find_definition(module, &full_path, &mut BTreeSet::new())
            .module_or(module)
    }

    /// As [`Self::resolve`], for a path that does not begin with an imported name.
    fn resolve_without_imports(&self, from: usize, path: &[String]) -> Option<usize> {
        let (module, remaining) = self.follow_modules(from, path)?;
        self.find_definition(module, remaining, &mut BTreeSet::new())
            .module_or(module)
    }

    /// Follows a path as far as it names modules: the last module, and the remaining path. `None` if the path begins
    /// with neither `crate`, `self` or `super` nor a child module of `from`.
    fn follow_modules<'p>(&self, from: usize, path: &'p [String]) -> Option<(usize, &'p [String])> {
        let mut module = from;
        let mut remaining = path;
        match path.first()?.as_str() {
            "crate" => {
                module = 0;
                remaining = &remaining[1..];
            }
            "self" => remaining = &remaining[1..],
            "super" => {
                while remaining.first().is_some_and(|name| name == "super") {
                    module = self.modules[module].parent;
                    remaining = &remaining[1..];
                }
            }
            first => {
                self.modules[from].children.get(first)?;
            }
        }
        while let Some(&child) = remaining
            .first()
            .and_then(|name| self.modules[module].children.get(name))
        {
            module = child;
            remaining = &remaining[1..];
        }
        Some((module, remaining))
    }

    /// Where the first name of `remaining` is defined, seen from the module `from`. The name is not that of a
    /// child module. `visited` has the names that are already being looked up, so that imports in a circle end.
    fn find_definition(
        &self,
        from: usize,
        remaining: &[String],
        visited: &mut BTreeSet<(usize, String)>,
    ) -> Definition {
        let Some(name) = remaining.first() else {
            return Definition::Module(from);
        };
        let module = &self.modules[from];
        if module.items.contains(name) {
            return Definition::Module(from);
        }
        if !visited.insert((from, name.clone())) {
            return Definition::Unresolved;
        }
        if let Some(import) = import_of(module, name) {
            let path: Vec<String> = import.path.iter().chain(&remaining[1..]).cloned().collect();
            return match self.follow_modules(from, &path) {
                Some((next, remaining)) => self.find_definition(next, remaining, visited),
                None => Definition::OtherCrate,
            };
        }
        for glob in module.imports.iter().filter(|import| import.name.is_none()) {
            if let Some((next, inner)) = self.follow_modules(from, &glob.path)
                && inner.is_empty()
            {
                let (next, remaining) = self.follow_children(next, remaining);
                if let Definition::Module(module) = self.find_definition(next, remaining, visited) {
                    return Definition::Module(module);
                }
            }
        }
        Definition::Unresolved
    }

    /// Follows a path from a module as far as it names child modules: the last module, and the remaining path.
    fn follow_children<'p>(
        &self,
        mut from: usize,
        mut remaining: &'p [String],
    ) -> (usize, &'p [String]) {
        while let Some(&child) = remaining
            .first()
            .and_then(|name| self.modules[from].children.get(name))
        {
            from = child;
            remaining = &remaining[1..];
        }
        (from, remaining)
    }
}

/// Whether a module is a descendant of another one.
fn is_within(inner: &str, outer: &str) -> bool {
    outer.is_empty()
        || inner
            .strip_prefix(outer)
            .is_some_and(|remaining| remaining.starts_with("::"))
}

fn import_of<'m>(module: &'m Module, name: &str) -> Option<&'m Import> {
    module
        .imports
        .iter()
        .find(|import| import.name.as_deref() == Some(name))
}
