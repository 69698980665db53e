//! Page pins: which pages are in memory, if not all have to be, and which of them are in use.
//!
//! A task pins the pages that it uses; a pinned page stays in memory. Pages are pinned before they
//! are loaded, and counted when they are. The counts answer whether pages have to be evicted
//! without examining each page.

use std::collections::BTreeMap;

use crate::log::engine::address::Page;
use crate::log::engine::footprint::in_tree;

/// The purpose of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum For {
    /// For users' requests, which wait for evictions.
    Users,
    /// For relocation, which does not wait, as it frees space for all.
    Moving,
}

/// Number of pins of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Pins {
    users: u32,
    moving: u32,
}

impl Pins {
    fn of(&mut self, whom: For) -> &mut u32 {
        match whom {
            For::Users => &mut self.users,
            For::Moving => &mut self.moving,
        }
    }

    fn any(self) -> bool {
        self.users + self.moving > 0
    }

    fn only_moving(self) -> bool {
        self.users == 0 && self.moving > 0
    }
}

/// Counts of the pages in memory.
#[derive(Debug, Default)]
pub(in crate::log) struct PagePins {
    /// Pages in memory, and the most since the start.
    here: u64,
    most: u64,
    pins: BTreeMap<Page, Pins>,
    /// Pinned pages in memory, and those pinned only by relocation.
    pinned: u64,
    moving: u64,
}

impl PagePins {
    /// Memory of a pinned page, in bytes.
    pub(super) const PIN: u64 = in_tree(size_of::<(Page, Pins)>());

    /// Records that a page was loaded.
    pub(in crate::log) fn come(&mut self, page: Page) {
        self.here += 1;
        self.most = self.most.max(self.here);
        if let Some(pins) = self.pins.get(&page) {
            self.recount(Pins::default(), *pins);
        }
    }

    /// Records that a page was dropped.
    ///
    /// # Panics
    /// If it is pinned.
    pub(in crate::log) fn go(&mut self, page: Page) {
        assert!(!self.is_pinned(page), "page {} is worked with", page.0);
        assert!(self.here > 0, "page {} is dropped from an empty cache", page.0);
        self.here -= 1;
    }

    /// Pins a page; `here` if it is in memory.
    pub(in crate::log) fn pin(&mut self, page: Page, whom: For, here: bool) {
        let pins = self.pins.entry(page).or_default();
        let before = *pins;
        *pins.of(whom) += 1;
        let after = *pins;
        if here {
            self.recount(before, after);
        }
    }

    /// Removes a pin; `here` if the page is in memory.
    ///
    /// # Panics
    /// If it was not pinned.
    pub(in crate::log) fn unpin(&mut self, page: Page, whom: For, here: bool) {
        let pins = self.pins.get_mut(&page).expect("it is pinned");
        let before = *pins;
        let count = *pins.of(whom);
        assert!(count > 0, "page {} has no pin of {whom:?} left", page.0);
        *pins.of(whom) -= 1;
        let after = *pins;
        if !after.any() {
            self.pins.remove(&page);
        }
        if here {
            self.recount(before, after);
        }
    }

    fn recount(&mut self, before: Pins, after: Pins) {
        self.pinned = self.pinned + u64::from(after.any()) - u64::from(before.any());
        self.moving =
            self.moving + u64::from(after.only_moving()) - u64::from(before.only_moving());
        assert!(
            self.moving <= self.pinned,
            "{} pages are pinned by relocation, and {} by any task",
            self.moving,
            self.pinned
        );
    }

    /// Whether a page is pinned.
    #[must_use]
    pub(super) fn is_pinned(&self, page: Page) -> bool {
        self.pins.contains_key(&page)
    }

    /// Number of pages in memory.
    #[must_use]
    pub(in crate::log) fn here(&self) -> u64 {
        self.here
    }

    /// Most pages in memory since the start.
    #[must_use]
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Pages in memory beyond `pages`, without those pinned only by relocation, and how many may be
    /// evicted. `kept` pages count for neither.
    #[must_use]
    pub(super) fn beyond(&self, pages: u64, kept: u64) -> (u64, u64) {
        let here = self.here.saturating_sub(kept);
        (here.saturating_sub(self.moving + pages), here.saturating_sub(self.pinned))
    }

    /// Memory of the pins, in bytes.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        self.pins.len() as u64 * Self::PIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_pages_are_counted_while_they_are_here() {
        let mut pins = PagePins::default();
        let counts = |pins: &PagePins| (pins.here, pins.pinned, pins.moving);
        pins.pin(Page(1), For::Moving, false);
        assert_eq!(counts(&pins), (0, 0, 0));
        pins.come(Page(1));
        pins.come(Page(2));
        assert_eq!(counts(&pins), (2, 1, 1));
        pins.pin(Page(1), For::Users, true);
        assert_eq!(counts(&pins), (2, 1, 0));
        pins.unpin(Page(1), For::Moving, true);
        assert_eq!(counts(&pins), (2, 1, 0));
        pins.unpin(Page(1), For::Users, true);
        assert_eq!((counts(&pins), pins.bytes()), ((2, 0, 0), 0));
        pins.go(Page(1));
        assert_eq!((pins.here(), pins.most()), (1, 2));
    }

    #[test]
    fn pages_of_what_is_moved_come_beside_those_of_users() {
        let mut pins = PagePins::default();
        (0..10).for_each(|page| pins.come(Page(page)));
        assert_eq!(pins.beyond(10, 0), (0, 10));
        for page in 10..30 {
            pins.pin(Page(page), For::Moving, false);
            pins.come(Page(page));
        }
        assert_eq!(pins.beyond(10, 0), (0, 10), "none of users' has to go for them");
        pins.pin(Page(10), For::Users, true);
        assert_eq!(pins.beyond(10, 0), (1, 10));
        (11..30).for_each(|page| pins.unpin(Page(page), For::Moving, true));
        assert_eq!(pins.beyond(10, 0), (20, 29));
        assert_eq!(pins.beyond(10, 5), (15, 24));
    }

    #[test]
    #[should_panic(expected = "page 3 is worked with")]
    fn a_page_that_is_worked_with_does_not_go() {
        let mut pins = PagePins::default();
        pins.come(Page(3));
        pins.pin(Page(3), For::Users, true);
        pins.go(Page(3));
    }
}
