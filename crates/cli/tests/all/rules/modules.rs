//! The modules of a crate, as files, and which of them names what of which other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A module's name from the root of its crate: `["core", "reply"]`; the root's is empty.
pub(crate) type Module = Vec<String>;

/// A crate as its files have it, without tests.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    /// Every module that has a file of its own.
    files: BTreeMap<Module, File>,
}

#[derive(Debug, Default)]
struct File {
    path: PathBuf,
    /// Names that `use` brings in, and the path that each stands for.
    imports: BTreeMap<String, Vec<String>>,
    /// Every path that is named, imports included, from the crate's root where it is of this crate.
    named: BTreeSet<Vec<String>>,
    /// Every type, trait, function, constant, field, variant and module that is defined here.
    defined: BTreeSet<String>,
    /// Of these, types and traits that others may name.
    shared: BTreeSet<String>,
    /// Public functions, and errors of conversions, whose error is a text.
    text_errors: BTreeSet<String>,
}

impl Crate {
    /// Reads the crate in `folder`, from `src/lib.rs` or `src/main.rs` on.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut found = Self::default();
        for root in ["src/lib.rs", "src/main.rs"] {
            let root = folder.join(root);
            if root.exists() {
                found.read_file(Vec::new(), root);
            }
        }
        found
    }

    fn read_file(&mut self, module: Module, path: PathBuf) {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut reader = Reader {
            module: module.clone(),
            inside: Vec::new(),
            file: File::default(),
            children: Vec::new(),
            passes_on: false,
        };
        reader.visit_file(&syntax);
        let Reader { mut file, children, .. } = reader;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let parent = path.parent().unwrap_or(Path::new("."));
        let beside =
            if matches!(stem, "lib" | "main" | "mod") { parent.to_owned() } else { parent.join(stem) };
        for child in children {
            let flat = beside.join(format!("{child}.rs"));
            let nested = beside.join(&child).join("mod.rs");
            let path = if flat.exists() { flat } else { nested };
            self.read_file([module.clone(), vec![child]].concat(), path);
        }
        file.path = path;
        self.files.insert(module, file);
    }

    /// For each module, the others of this crate that it needs.
    pub(crate) fn arrows(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let of = |(module, file): (&'_ Module, &'_ File)| {
            let to: BTreeSet<Module> = file.named.iter().filter_map(|path| self.home(path, 0)).collect();
            (module.clone(), to)
        };
        let all: BTreeMap<Module, BTreeSet<Module>> = self.files.iter().map(of).collect();
        let own = |module: &Module| self.files.get_key_value(module).map(|(key, _)| key);
        all.iter()
            .filter_map(|(from, to)| {
                let to = to.iter().filter(|to| *to != from).filter_map(own).collect();
                Some((own(from)?, to))
            })
            .collect()
    }

    /// The module in which stands what `path` names: what is only passed on stands where it comes
    /// from.
    fn home(&self, path: &[String], depth: usize) -> Option<Module> {
        let path = path.strip_prefix(&["crate".to_owned()])?;
        let known = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(known);
        let passed_on = rest.first().and_then(|name| self.files[module].imports.get(name));
        match passed_on {
            Some(target) if depth < 8 && target.first().is_some_and(|first| first == "crate") => {
                self.home(&[target.as_slice(), &rest[1..]].concat(), depth + 1)
            }
            // From another crate.
            Some(_) => None,
            None => Some(module.to_vec()),
        }
    }

    /// Modules that need each other, directly or by way of others: each group, the largest first.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.arrows();
        let reach = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&Module> = arrows[from].iter().copied().collect();
            while let Some(module) = next.pop() {
                if seen.insert(module.clone()) {
                    next.extend(arrows[module].iter().copied());
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            arrows.keys().map(|module| (*module, reach(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, to) in &reached {
            let circle: Vec<String> = reached
                .iter()
                .filter(|(other, back)| to.contains(**other) && back.contains(*module))
                .map(|(other, _)| name(other))
                .collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// Every name that is defined, with the file.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files
            .values()
            .flat_map(|file| file.defined.iter().map(|name| (file.path.as_path(), name.as_str())))
    }

    /// Whether this crate, in its modules or in what it passes on, names that other one.
    pub(crate) fn names(&self, other: &str) -> bool {
        let begins_so = |path: &Vec<String>| path.first().is_some_and(|first| first == other);
        self.files.values().any(|file| file.named.iter().chain(file.imports.values()).any(begins_so))
    }

    /// Whether a path, from this crate's own name on or from any of its modules, is that of a
    /// module, or of what one has.
    pub(crate) fn has(&self, own_name: &str, path: &[String]) -> bool {
        let Some((name, before)) = path.split_last() else { return false };
        self.files.iter().any(|(module, file)| {
            let full = [vec![own_name.to_owned()], module.clone()].concat();
            let within = || file.defined.contains(name) || file.imports.contains_key(name);
            full.ends_with(path) || full.ends_with(before) && within()
        })
    }

    /// Every type and trait that leaves its module, with the file.
    pub(crate) fn shared_types(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files
            .values()
            .flat_map(|file| file.shared.iter().map(|name| (file.path.as_path(), name.as_str())))
    }

    /// Every public function whose error is a text, with the file.
    pub(crate) fn text_errors(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files
            .values()
            .flat_map(|file| file.text_errors.iter().map(|name| (file.path.as_path(), name.as_str())))
    }

    /// Every path of the standard library that begins so, with the file that names it.
    pub(crate) fn naming<'a>(&'a self, forbidden: &'a [&str]) -> impl Iterator<Item = (String, String)> + 'a {
        self.files.values().flat_map(move |file| {
            file.named.iter().filter_map(move |path| {
                let path = path.join("::");
                let is = |begin: &&str| {
                    path.strip_prefix(*begin).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                forbidden.iter().any(is).then(|| (file.path.display().to_string(), path))
            })
        })
    }
}

/// A module as it is written in paths.
pub(crate) fn name(module: &[String]) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// Goes through one file.
struct Reader {
    module: Module,
    /// Modules without a file of their own that it is inside of.
    inside: Vec<String>,
    file: File,
    children: Vec<String>,
    /// Whether the import that is read now is passed on to others: that is no need of this module.
    passes_on: bool,
}

impl Reader {
    fn define(&mut self, name: &syn::Ident) {
        self.file.defined.insert(name.to_string());
    }

    fn define_type(&mut self, name: &syn::Ident, visibility: &Visibility) {
        self.define(name);
        if !matches!(visibility, Visibility::Inherited) {
            self.file.shared.insert(name.to_string());
        }
    }

    /// A path as it is named from the root: `super::X` in `a::b` is `crate::a::X`.
    fn absolute(&self, path: &[String]) -> Vec<String> {
        let here = || [vec!["crate".to_owned()], self.module.clone(), self.inside.clone()].concat();
        match path.first().map(String::as_str) {
            Some("self") => [here(), path[1..].to_vec()].concat(),
            Some("super") => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let mut here = here();
                here.truncate(here.len().saturating_sub(ups).max(1));
                [here, path[ups..].to_vec()].concat()
            }
            // One word alone is a variable, not a module.
            Some(first)
                if path.len() > 1
                    && self.inside.is_empty()
                    && self.children.iter().any(|child| child == first) =>
            {
                [here(), path.to_vec()].concat()
            }
            Some(first) => match self.file.imports.get(first) {
                Some(target) => [target.clone(), path[1..].to_vec()].concat(),
                None => path.to_vec(),
            },
            None => Vec::new(),
        }
    }

    fn name(&mut self, path: &syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let full = self.absolute(&names);
        self.file.named.insert(full);
    }

    fn check_error(&mut self, visibility: &Visibility, signature: &syn::Signature) {
        if matches!(visibility, Visibility::Public(_))
            && let syn::ReturnType::Type(_, output) = &signature.output
            && has_text_error(output)
        {
            self.file.text_errors.insert(signature.ident.to_string());
        }
    }

    fn import(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree)),
            UseTree::Glob(_) => {
                let path = self.absolute(before);
                self.file.named.insert(path);
            }
            UseTree::Name(name) => {
                let path = if name.ident == "self" { before.to_vec() } else { with(&name.ident) };
                self.imported(path.last().cloned().unwrap_or_default(), &path);
            }
            UseTree::Rename(rename) => {
                let path = if rename.ident == "self" { before.to_vec() } else { with(&rename.ident) };
                self.imported(rename.rename.to_string(), &path);
            }
        }
    }

    fn imported(&mut self, name: String, path: &[String]) {
        let path = self.absolute(path);
        if !self.passes_on {
            self.file.named.insert(path.clone());
        }
        if self.inside.is_empty() {
            self.file.imports.insert(name, path);
        }
    }
}

