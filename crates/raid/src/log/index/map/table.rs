//! The entries of the index in memory: in one array, or page by page.
//!
//! An entry is zero for an unmapped block, else its address plus one. The index interprets entries,
//! and the caller makes sure that pages are in memory before their entries are changed.

use std::hint::black_box;
use std::ops::Range;

use zoneweave_zoned::Lba;

use crate::log::engine::address::{Divisor, Page, Pba};
use crate::log::format::checkpoint::StoredEntries;

/// An entry of the index: unmapped, or an address plus one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Entry(u64);

impl From<Pba> for Entry {
    fn from(pba: Pba) -> Self {
        Self(pba.0 + 1)
    }
}

impl Entry {
    /// The address, unless unmapped.
    #[must_use]
    pub(in crate::log) fn address(self) -> Option<Pba> {
        self.0.checked_sub(1).map(Pba)
    }
}

/// Entries of one width.
pub(in crate::log) enum Entries<T> {
    /// All of them, one after the other.
    Whole(Vec<T>),
    /// Those of pages that are in memory.
    Paged(Vec<Option<Box<[T]>>>),
}

impl<T: Copy + Default> Entries<T> {
    fn get(&self, lba: Lba, pages: Divisor) -> T {
        match self {
            Self::Whole(entries) => entries[lba.index()],
            Self::Paged(entries) => {
                let (page, within) = pages.divide(lba.0);
                let entries = &entries[Lba(page).index()];
                entries.as_ref().map_or(T::default(), |entries| entries[Lba(within).index()])
            }
        }
    }

    /// Prefetches existing entries into the processor's caches.
    fn touch(&self, lbas: impl Iterator<Item = Lba>) {
        let Self::Whole(entries) = self else { return };
        lbas.filter_map(|lba| entries.get(lba.index())).for_each(|entry| {
            black_box(*entry);
        });
    }

    /// The entry of a block whose page is in memory.
    fn place(&mut self, lba: Lba, pages: Divisor) -> &mut T {
        match self {
            Self::Whole(entries) => &mut entries[lba.index()],
            Self::Paged(entries) => {
                let (page, within) = pages.divide(lba.0);
                let entries = entries[Lba(page).index()].as_mut();
                &mut entries.expect("it was taken in")[Lba(within).index()]
            }
        }
    }

    /// The entries of a page; empty if it is not in memory.
    fn of_page(&self, page: Page, entries_of_page: u64) -> &[T] {
        match self {
            Self::Whole(entries) => &entries[range_of(page, entries_of_page, entries.len())],
            Self::Paged(entries) => entries[Lba(page.0).index()].as_deref().unwrap_or_default(),
        }
    }

    /// The same for changes; the page is in memory.
    fn of_page_mut(&mut self, page: Page, entries_of_page: u64) -> &mut [T] {
        match self {
            Self::Whole(entries) => {
                let range = range_of(page, entries_of_page, entries.len());
                &mut entries[range]
            }
            Self::Paged(entries) => entries[Lba(page.0).index()].as_mut().expect("it was taken in"),
        }
    }

    fn holds(&self, page: Page) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Paged(entries) => entries[Lba(page.0).index()].is_some(),
        }
    }

    /// Puts an unmapped page into memory, or takes it out; returns whether it was there.
    fn put(&mut self, page: Page, there: bool, entries_of_page: u64) -> bool {
        let Self::Paged(entries) = self else { return true };
        let empty = || vec![T::default(); Lba(entries_of_page).index()].into_boxed_slice();
        let entries = &mut entries[Lba(page.0).index()];
        std::mem::replace(entries, there.then(empty)).is_some()
    }

    fn bytes(&self, pages: u64, entries_of_page: u64) -> u64 {
        match self {
            Self::Whole(entries) => (entries.capacity() * size_of::<T>()) as u64,
            Self::Paged(entries) => {
                let pointers = entries.capacity() * size_of::<Option<Box<[T]>>>();
                pointers as u64 + pages * (entries_of_page * size_of::<T>() as u64 + ALLOCATED)
            }
        }
    }
}

/// Overhead of the allocator for each page in memory, in bytes.
pub(in crate::log) const ALLOCATED: u64 = 16;

pub(in crate::log) enum Table {
    Narrow(Entries<u32>),
    /// Entries of five bytes are kept in eight while in memory.
    Wide(Entries<u64>),
}

impl Table {
    pub(in crate::log) fn whole(blocks: u64, entry_bytes: u8) -> Self {
        let length = Lba(blocks).index();
        match entry_bytes {
            4 => Self::Narrow(Entries::Whole(vec![0; length])),
            _ => Self::Wide(Entries::Whole(vec![0; length])),
        }
    }

