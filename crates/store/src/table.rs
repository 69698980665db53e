//! Open files by number.

use std::cell::RefCell;
use std::rc::Rc;

use slab::Slab;

use crate::failure::Failure;

/// Open files. A number is used again, but only after its handle was closed.
pub struct Table<T>(RefCell<Slab<Rc<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Table<T> {
    /// Adds a file; returns its number.
    pub fn add(&self, file: T) -> usize {
        self.0.borrow_mut().insert(Rc::new(file))
    }

    /// A file.
    ///
    /// # Errors
    /// If it was closed.
    pub fn get(&self, key: usize) -> Result<Rc<T>, Failure> {
        self.0.borrow().get(key).cloned().ok_or_else(Failure::closed)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If it was closed.
    pub fn remove(&self, key: usize) -> Result<Rc<T>, Failure> {
        self.0.borrow_mut().try_remove(key).ok_or_else(Failure::closed)
    }

    /// Files that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }
}