/// Whether this is a text, owned or lent.
fn is_text(of: &syn::Type) -> bool {
    match of {
        syn::Type::Reference(to) => is_text(&to.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let inner = match &last.arguments {
                syn::PathArguments::AngleBracketed(inner) => inner
                    .args
                    .iter()
                    .any(|argument| matches!(argument, syn::GenericArgument::Type(inner) if is_text(inner))),
                _ => false,
            };
            matches!(last.ident.to_string().as_str(), "String" | "str") || inner
        }),
        _ => false,
    }
}

/// Whether a `Result` whose error is a text stands anywhere in what a function returns.
fn has_text_error(output: &syn::Type) -> bool {
    #[derive(Default)]
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            if segment.ident == "Result"
                && let syn::PathArguments::AngleBracketed(of) = &segment.arguments
                && let Some(syn::GenericArgument::Type(error)) = of.args.iter().nth(1)
            {
                self.0 |= is_text(error);
            }
            syn::visit::visit_path_segment(self, segment);
        }
    }
    let mut finder = Finder::default();
    finder.visit_type(output);
    finder.0
}

/// Whether it is there in tests alone.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_file(&mut self, file: &'ast syn::File) {
        // Names of modules and imports hold in the whole file, wherever they stand.
        for item in &file.items {
            if let Item::Mod(ItemMod { attrs, ident, content: None, .. }) = item
                && !is_of_tests(attrs)
            {
                self.children.push(ident.to_string());
            }
        }
        for item in &file.items {
            if let Item::Use(item) = item
                && !is_of_tests(&item.attrs)
            {
                self.visit_item_use(item);
            }
        }
        syn::visit::visit_file(self, file);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if is_of_tests(attributes) {
            return;
        }
        match item {
            Item::Struct(item) => self.define_type(&item.ident, &item.vis),
            Item::Enum(item) => self.define_type(&item.ident, &item.vis),
            Item::Fn(item) => {
                self.define(&item.sig.ident);
                self.check_error(&item.vis, &item.sig);
            }
            Item::Mod(item) => self.define(&item.ident),
            Item::Const(item) => self.define(&item.ident),
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define_type(&item.ident, &item.vis);
        for method in &item.items {
            if let syn::TraitItem::Fn(method) = method {
                self.check_error(&item.vis, &method.sig);
            }
        }
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.define_type(&item.ident, &item.vis);
        syn::visit::visit_item_type(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.define(&item.sig.ident);
        self.check_error(&item.vis, &item.sig);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.define(&item.sig.ident);
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_impl_item_type(&mut self, item: &'ast syn::ImplItemType) {
        if matches!(item.ident.to_string().as_str(), "Err" | "Error") && is_text(&item.ty) {
            self.file.text_errors.insert(item.ident.to_string());
        }
        syn::visit::visit_impl_item_type(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        field.ident.iter().for_each(|name| self.define(name));
        syn::visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.define(&variant.ident);
        syn::visit::visit_variant(self, variant);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_some() {
            self.inside.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.inside.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.passes_on = !matches!(item.vis, Visibility::Inherited);
        self.import(&[], &item.tree);
        self.passes_on = false;
    }

    /// Where something may be seen is no need of it.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.name(path);
        syn::visit::visit_path(self, path);
    }

    /// What is derived is named, too.
    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        let paths = Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
        if list.path.is_ident("derive")
            && let Ok(derived) = list.parse_args_with(paths)
        {
            derived.iter().for_each(|path| self.name(path));
        }
        syn::visit::visit_meta_list(self, list);
    }
}
