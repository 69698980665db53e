//! Small crates, and the imports that are found in them.

use crate::{Circle, ImportGraph, Repository};

/// Every import of a crate of these files, `from to name`, without the folder and the extension.
fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let graph = graph(files);
    let short = |path: &str| path.trim_start_matches("c/src/").trim_end_matches(".rs").to_owned();
    let line = |from: &str, to: &str, name: &str| format!("{} {} {name}", short(from), short(to));
    graph
        .edges()
        .flat_map(|(from, to, names)| names.iter().map(move |name| line(from, to, name)))
        .collect()
}

fn graph(files: &[(&str, &str)]) -> ImportGraph {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("c/src/{path}.rs"), *text)).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    ImportGraph::read(&Repository::of(&files), "c/src/lib.rs")
}

#[test]
fn imports_are_found_in_trees_and_in_paths() {
    let found = imports(&[
        ("lib", "mod a; mod b; mod c;"),
        (
            "a",
            "use crate::{b::{self, B as Other}, c::*};\nfn f() { b::g::<Other>(); super::c::h(); }",
        ),
        ("b", "pub struct B; pub fn g() {}"),
        ("c", "pub fn h() {}"),
    ]);
    assert_eq!(found, ["a b B", "a b g", "a c *", "a c h"]);
}

#[test]
fn re_exports_lead_to_the_file_that_defines() {
    let found = imports(&[
        ("lib", "mod a; mod b; pub use b::X;"),
        (
            "a",
            "use crate::X; use crate::b::Y; use crate::b::deep::Z; fn f() -> crate::b::V { Y::V }",
        ),
        ("b/mod", "mod c; pub mod deep { pub use super::c::*; } pub use c::{X, Y, W as V};"),
        ("b/c", "pub struct X; pub enum Y { V } pub struct Z; pub struct W;"),
    ]);
    assert_eq!(found, ["a b/c W", "a b/c X", "a b/c Y", "a b/c Z"]);
}

#[test]
fn tests_visibilities_and_comments_import_nothing() {
    let found = imports(&[
        ("lib", "mod a; mod b; #[macro_use] mod m;"),
        (
            "a",
            "//! [`crate::b::X`]\n#[cfg(test)]\nuse crate::b::X;\n#[cfg(all(test, unix))] mod tests { use \
             crate::b::X; }\npub(in crate::b) struct S<'a>(&'a str); // crate::b::X\n\
             #[cfg(test)] impl S { fn f(&self) { crate::b::g() } }\n\
             fn f() { \"crate::b::X\"; crate::mark!(1); S::b::X; std::mem::take(); }",
        ),
        ("b", "pub struct X;"),
        ("m", "#[macro_export] macro_rules! mark { () => {} }"),
    ]);
    assert_eq!(found, ["a m mark"]);
}

#[test]
fn a_module_and_its_child_are_apart() {
    let files = [
        ("lib", "mod a; mod b;"),
        ("a", "mod c; use c::C; pub struct A; pub struct D(C);"),
        ("a/c", "use super::A; use crate::b::B; pub struct C(A, B);"),
        ("b", "use crate::a::D; pub struct B(D);"),
    ];
    assert_eq!(imports(&files), ["a/c b B", "b a D"]);
    assert!(Circle::all(&graph(&files)).is_empty());
}

#[test]
fn a_circle_is_found_with_what_opens_it() {
    let graph = graph(&[
        ("lib", "mod a; mod b; mod c; mod d;"),
        ("a", "use crate::b::B; pub struct A;"),
        ("b", "use crate::c::C; pub struct B;"),
        ("c", "use crate::a::A; use crate::d::D; pub struct C;"),
        ("d", "pub struct D;"),
    ]);
    let circles = Circle::all(&graph);
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].files, ["c/src/a.rs", "c/src/b.rs", "c/src/c.rs"]);
    assert_eq!((circles[0].edges.len(), circles[0].cut.len()), (3, 1));
}
