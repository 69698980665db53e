//! Lists the circles of imports of each crate: files that all lead to each other, the imports
//! between them, and a small set of imports to cut.
//!
//! `cargo run -q -p zoneweave-tidy --example circles -- raid --edges`
//!
//! Words are names of crates (all of them without one); `--edges` lists every import of a circle,
//! `--all` every import of the crate.

#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use zoneweave_tidy::{Circle, Edge, ImportGraph, Repository};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all_edges = arguments.iter().any(|argument| argument == "--edges");
    let all_imports = arguments.iter().any(|argument| argument == "--all");
    let crates: Vec<&String> =
        arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let repository = Repository::read();
    for (name, root) in repository.crate_roots() {
        if !crates.is_empty() && !crates.iter().any(|wanted| **wanted == name) {
            continue;
        }
        let graph = ImportGraph::read(&repository, &root);
        let circles = Circle::all(&graph);
        let in_circles: usize = circles.iter().map(|circle| circle.files.len()).sum();
        let edges = graph.edges().count();
        println!("{name}: {} files, {edges} imports, {in_circles} in circles", graph.files().len());
        for (from, to, names) in graph.edges().filter(|_| all_imports) {
            let names = names.iter().cloned().collect();
            print(&Edge { from: from.to_owned(), to: to.to_owned(), names });
        }
        for circle in circles {
            println!("  circle of {} files:", circle.files.len());
            circle.files.iter().for_each(|file| println!("    {file}"));
            if all_edges {
                println!("  its {} imports:", circle.edges.len());
                circle.edges.iter().for_each(print);
            }
            println!("  without these {} there is none:", circle.cut.len());
            circle.cut.iter().for_each(print);
        }
    }
}

fn print(edge: &Edge) {
    println!("    {} -> {}: {}", edge.from, edge.to, edge.names.join(", "));
}