    pub(in crate::log) fn paged(pages: u64, entry_bytes: u8) -> Self {
        assert!(matches!(entry_bytes, 4 | 5 | 8), "index entries of {entry_bytes} bytes");
        let length = Lba(pages).index();
        match entry_bytes {
            4 => Self::Narrow(Entries::Paged((0..length).map(|_| None).collect())),
            _ => Self::Wide(Entries::Paged((0..length).map(|_| None).collect())),
        }
    }

    #[inline]
    pub(in crate::log) fn get(&self, lba: Lba, pages: Divisor) -> u64 {
        match self {
            Self::Narrow(entries) => entries.get(lba, pages).into(),
            Self::Wide(entries) => entries.get(lba, pages),
        }
    }

    /// Prefetches entries into the processor's caches.
    pub(in crate::log) fn touch(&self, lbas: impl Iterator<Item = Lba>) {
        match self {
            Self::Narrow(entries) => entries.touch(lbas),
            Self::Wide(entries) => entries.touch(lbas),
        }
    }

    /// Replaces an entry; returns the former one.
    #[inline]
    pub(in crate::log) fn replace(&mut self, lba: Lba, pages: Divisor, entry: u64) -> u64 {
        match self {
            Self::Narrow(entries) => {
                let entry = u32::try_from(entry).expect("the entry width was chosen so");
                std::mem::replace(entries.place(lba, pages), entry).into()
            }
            Self::Wide(entries) => std::mem::replace(entries.place(lba, pages), entry),
        }
    }

    /// Fills in entries of a page that has none.
    pub(in crate::log) fn fill(&mut self, page: Page, of_page: u64, entries: &[Entry]) {
        match self {
            Self::Narrow(table) => {
                let narrow =
                    |entry: u64| u32::try_from(entry).expect("the entry width was chosen so");
                fill(table.of_page_mut(page, of_page), entries, narrow);
            }
            Self::Wide(table) => fill(table.of_page_mut(page, of_page), entries, |entry| entry),
        }
    }

    /// Calls `to` with the entries of a page, if it is in memory.
    pub(in crate::log) fn tell(&self, page: Page, of_page: u64, mut to: impl FnMut(Entry)) {
        match self {
            Self::Narrow(table) => {
                let entries = table.of_page(page, of_page).iter();
                entries.for_each(|entry| to(Entry((*entry).into())));
            }
            Self::Wide(table) => {
                table.of_page(page, of_page).iter().for_each(|entry| to(Entry(*entry)));
            }
        }
    }

    /// The first entries of a page in memory, in their form on media.
    pub(in crate::log) fn stored(
        &self,
        page: Page,
        of_page: u64,
        count: usize,
        entry_bytes: u8,
    ) -> StoredEntries {
        match self {
            Self::Narrow(table) => {
                let entries = table.of_page(page, of_page)[..count].iter();
                StoredEntries::of(entries.map(|entry| u64::from(*entry)), entry_bytes)
            }
            Self::Wide(table) => {
                let entries = table.of_page(page, of_page)[..count].iter();
                StoredEntries::of(entries.copied(), entry_bytes)
            }
        }
    }

    pub(in crate::log) fn holds(&self, page: Page) -> bool {
        match self {
            Self::Narrow(entries) => entries.holds(page),
            Self::Wide(entries) => entries.holds(page),
        }
    }

    pub(in crate::log) fn put(&mut self, page: Page, there: bool, entries_of_page: u64) -> bool {
        match self {
            Self::Narrow(entries) => entries.put(page, there, entries_of_page),
            Self::Wide(entries) => entries.put(page, there, entries_of_page),
        }
    }

    pub(in crate::log) fn bytes(&self, pages: u64, entries_of_page: u64) -> u64 {
        match self {
            Self::Narrow(entries) => entries.bytes(pages, entries_of_page),
            Self::Wide(entries) => entries.bytes(pages, entries_of_page),
        }
    }
}

/// The positions of a page's entries among so many.
fn range_of(page: Page, entries_of_page: u64, entries: usize) -> Range<usize> {
    let first = Lba(page.0 * entries_of_page).index();
    first..entries.min(first + Lba(entries_of_page).index())
}

fn fill<T: Copy + Default + PartialEq>(table: &mut [T], entries: &[Entry], of: impl Fn(u64) -> T) {
    let mut twice = false;
    // Entries beyond the page would be lost silently.
    assert!(entries.len() <= table.len(), "{} entries in a page of {}", entries.len(), table.len());
    for (place, entry) in table.iter_mut().zip(entries).filter(|(_, entry)| entry.0 > 0) {
        twice |= *place != T::default();
        *place = of(entry.0);
    }
    assert!(!twice, "an entry of a page is in the index before the page");
}

/// Bytes of an entry in memory.
pub(in crate::log) const fn in_memory(entry_bytes: u8) -> u64 {
    if entry_bytes == 4 { size_of::<u32>() as u64 } else { size_of::<u64>() as u64 }
}
