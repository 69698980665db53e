//! A bus between a controller and some dies: a calendar of transfers.

use std::collections::VecDeque;

use crate::Picos;

#[derive(Clone, Copy, Debug)]
struct Transfer {
    start: Picos,
    end: Picos,
}

/// The transfers to come, in order, neighbours merged.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    busy: VecDeque<Transfer>,
}

impl Channel {
    /// Takes the first gap of `length` that begins at `earliest` or later; returns its end. Later
    /// calls never need time before `now`.
    pub(super) fn reserve(&mut self, now: Picos, earliest: Picos, length: Picos) -> Picos {
        while self.busy.front().is_some_and(|first| first.end <= now) {
            self.busy.pop_front();
        }
        let mut start = earliest;
        let mut place = self.busy.len();
        for (index, transfer) in self.busy.iter().enumerate() {
            if start + length <= transfer.start {
                place = index;
                break;
            }
            start = start.max(transfer.end);
        }
        let end = start + length;
        match place.checked_sub(1).and_then(|before| self.busy.get_mut(before)) {
            Some(before) if before.end == start => before.end = end,
            _ => self.busy.insert(place, Transfer { start, end }),
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_fill_gaps_and_never_overlap() {
        let mut channel = Channel::default();
        let mut reserve = |now, at, length| channel.reserve(Picos(now), Picos(at), Picos(length)).0;
        assert_eq!(reserve(0, 10, 5), 15);
        assert_eq!(reserve(0, 20, 5), 25);
        assert_eq!(reserve(0, 12, 5), 20, "behind the first, before the second");
        assert_eq!(reserve(0, 4, 6), 10);
        assert_eq!(reserve(0, 0, 5), 30, "no gap before 25 is wide enough");
        assert_eq!(reserve(30, 30, 1), 31);
    }
}
