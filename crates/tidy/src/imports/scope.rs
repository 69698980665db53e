//! Finds the module that defines a name, as the compiler would: children, items, imports, globs.

use super::modules::{ModuleId, Modules};

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(ModuleId),
    /// The module that defines it, and its name there.
    Item(ModuleId, String),
}

/// Imports that are being followed, so that two globs of each other end.
type Trail = Vec<(ModuleId, String)>;

impl Modules {
    /// Nothing for paths into other crates.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> Option<Target> {
        self.follow(from, path, &mut Vec::new())
    }

    fn follow(&self, from: ModuleId, path: &[String], trail: &mut Trail) -> Option<Target> {
        let mut target = Target::Module(from);
        for (at, name) in path.iter().enumerate() {
            let Target::Module(module) = target else { break };
            let is_last = at + 1 == path.len();
            target = match name.as_str() {
                "crate" => Target::Module(0),
                "self" => Target::Module(module),
                "super" => Target::Module(self.all[module].parent?),
                // A first name that is not in scope is that of a crate or of the prelude.
                name if at == 0 => self.lookup(module, name, is_last, trail)?,
                // The reader does not expand macros; their items belong to the module too.
                name => self
                    .lookup(module, name, is_last, trail)
                    .unwrap_or_else(|| Target::Item(module, name.to_owned())),
            };
        }
        Some(target)
    }

    /// A name in the scope of a module. A module and an item may share a name: a path that goes on
    /// means the module, one that ends the item.
    fn lookup(
        &self,
        module: ModuleId,
        name: &str,
        is_last: bool,
        trail: &mut Trail,
    ) -> Option<Target> {
        let step = (module, name.to_owned());
        if trail.contains(&step) {
            return None;
        }
        let scope = &self.all[module];
        let child = scope.children.get(name).map(|child| Target::Module(*child));
        let item = || {
            let is_item = scope.items.contains(name);
            is_item.then(|| Target::Item(module, name.to_owned()))
        };
        let found = if is_last { item().or(child) } else { child.or_else(item) };
        if found.is_some() {
            return found;
        }
        trail.push(step);
        let found = self.imported(module, name, trail);
        trail.pop();
        found
    }

    fn imported(&self, module: ModuleId, name: &str, trail: &mut Trail) -> Option<Target> {
        let imports = &self.all[module].imports;
        let named = imports.iter().filter(|import| import.name.as_deref() == Some(name));
        for import in named {
            let found = self.follow(module, &import.path, trail);
            if found.is_some() {
                return found;
            }
        }
        for import in imports.iter().filter(|import| import.name.is_none()) {
            if let Some(Target::Module(other)) = self.follow(module, &import.path, trail)
                && other != module
                && let Some(found) = self.lookup(other, name, true, trail)
            {
                return Some(found);
            }
        }
        let exported = self.exported_macros.get(name).filter(|_| module == 0);
        exported.map(|owner| Target::Item(*owner, name.to_owned()))
    }
}
