//! The laws of this repository. Each test reports every breach at once, with what to do about it.

mod dependencies;
mod imports;
mod links;
mod mentions;
mod sources;

/// Fails with one line per breach.
#[track_caller]
fn assert_lawful(law: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{law}\n  {}", breaches.join("\n  "));
}
