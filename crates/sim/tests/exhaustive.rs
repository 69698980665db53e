//! Spaces of small histories: a part of one, and the names of states.

use zoneweave_sim::simulate::exhaustive::{SPACES, Space, StateName, replay, search};

#[test]
fn the_shortest_traces_hold_what_is_promised_after_every_crash() {
    let space = Space::named("two-ops").unwrap();
    // Each kind of drives: the start alone, and one write.
    for case in 0..6 {
        let result = search(space, case);
        assert!(result.found.is_none(), "{:?}", result.found);
        assert!(result.searched.distinct > 50);
        assert!(result.searched.states >= result.searched.distinct);
        assert!(result.searched.starts > result.searched.distinct);
    }
}

#[test]
fn a_member_that_is_missing_at_a_start_and_back_at_the_next_is_covered() {
    let space = Space::named("missing-and-back").unwrap();
    // Each kind of drives: nothing, and one operation.
    for case in 0..12 {
        let result = search(space, case);
        assert!(result.found.is_none(), "{:?}", result.found);
        assert!(result.searched.starts > result.searched.distinct);
    }
}

#[test]
fn a_zoned_volume_holds_what_is_promised_after_every_crash() {
    let space = Space::named("zoned-one-op").unwrap();
    // Each kind of drives and each filling: the start alone, and one write.
    for case in 0..8 {
        let result = search(space, case);
        assert!(result.found.is_none(), "{:?}", result.found);
        assert!(result.searched.states >= result.searched.distinct);
        assert!(result.searched.starts > result.searched.distinct);
    }
}

#[test]
fn a_case_is_searched_the_same_way_every_time() {
    let space = Space::named("two-ops").unwrap();
    assert_eq!(search(space, 4).searched, search(space, 4).searched);
}

#[test]
fn one_state_can_be_visited_by_its_name() {
    let space = Space::named("two-ops").unwrap();
    let state: StateName = "3:0:0:0.0.0.0:lost2".parse().unwrap();
    let story = replay(space, &state).unwrap();
    assert!(story.contains("protected drives, fresh array: write 0+1"), "{story}");
}

#[test]
fn spaces_have_names_of_their_own_and_tell_their_size() {
    for space in SPACES {
        assert_eq!(Space::named(space.name).unwrap().name, space.name);
        assert!(space.size().starts_with(&space.cases().to_string()));
    }
}
