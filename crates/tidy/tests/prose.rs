//! Documents and comments are short, plain English: paragraphs of at most 100 words, sentences of
//! at most 40, lines of comments of at most 100 columns, and 5 vague words in 1,000.

use zoneweave_tidy::{Count, Repository};

use crate::assert_ratchets;

#[test]
fn prose_is_plain() {
    let counts = Count::prose(&Repository::read());
    assert_ratchets(
        "paragraphs (over 100 words), sentences (over 40), columns (over 100) or words (what, who, \
         whoever, whatever, those that: over 5 in 1,000); `cargo run -q -p zoneweave-tidy --example \
         wrap -- PATH` breaks wide comments:",
        &counts,
    );
}
