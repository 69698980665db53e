//! A frame for terminals without colours, or without more than ASCII.
//!
//! It changes the cells of a drawn frame, so no section has to know. States are words, and signs of
//! the zone map differ in ASCII too: nothing is told by a colour alone.

use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::Look;

/// Takes out what the terminal cannot show.
pub(super) fn adapt(buffer: &mut Buffer, look: &Look) {
    for cell in &mut buffer.content {
        if !look.color {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
        if !look.unicode && !cell.symbol().is_ascii() {
            let sign = ascii(cell.symbol());
            cell.set_char(sign);
        }
    }
}

fn ascii(symbol: &str) -> char {
    match symbol {
        "·" => '.',
        "░" => '-',
        "▒" => '+',
        "▓" => '%',
        "█" => '#',
        "▶" => '>',
        "…" => '~',
        _ => '?',
    }
}
