//! Circles of imports: sets of files in which each one leads to each other one.

use std::collections::BTreeSet;

use crate::ImportGraph;

/// Files that import each other in a circle, and how it could be opened.
#[derive(Debug)]
pub struct Circle {
    /// The files, in order.
    pub files: Vec<String>,
    /// Imports within the circle: importer, imported, names.
    pub edges: Vec<Edge>,
    /// A small set of `edges` without which there is no circle. Finding the smallest is a hard
    /// problem; this one is good enough to begin with.
    pub cut: Vec<Edge>,
}

/// An import of one file by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The importer.
    pub from: String,
    /// The imported file.
    pub to: String,
    /// The imported names.
    pub names: Vec<String>,
}

impl Circle {
    /// Every circle of a crate, the largest first.
    #[must_use]
    pub fn all(graph: &ImportGraph) -> Vec<Self> {
        let mut circles: Vec<Self> =
            components(graph).into_iter().map(|files| Self::of(graph, &files)).collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
        circles
    }

    fn of(graph: &ImportGraph, members: &BTreeSet<usize>) -> Self {
        let inside: Vec<(usize, usize)> = graph
            .numbered_edges()
            .filter(|(from, to, _)| members.contains(from) && members.contains(to))
            .map(|(from, to, _)| (from, to))
            .collect();
        let order = order(&members.iter().copied().collect::<Vec<usize>>(), &inside);
        let rank = |file: usize| order.iter().position(|other| *other == file);
        let mut circle = Self { files: Vec::new(), edges: Vec::new(), cut: Vec::new() };
        circle.files = members.iter().map(|file| graph.files()[*file].clone()).collect();
        for (from, to, names) in graph.numbered_edges() {
            if !inside.contains(&(from, to)) {
                continue;
            }
            let name = |file: usize| graph.files()[file].clone();
            let names = names.iter().cloned().collect();
            let edge = Edge { from: name(from), to: name(to), names };
            if rank(from) > rank(to) {
                circle.cut.push(edge.clone());
            }
            circle.edges.push(edge);
        }
        circle
    }
}

/// Sets of two or more files that reach each other.
fn components(graph: &ImportGraph) -> Vec<BTreeSet<usize>> {
    let count = graph.files().len();
    let mut next = vec![Vec::new(); count];
    for (from, to, _) in graph.numbered_edges() {
        next[from].push(to);
    }
    let reached: Vec<BTreeSet<usize>> = (0..count).map(|file| reached(&next, file)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for file in 0..count {
        let is_mutual = |other: &usize| reached[*other].contains(&file);
        let members: BTreeSet<usize> = reached[file].iter().copied().filter(is_mutual).collect();
        if !members.is_empty() && seen.insert(members.clone()) {
            found.push(members);
        }
    }
    found
}

/// Files that a file leads to, itself only if it leads back to itself.
fn reached(next: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = next[from].clone();
    while let Some(file) = waiting.pop() {
        if reached.insert(file) {
            waiting.extend(&next[file]);
        }
    }
    reached
}

/// An order of the files with few imports backwards: files are moved to their best places until no
/// move helps.
fn order(files: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let degree = |file: &usize| {
        let out = edges.iter().filter(|(from, _)| from == file).count();
        let into = edges.iter().filter(|(_, to)| to == file).count();
        (into + 1) * 1000 / (out + 1)
    };
    let mut order = files.to_vec();
    order.sort_by_key(degree);
    loop {
        let mut improved = false;
        for file in files {
            improved |= move_to_best_place(&mut order, *file, edges);
        }
        if !improved {
            return order;
        }
    }
}

fn move_to_best_place(order: &mut Vec<usize>, file: usize, edges: &[(usize, usize)]) -> bool {
    let start = order.iter().position(|other| *other == file).expect("the order has each file");
    order.remove(start);
    let imports = |from: usize, to: usize| i64::from(edges.contains(&(from, to)));
    // Backward imports of the file when it stands first: those of it by all others.
    let mut backward: i64 = order.iter().map(|other| imports(*other, file)).sum();
    let (mut best, mut best_at, mut at_start) = (backward, 0, backward);
    for (at, other) in order.iter().enumerate() {
        backward += imports(file, *other) - imports(*other, file);
        if at + 1 == start {
            at_start = backward;
        }
        if backward < best {
            (best, best_at) = (backward, at + 1);
        }
    }
    let improved = best < at_start;
    order.insert(if improved { best_at } else { start }, file);
    improved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edge_opens_a_ring() {
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        let order = order(&[0, 1, 2, 3], &ring);
        let rank = |file: usize| order.iter().position(|other| *other == file);
        assert_eq!(ring.iter().filter(|(from, to)| rank(*from) > rank(*to)).count(), 1);
    }
}
