//! The terminal: raw and on its other screen, until this is dropped. A panic restores it as well,
//! before its message.

use std::io;

use ratatui::{DefaultTerminal, Frame, crossterm};

/// The terminal while frames are drawn on it.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If it cannot be made raw, or is gone.
    pub(super) fn open(color: bool) -> io::Result<Self> {
        // Whether there are colours was decided before: crossterm would look at `NO_COLOR` alone.
        crossterm::style::force_color_output(color);
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                // Some of it may have been done.
                let _ = ratatui::try_restore();
                Err(error)
            }
        }
    }

    /// Draws a frame of the size that the terminal has now; only what changed is written.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(frame).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}
